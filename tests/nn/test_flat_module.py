"""A module as a pure function of a flat vector: its template, its names and masks, and its initialisation."""

import copy
from collections.abc import Callable, Mapping

import pytest
import torch
from torch import Tensor, nn

from eigen_reptile.nn import Conv4, FlatModule, Mlp, Model, Network, SquaredError
from meta_batches import CPU
from samples import SAMPLES, normal


class Moving(nn.Module):
    """A module that changes a buffer whenever it is used, on which its outputs depend."""

    uses: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 4)
        self.register_buffer("uses", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.uses += 1
        output: Tensor = self.layer(x) * self.uses
        return output


MODULES: dict[str, Callable[[], nn.Module]] = {
    "batch-norm": lambda: nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)),
    "batch-norm in eval mode": lambda: nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)).eval(),
    "spectral norm": lambda: nn.utils.parametrizations.spectral_norm(nn.Linear(3, 4)),
    "moving buffer": Moving,
}


@pytest.mark.parametrize("name", MODULES)
def test_outputs_do_not_depend_on_earlier_calls(name: str) -> None:
    network = Network(FlatModule(MODULES[name]), SquaredError())
    theta, x = normal(1, 1, network.d).float(), normal(1, 1, SAMPLES, 3).float()
    first = network.outputs(theta, x)
    for seed in range(3):
        other = normal(1, 1, network.d, seed=seed).float()
        network.outputs(other, 10 * x)
        network.gradient(other, x, first, torch.ones(1, 1, SAMPLES))
    assert torch.equal(network.outputs(theta, x), first)


def test_norms_are_found_in_any_module() -> None:
    layers = [nn.Linear(4, 6), nn.LayerNorm(6), nn.Sequential(nn.Unflatten(1, (3, 2)), nn.BatchNorm1d(3))]
    module = FlatModule(lambda: nn.Sequential(*layers, nn.GroupNorm(3, 3), nn.Flatten()))
    assert module.norms == {f"{layer}.{part}" for layer in ("1", "2.1", "3") for part in ("weight", "bias")}
    assert module.mask(module.norms, CPU).tolist() == 30 * [False] + 24 * [True]


def test_the_users_module_is_left_as_it_was() -> None:
    module = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    before: Mapping[str, Tensor] = copy.deepcopy(module.state_dict())
    network = Network(FlatModule(lambda: module), SquaredError())
    theta, x = normal(1, 1, network.d).float(), normal(1, 1, SAMPLES, 3).float()
    network.outputs(theta, x)
    network.gradient(theta, x, x.new_zeros(1, 1, SAMPLES, 4), torch.ones(1, 1, SAMPLES))
    torch.testing.assert_close(module.state_dict(), before, rtol=0, atol=0)
    assert all(parameter.grad is None for parameter in module.parameters())


@pytest.mark.parametrize(
    "layer",
    [
        nn.Dropout(0.5),
        nn.Dropout2d(0.1),
        nn.AlphaDropout(0.2),
        nn.LSTM(4, 4, 2, dropout=0.5),
        nn.MultiheadAttention(4, 2, 0.1),
        nn.RReLU(),
    ],
)
def test_layers_that_draw_at_random_are_refused_by_name(layer: nn.Module) -> None:
    with pytest.raises(ValueError, match=r"^layer 1\.0 draws random numbers.* switch that off$"):
        FlatModule(lambda: nn.Sequential(nn.Linear(3, 4), nn.Sequential(layer)))
    FlatModule(lambda: nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.0)))


def small_module() -> FlatModule:
    return FlatModule(lambda: Conv4(4).build((1, 8, 8), 5))


def test_a_seed_determines_the_initialisation_whatever_the_global_generator_does() -> None:
    module = small_module()
    state = torch.get_rng_state()
    first, second = module.init(0), module.init(1)
    assert torch.equal(torch.get_rng_state(), state)
    torch.rand(5)
    assert torch.equal(small_module().init(0), first)
    assert not torch.equal(first, second)
    assert first.shape == (module.d,)
    assert not first.requires_grad


def test_making_a_flat_module_leaves_the_global_generator_alone() -> None:
    state = torch.get_rng_state()
    small_module()
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize(("model", "expected"), [(Conv4(4), 5), (Conv4(4, head=False), 4 * 1 * 2), (Mlp((3,)), 5)])
def test_features_are_the_number_of_outputs(model: Model, expected: int) -> None:
    assert FlatModule(lambda: model.build((1, 8, 20), 5)).features((1, 8, 20)) == expected


def test_names_of_layers() -> None:
    module = FlatModule(lambda: Conv4(4, layers="warp").build((1, 8, 8), 5))
    assert module.head == {"5.weight", "5.bias"}
    assert module.within(("warp",)) == {f"{block}.warp.{part}" for block in range(4) for part in ("weight", "bias")}
    assert module.within(("2", "5")) >= {"2.norm.weight", "2.warp.bias", "5.bias"}
    assert module.within(("noise",)) == frozenset()
    assert sum(module.sizes) == module.d == len(module.init(0))


def test_a_mask_is_made_once_for_each_set_of_names() -> None:
    module = small_module()
    mask = module.mask(module.head, CPU)
    assert module.mask(frozenset(["5.bias", "5.weight"]), torch.device("cpu")) is mask
    assert mask.nonzero().flatten().tolist() == list(range(module.d - 4 * 5 - 5, module.d))
    norms = module.mask(module.norms, CPU)
    assert norms is not mask
    assert module.mask(module.norms, CPU) is norms
    assert int(norms.sum()) == 4 * 2 * 4
