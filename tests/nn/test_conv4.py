"""Conv4 against the same network written with plain torch.nn and with NumPy, in float64."""

from collections.abc import Callable
from typing import Literal

import numpy as np
import pytest
import torch
from torch import nn

from eigen_reptile.nn import MODELS, Conv4, CrossEntropy, FlatModule, Network
from samples import SAMPLES, B, S, assert_nearly_equal, labels, loaded, normal


def plain_conv4(shape: tuple[int, int, int], filters: int, way: int) -> nn.Module:
    """The network of the paper made of torch's own layers."""
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
"""From the names of our parameters to those in the plain network."""

SHAPES = [(3, 84, 84), (1, 28, 28), (3, 32, 32), (4, 17, 33), (1, 9, 16), (2, 5, 3)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_conv4_agrees_with_the_plain_network(shape: tuple[int, int, int]) -> None:
    def build() -> nn.Module:
        return Conv4(filters=4).build(shape, 5).double()

    network = Network(FlatModule(build), CrossEntropy())
    theta, x, y = 0.5 * normal(S, B, network.d), normal(S, B, SAMPLES, *shape).sigmoid(), labels(5)
    outputs = network.outputs(theta, x)
    gradient = network.gradient(theta, x, y, torch.ones(S, B, SAMPLES, dtype=torch.float64))
    for replica, task in ((0, 0), (1, 2)):
        plain = plain_conv4(shape, 4, 5)
        values = loaded(build, theta[replica, task]).state_dict()
        plain.load_state_dict({NAMES[name]: value for name, value in values.items()})
        predicted = plain(x[replica, task])
        assert_nearly_equal(outputs[replica, task], predicted.detach())
        nn.functional.cross_entropy(predicted, y[replica, task]).backward()
        expected = [plain.get_parameter(NAMES[name]).grad for name in values]
        assert_nearly_equal(
            gradient[replica, task], torch.cat([part.flatten() for part in expected if part is not None])
        )


def pooled_as_tensorflow(x: np.ndarray) -> np.ndarray:
    """2x2 max-pooling with padding "SAME": an odd side is padded at its end by minus infinity."""
    height, width = x.shape[2] % 2, x.shape[3] % 2
    x = np.pad(x, ((0, 0), (0, 0), (0, height), (0, width)), constant_values=-np.inf)
    pooled: np.ndarray = x.reshape(*x.shape[:2], x.shape[2] // 2, 2, x.shape[3] // 2, 2).max((3, 5))
    return pooled


def pooled_as_pytorch(x: np.ndarray) -> np.ndarray:
    """The same with padding "VALID": an odd row or column is dropped."""
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
def test_conv4_agrees_with_the_authors_network_layer_by_layer(
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
    network = Network(FlatModule(lambda: Conv4().build((channels, side, side), 5)), CrossEntropy())
    assert network.d == kernels + scales_and_shifts + head


def test_the_widths_of_the_paper_are_32_and_64() -> None:
    assert MODELS["conv4"] == Conv4(filters=32)
    assert MODELS["conv4-64"] == Conv4(filters=64)


def test_the_initialisation_is_that_of_tensorflow() -> None:
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


def test_conv4_takes_images_only() -> None:
    with pytest.raises(ValueError, match=r"conv4 takes images .* not inputs of shape \(7,\)"):
        Conv4().build((7,), 5)
    with pytest.raises(ValueError, match=r"`model\.filters` must be at least 1, not 0"):
        Conv4(filters=0)
    with pytest.raises(ValueError, match=r"20 x 15 pixels are too few .* use `model\.pooling` same"):
        Conv4(pooling="valid").build((3, 20, 15), 5)
