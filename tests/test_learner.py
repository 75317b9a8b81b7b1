"""Networks as functions of theta, against the same networks written with plain torch.nn and with NumPy, in float64."""

import copy
from collections.abc import Callable, Mapping
from typing import Literal

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from eigen_reptile.learner import Learner, class_error, squared_error
from eigen_reptile.models import MODELS, Conv4, Mlp, Model

S, B, SAMPLES = 2, 3, 6

both_ways = pytest.mark.parametrize("batched", [True, False], ids=["batched", "unbatched"])


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def labels(way: int) -> Tensor:
    return torch.randint(way, (S, B, SAMPLES), generator=torch.Generator().manual_seed(1))


def loaded(build: Callable[[], nn.Module], theta: Tensor) -> nn.Module:
    module = build()
    nn.utils.vector_to_parameters(theta.clone(), module.parameters())
    return module


def plain_gradient(module: nn.Module, loss: Tensor) -> Tensor:
    module.zero_grad()
    loss.backward()
    return torch.cat([parameter.grad.reshape(-1) for parameter in module.parameters() if parameter.grad is not None])


def closest(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-11)


# Conv4


def plain_conv4(shape: tuple[int, int, int], filters: int, way: int) -> nn.Module:
    """The network of the paper out of torch's own layers."""
    channels, height, width = shape
    layers: list[nn.Module] = []
    for _ in range(4):
        layers += [
            nn.Conv2d(channels, filters, 3, padding=1, bias=False),
            nn.BatchNorm2d(filters, eps=1e-3, track_running_stats=False),
            nn.MaxPool2d(2, ceil_mode=True),
            nn.ReLU(),
        ]
        channels, height, width = filters, (height + 1) // 2, (width + 1) // 2
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(filters * height * width, way)).double()


NAMES = {
    **{f"{block}.convolution.weight": f"{4 * block}.weight" for block in range(4)},
    **{f"{block}.norm.weight": f"{4 * block + 1}.weight" for block in range(4)},
    **{f"{block}.norm.bias": f"{4 * block + 1}.bias" for block in range(4)},
    **{f"5.{kind}": f"17.{kind}" for kind in ("weight", "bias")},
}
"""Our parameters, and what they are called in the plain network."""

SHAPES = [(3, 84, 84), (1, 28, 28), (3, 32, 32), (4, 17, 33), (1, 9, 16), (2, 5, 3)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_conv4_is_the_plain_network(shape: tuple[int, int, int]) -> None:
    def build() -> nn.Module:
        return Conv4(filters=4).build(shape, 5).double()

    learner = Learner(build, class_error)
    theta, x, y = 0.5 * normal(S, B, learner.d), normal(S, B, SAMPLES, *shape).sigmoid(), labels(5)
    outputs = learner.outputs(theta, x)
    gradient = learner.gradient(theta, x, y, torch.ones(S, B, SAMPLES, dtype=torch.float64))
    for lane, task in ((0, 0), (1, 2)):
        plain = plain_conv4(shape, 4, 5)
        values = loaded(build, theta[lane, task]).state_dict()
        plain.load_state_dict({NAMES[name]: value for name, value in values.items()})
        said = plain(x[lane, task])
        closest(outputs[lane, task], said.detach())
        nn.functional.cross_entropy(said, y[lane, task]).backward()
        expected = [plain.get_parameter(NAMES[name]).grad for name in values]
        closest(gradient[lane, task], torch.cat([part.flatten() for part in expected if part is not None]))


@pytest.mark.parametrize("batched", [False, True])
def test_bytes_are_numbers_from_0_to_1(batched: bool) -> None:
    learner = Learner(lambda: Conv4(filters=2).build((3, 6, 6), 5).double(), class_error, batched)
    theta, pixels = normal(S, B, learner.d), (256 * torch.rand(S, B, SAMPLES, 3, 6, 6)).to(torch.uint8)
    closest(learner.outputs(theta, pixels), learner.outputs(theta, pixels.double() / 255))
    weight = torch.ones(S, B, SAMPLES)
    found, expected = (learner.gradient(theta, x, labels(5), weight) for x in (pixels, pixels.double() / 255))
    closest(found, expected)


@pytest.mark.parametrize("batched", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_gradient_that_will_not_be_differentiated_is_the_one_that_will(dtype: torch.dtype, batched: bool) -> None:
    """They are computed in different ways: in a network of the thread's own or by autograd, and by torch.func."""
    learner = Learner(lambda: Conv4(filters=3).build((2, 9, 7), 5), class_error, batched)
    theta, x, weight = (
        part.to(dtype)
        for part in (normal(S, B, learner.d), normal(S, B, SAMPLES, 2, 9, 7), normal(S, B, SAMPLES).abs())
    )
    y = labels(5)
    quick = learner.gradient(theta, x, y, weight)
    with torch.no_grad():
        quickest = learner.gradient(theta, x, y, weight)
    assert not quick.requires_grad
    assert not quickest.requires_grad
    assert not learner.outputs(theta, x).requires_grad
    recorded = learner.gradient(theta.requires_grad_(), x, y, weight)
    assert recorded.requires_grad
    assert quick.dtype == quickest.dtype == dtype
    for found in (quick, quickest):
        torch.testing.assert_close(found, recorded.detach(), rtol=1e-4 if dtype == torch.float32 else 1e-10, atol=1e-5)


def pooled_as_tensorflow(x: np.ndarray) -> np.ndarray:
    """2x2 max-pooling with padding "SAME": where a side is odd, a row or column of nothing is added at its end."""
    height, width = x.shape[2] % 2, x.shape[3] % 2
    x = np.pad(x, ((0, 0), (0, 0), (0, height), (0, width)), constant_values=-np.inf)
    pooled: np.ndarray = x.reshape(*x.shape[:2], x.shape[2] // 2, 2, x.shape[3] // 2, 2).max((3, 5))
    return pooled


def pooled_as_pytorch(x: np.ndarray) -> np.ndarray:
    """The same with padding "VALID": an odd row or column is left out."""
    return pooled_as_tensorflow(x[:, :, : x.shape[2] // 2 * 2, : x.shape[3] // 2 * 2])


def convolved(x: np.ndarray, kernel: np.ndarray) -> np.ndarray:
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    found: np.ndarray = np.einsum("bchwij,fcij->bfhw", windows, kernel)
    return found


@pytest.mark.parametrize(
    ("pooling", "pooled", "height", "width", "left"),
    [("same", pooled_as_tensorflow, 11, 6, (1, 1)), ("valid", pooled_as_pytorch, 19, 39, (1, 2))],
)
def test_conv4_is_the_network_of_the_authors_layer_by_layer(
    pooling: Literal["same", "valid"],
    pooled: Callable[[np.ndarray], np.ndarray],
    height: int,
    width: int,
    left: tuple[int, int],
) -> None:
    """Convolution, batch-norm with the batch's own statistics, pooling, ReLU; in NumPy."""
    module = Conv4(filters=3, pooling=pooling).build((2, height, width), 4).double()
    nn.utils.vector_to_parameters(normal(sum(p.numel() for p in module.parameters())), module.parameters())
    x = normal(7, 2, height, width)
    value = x.numpy()
    parameters = {name: parameter.detach().numpy() for name, parameter in module.named_parameters()}
    for block in range(4):
        value = convolved(value, parameters[f"{block}.convolution.weight"])
        mean, variance = value.mean((0, 2, 3), keepdims=True), value.var((0, 2, 3), keepdims=True)
        scale, shift = (parameters[f"{block}.norm.{name}"][:, None, None] for name in ("weight", "bias"))
        value = np.maximum(pooled((value - mean) / np.sqrt(variance + 1e-3) * scale + shift), 0)
    assert value.shape == (7, 3, *left)
    expected = value.reshape(7, -1) @ parameters["5.weight"].T + parameters["5.bias"]
    np.testing.assert_allclose(module(x).detach().numpy(), expected, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize(("side", "left"), [(84, 6), (28, 2), (32, 2), (33, 3), (16, 1), (1, 1)])
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_number_of_parameters(side: int, left: int, channels: int) -> None:
    kernels = 9 * 32 * (channels + 3 * 32)
    scales_and_shifts = 4 * 2 * 32
    head = (32 * left * left + 1) * 5
    learner = Learner(lambda: Conv4().build((channels, side, side), 5), class_error)
    assert learner.d == kernels + scales_and_shifts + head


def test_the_paper_has_32_filters_and_once_64() -> None:
    assert MODELS["conv4"] == Conv4(filters=32)
    assert MODELS["conv4-64"] == Conv4(filters=64)


def test_conv4_starts_as_tensorflow_would() -> None:
    """Glorot's uniform weights, zero biases and shifts, unit scales."""
    module = Conv4(filters=32).build((3, 32, 32), 5)
    fans = {"0": 9 * (3 + 32), "1": 9 * 64, "2": 9 * 64, "3": 9 * 64, "5": 128 + 5}
    for name, parameter in module.named_parameters():
        layer, kind = name.split(".", 1)
        if kind.endswith("weight") and kind != "norm.weight":
            bound = (6 / fans[layer]) ** 0.5
            assert 0.97 * bound < parameter.abs().max() <= bound
            assert parameter.mean().abs() < 0.1 * bound
        else:
            assert (parameter == (1.0 if kind == "norm.weight" else 0.0)).all()


def test_conv4_takes_pictures_only() -> None:
    with pytest.raises(ValueError, match=r"conv4 takes pictures .* not inputs of shape \(7,\)"):
        Conv4().build((7,), 5)
    with pytest.raises(ValueError, match="filters must be at least 1, not 0"):
        Conv4(filters=0)
    with pytest.raises(ValueError, match=r"20 x 15 pixels are too few .* use --model\.pooling same"):
        Conv4(pooling="valid").build((3, 20, 15), 5)


# Learner


def mlp() -> nn.Module:
    return Mlp((5, 4)).build((6,), 4).double()


@pytest.mark.parametrize("shape", [(6,), (2, 3), (3, 4, 5)], ids=str)
def test_batched_and_unbatched_agree(shape: tuple[int, ...]) -> None:
    def build() -> nn.Module:
        return Mlp((5, 4)).build(shape, 4).double()

    batched, unbatched = (Learner(build, class_error, way) for way in (True, False))
    theta, x, y = normal(S, B, batched.d), normal(S, B, SAMPLES, *shape), labels(4)
    weight = normal(S, B, SAMPLES).abs()
    weight[0, 1] = 0
    closest(batched.outputs(theta, x), unbatched.outputs(theta, x))
    closest(batched.loss(theta, x, y, weight), unbatched.loss(theta, x, y, weight))
    closest(batched.gradient(theta, x, y, weight), unbatched.gradient(theta, x, y, weight))
    assert not unbatched.gradient(theta, x, y, weight)[0, 1].any()


@both_ways
@pytest.mark.parametrize("recording", [True, False])
def test_gradient_is_the_slope_of_the_loss(batched: bool, recording: bool) -> None:
    learner = Learner(mlp, class_error, batched)
    theta, x, y = normal(S, B, learner.d), normal(S, B, SAMPLES, 6), labels(4)
    weight = normal(S, B, SAMPLES).abs()
    with torch.set_grad_enabled(recording):
        gradient = learner.gradient(theta, x, y, weight)
    assert gradient.shape == theta.shape
    step = 1e-6
    for number in range(0, learner.d, 5):
        there, back = theta.clone(), theta.clone()
        there[..., number] += step
        back[..., number] -= step
        slope = (learner.loss(there, x, y, weight) - learner.loss(back, x, y, weight)) / (2 * step)
        torch.testing.assert_close(gradient[..., number], slope, rtol=1e-5, atol=1e-8)


def test_losses_are_torchs() -> None:
    output, y = normal(S, B, SAMPLES, 4), labels(4)
    flat = nn.functional.cross_entropy(output.flatten(0, 2), y.flatten(), reduction="none")
    closest(class_error(output, y), flat.view(S, B, SAMPLES))
    target = normal(S, B, SAMPLES, 4, seed=1)
    closest(squared_error(output, target), ((output - target) ** 2).mean(-1))


class Tied(nn.Module):
    """What people bring: a residual connection, batch-norm with running statistics, and a layer used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 3, 3, padding=1)
        self.norm = nn.BatchNorm2d(3)
        self.again = self.first
        self.head = nn.Linear(3, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.norm(self.first(x)).relu()
        x = x + self.again(x)
        answer: Tensor = self.head(x.mean((2, 3)))
        return answer


@both_ways
def test_any_module_works_and_its_gradient_is_its_own(batched: bool) -> None:
    def build() -> nn.Module:
        return Tied().double()

    learner = Learner(build, class_error, batched)
    theta, x, y = 0.5 * normal(S, B, learner.d), normal(S, B, SAMPLES, 3, 5, 5), labels(4)
    outputs = learner.outputs(theta, x)
    gradient = learner.gradient(theta, x, y, torch.ones(S, B, SAMPLES, dtype=torch.float64))
    for lane in range(S):
        for task in range(B):
            module = loaded(build, theta[lane, task])  # in training mode: batch statistics
            said = module(x[lane, task])
            closest(outputs[lane, task], said.detach())
            loss = nn.functional.cross_entropy(said, y[lane, task])
            closest(gradient[lane, task], plain_gradient(module, loss))


class Moving(nn.Module):
    """A module that changes a buffer whenever it is used, and answers by it."""

    uses: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 4)
        self.register_buffer("uses", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.uses += 1
        answer: Tensor = self.layer(x) * self.uses
        return answer


MODULES: dict[str, Callable[[], nn.Module]] = {
    "batch-norm": lambda: nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)),
    "batch-norm in eval mode": lambda: nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)).eval(),
    "spectral norm": lambda: nn.utils.parametrizations.spectral_norm(nn.Linear(3, 4)),
    "moving buffer": Moving,
}


@pytest.mark.parametrize("name", MODULES)
def test_outputs_do_not_depend_on_what_was_asked_before(name: str) -> None:
    learner = Learner(MODULES[name], squared_error)
    theta, x = normal(1, 1, learner.d).float(), normal(1, 1, SAMPLES, 3).float()
    first = learner.outputs(theta, x)
    for seed in range(3):
        other = normal(1, 1, learner.d, seed=seed).float()
        learner.outputs(other, 10 * x)
        learner.gradient(other, x, first, torch.ones(1, 1, SAMPLES))
    assert torch.equal(learner.outputs(theta, x), first)


def test_norms_of_any_module() -> None:
    layers = [nn.Linear(4, 6), nn.LayerNorm(6), nn.Sequential(nn.Unflatten(1, (3, 2)), nn.BatchNorm1d(3))]
    learner = Learner(lambda: nn.Sequential(*layers, nn.GroupNorm(3, 3), nn.Flatten()), class_error)
    assert learner.norms == {f"{layer}.{part}" for layer in ("1", "2.1", "3") for part in ("weight", "bias")}
    assert learner.where(learner.norms).tolist() == 30 * [False] + 24 * [True]


def test_a_module_that_was_handed_out_is_left_as_it_was() -> None:
    module = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    before: Mapping[str, Tensor] = copy.deepcopy(module.state_dict())
    learner = Learner(lambda: module, squared_error)
    theta, x = normal(1, 1, learner.d).float(), normal(1, 1, SAMPLES, 3).float()
    learner.outputs(theta, x)
    learner.gradient(theta, x, x.new_zeros(1, 1, SAMPLES, 4), torch.ones(1, 1, SAMPLES))
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
def test_what_draws_at_random_is_refused_by_name(layer: nn.Module) -> None:
    with pytest.raises(ValueError, match=r"^1\.0 draws at random.* switch that off$"):
        Learner(lambda: nn.Sequential(nn.Linear(3, 4), nn.Sequential(layer)), squared_error)
    Learner(lambda: nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.0)), squared_error)


def small_learner() -> Learner:
    return Learner(lambda: Conv4(4).build((1, 8, 8), 5), class_error)


def test_a_seed_is_a_start_whatever_the_global_generator_does() -> None:
    learner = small_learner()
    state = torch.get_rng_state()
    first, second = learner.init(0), learner.init(1)
    assert torch.equal(torch.get_rng_state(), state)
    torch.rand(5)
    assert torch.equal(small_learner().init(0), first)
    assert not torch.equal(first, second)
    assert first.shape == (learner.d,)
    assert not first.requires_grad


def test_making_a_learner_leaves_the_global_generator_alone() -> None:
    state = torch.get_rng_state()
    small_learner()
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize(("model", "expected"), [(Conv4(4), 5), (Conv4(4, head=False), 4 * 1 * 2), (Mlp((3,)), 5)])
def test_features_are_what_comes_out(model: Model, expected: int) -> None:
    assert Learner(lambda: model.build((1, 8, 20), 5), class_error, model.batched).features((1, 8, 20)) == expected
