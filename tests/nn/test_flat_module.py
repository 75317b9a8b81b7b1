"""A module as a pure function of a flat vector: its template, its names and masks, and its initialisation."""

import copy
from collections.abc import Callable, Mapping

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import dropout
from torch.nn.utils import prune

from eigen_reptile.errors import ConfigError
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


class Calling(nn.Module):
    """A linear layer whose outputs pass through a function."""

    def __init__(self, function: Callable[[Tensor], object]) -> None:
        super().__init__()
        self.layer, self.function = nn.Linear(3, 4), function

    def forward(self, x: Tensor) -> object:
        return self.function(self.layer(x))


class TwoInputs(nn.Linear):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:  # type: ignore[override]
        return super().forward(x + y)


def frozen(name: str) -> nn.Module:
    module = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    module.get_parameter(name).requires_grad_(False)
    return module


def with_parameter(values: Tensor) -> nn.Module:
    module = nn.Linear(3, 4)
    module.register_parameter("extra", nn.Parameter(values, requires_grad=False))
    return module


def with_attribute() -> nn.Module:
    module = nn.Sequential(nn.Linear(3, 4))
    module[0].scale = torch.ones(4, requires_grad=True)
    return module


def hooked_weight() -> nn.Module:
    module = nn.Sequential(nn.Linear(3, 4))
    prune.random_unstructured(module[0], "weight", amount=0.5)
    module(torch.zeros(2, 3))
    return module


UNSUITABLE: dict[str, tuple[Callable[[], nn.Module], str]] = {
    "a frozen weight": (lambda: frozen("0.weight"), r"parameter 0\.weight is frozen.*requires_grad"),
    "a frozen bias": (lambda: frozen("1.bias"), r"parameter 1\.bias is frozen"),
    "integers": (lambda: with_parameter(torch.arange(3)), r"extra must have one of .*float32.*, not torch\.int64"),
    "complex numbers": (lambda: nn.Linear(3, 4, dtype=torch.complex64), r"weight must have .*, not torch\.complex64"),
    "float8": (lambda: with_parameter(torch.ones(3).to(torch.float8_e5m2)), r"extra must .*, not torch\.float8_e5m2"),
    "two types": (lambda: nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2).double()), "float32 and torch.float64"),
    "a lazy layer": (lambda: nn.Sequential(nn.LazyLinear(4)), r"parameter 0\.weight is lazy.*number of inputs"),
    "a lazy norm": (lambda: nn.Sequential(nn.Linear(3, 4), nn.LazyBatchNorm1d(affine=False)), "layer 1 is lazy"),
    "no parameters": (lambda: nn.Sequential(nn.Flatten(), nn.ReLU()), "no parameters"),
    "empty parameters": (lambda: nn.Linear(3, 0), "no parameters"),
    "meta tensors": (lambda: nn.Linear(3, 4, device="meta"), "weight must be a dense tensor with values.* meta"),
    "sparse tensors": (lambda: with_parameter(torch.eye(3).to_sparse()), "extra must be a dense tensor.* sparse"),
    "two inputs": (lambda: TwoInputs(3, 4), "inputs as its only argument.*'y'"),
    "attention": (lambda: nn.MultiheadAttention(4, 2), "inputs as its only argument.*'key'"),
    "a tensor that is no parameter": (with_attribute, "scale of layer 0 would not be learnt.*nn.Parameter"),
    "weights that hooks compute": (hooked_weight, "cannot be copied.*parametrize"),
    "TorchScript": (lambda: torch.jit.script(nn.Linear(3, 4)), "TorchScript"),
    "a module in place of a function": (nn.Linear(3, 4), "function that returns a module"),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", UNSUITABLE)
def test_modules_that_are_no_function_of_their_parameters_are_refused(name: str) -> None:
    build, words = UNSUITABLE[name]
    with pytest.raises(ConfigError, match=f"(?s){words}"):
        FlatModule(build)


IMPURE: dict[str, tuple[Callable[[Tensor], object], str]] = {
    "dropout": (lambda x: dropout(x, 0.1), "draws random numbers in its `forward`"),
    "noise": (lambda x: x + torch.randn_like(x), "draws random numbers in its `forward`"),
    "a tuple": (lambda x: (x, x), "must return one tensor, not a tuple"),
}


@pytest.mark.parametrize("differentiable", [False, True])
@pytest.mark.parametrize("name", IMPURE)
def test_what_shows_in_a_call_is_refused_in_every_call(name: str, differentiable: bool) -> None:
    function, words = IMPURE[name]
    network = Network(FlatModule(lambda: Calling(function)), SquaredError())
    theta, x = normal(1, 1, network.d).float().requires_grad_(differentiable), normal(1, 1, SAMPLES, 3).float()
    for _ in range(2):
        with pytest.raises(ConfigError, match=words):
            network.outputs(theta, x)
        with pytest.raises(ConfigError, match=words):
            network.gradient(theta, x, x.new_zeros(1, 1, SAMPLES, 4), torch.ones(1, 1, SAMPLES))


def test_a_call_that_fails_is_not_taken_for_randomness() -> None:
    module = FlatModule(lambda: Calling(lambda x: x))
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        module(module.init(0), torch.zeros(2, 5))
    torch.rand(3)
    assert module(module.init(0), torch.zeros(2, 3)).shape == (2, 4)


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
