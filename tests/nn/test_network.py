"""Networks as functions of theta, against the same networks written with plain torch.nn, in float64."""

import pytest
import torch
from torch import Tensor, nn

from eigen_reptile.errors import ConfigError
from eigen_reptile.nn import Conv4, CrossEntropy, FlatModule, GeneralisedCrossEntropy, Mlp, Network
from samples import SAMPLES, B, S, assert_nearly_equal, labels, loaded, normal

both_ways = pytest.mark.parametrize("batched", [True, False], ids=["batched", "unbatched"])


def plain_gradient(module: nn.Module, loss: Tensor) -> Tensor:
    module.zero_grad()
    loss.backward()
    return torch.cat([parameter.grad.reshape(-1) for parameter in module.parameters() if parameter.grad is not None])


@pytest.mark.parametrize("batched", [False, True])
def test_image_bytes_become_numbers_from_0_to_1(batched: bool) -> None:
    network = Network(FlatModule(lambda: Conv4(filters=2).build((3, 6, 6), 5).double()), CrossEntropy(), batched)
    theta, pixels = normal(S, B, network.d), (256 * torch.rand(S, B, SAMPLES, 3, 6, 6)).to(torch.uint8)
    assert_nearly_equal(network.outputs(theta, pixels), network.outputs(theta, pixels.double() / 255))
    weight = torch.ones(S, B, SAMPLES)
    found, expected = (network.gradient(theta, x, labels(5), weight) for x in (pixels, pixels.double() / 255))
    assert_nearly_equal(found, expected)


@pytest.mark.parametrize("batched", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_all_ways_to_compute_a_gradient_agree(dtype: torch.dtype, batched: bool) -> None:
    """In a copy of the module, by autograd, or by torch.func, whether it will be differentiated again or not."""
    network = Network(FlatModule(lambda: Conv4(filters=3).build((2, 9, 7), 5)), CrossEntropy(), batched)
    theta, x, weight = (
        part.to(dtype)
        for part in (normal(S, B, network.d), normal(S, B, SAMPLES, 2, 9, 7), normal(S, B, SAMPLES).abs())
    )
    y = labels(5)
    quick = network.gradient(theta, x, y, weight)
    with torch.no_grad():
        quickest = network.gradient(theta, x, y, weight)
    assert not quick.requires_grad
    assert not quickest.requires_grad
    assert not network.outputs(theta, x).requires_grad
    recorded = network.gradient(theta.requires_grad_(), x, y, weight)
    assert recorded.requires_grad
    assert quick.dtype == quickest.dtype == dtype
    for found in (quick, quickest):
        torch.testing.assert_close(found, recorded.detach(), rtol=1e-4 if dtype == torch.float32 else 1e-10, atol=1e-5)


def mlp() -> nn.Module:
    return Mlp((5, 4)).build((6,), 4).double()


@pytest.mark.parametrize("shape", [(6,), (2, 3), (3, 4, 5)], ids=str)
def test_batched_and_unbatched_agree(shape: tuple[int, ...]) -> None:
    def build() -> nn.Module:
        return Mlp((5, 4)).build(shape, 4).double()

    batched, unbatched = (Network(FlatModule(build), CrossEntropy(), way) for way in (True, False))
    theta, x, y = normal(S, B, batched.d), normal(S, B, SAMPLES, *shape), labels(4)
    weight = normal(S, B, SAMPLES).abs()
    weight[0, 1] = 0
    assert_nearly_equal(batched.outputs(theta, x), unbatched.outputs(theta, x))
    assert_nearly_equal(batched.loss(theta, x, y, weight), unbatched.loss(theta, x, y, weight))
    assert_nearly_equal(batched.gradient(theta, x, y, weight), unbatched.gradient(theta, x, y, weight))
    assert not unbatched.gradient(theta, x, y, weight)[0, 1].any()


@both_ways
@pytest.mark.parametrize("recording", [True, False])
def test_gradient_against_finite_differences(batched: bool, recording: bool) -> None:
    network = Network(FlatModule(mlp), CrossEntropy(), batched)
    theta, x, y = normal(S, B, network.d), normal(S, B, SAMPLES, 6), labels(4)
    weight = normal(S, B, SAMPLES).abs()
    with torch.set_grad_enabled(recording):
        gradient = network.gradient(theta, x, y, weight)
    assert gradient.shape == theta.shape
    step = 1e-6
    for number in range(0, network.d, 5):
        there, back = theta.clone(), theta.clone()
        there[..., number] += step
        back[..., number] -= step
        slope = (network.loss(there, x, y, weight) - network.loss(back, x, y, weight)) / (2 * step)
        torch.testing.assert_close(gradient[..., number], slope, rtol=1e-5, atol=1e-8)


class Tied(nn.Module):
    """A module as users may write it: with a residual connection, running batch-norm and a layer used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 3, 3, padding=1)
        self.norm = nn.BatchNorm2d(3)
        self.again = self.first
        self.head = nn.Linear(3, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.norm(self.first(x)).relu()
        x = x + self.again(x)
        logits: Tensor = self.head(x.mean((2, 3)))
        return logits


@both_ways
def test_any_module_agrees_with_itself(batched: bool) -> None:
    def build() -> nn.Module:
        return Tied().double()

    network = Network(FlatModule(build), CrossEntropy(), batched)
    theta, x, y = 0.5 * normal(S, B, network.d), normal(S, B, SAMPLES, 3, 5, 5), labels(4)
    outputs = network.outputs(theta, x)
    gradient = network.gradient(theta, x, y, torch.ones(S, B, SAMPLES, dtype=torch.float64))
    for replica in range(S):
        for task in range(B):
            module = loaded(build, theta[replica, task])  # in training mode: batch statistics
            predicted = module(x[replica, task])
            assert_nearly_equal(outputs[replica, task], predicted.detach())
            loss = nn.functional.cross_entropy(predicted, y[replica, task])
            assert_nearly_equal(gradient[replica, task], plain_gradient(module, loss))


def test_a_network_with_another_loss_shares_its_module() -> None:
    network = Network(FlatModule(mlp), CrossEntropy())
    other = network.with_loss(GeneralisedCrossEntropy(0.7))
    assert other.module is network.module
    theta, x, y = normal(S, B, network.d), normal(S, B, SAMPLES, 6), labels(4)
    assert_nearly_equal(other.losses(theta, x, y), GeneralisedCrossEntropy(0.7)(network.outputs(theta, x), y))


def test_running_statistics_cannot_be_batched() -> None:
    module = FlatModule(lambda: Conv4(2, statistics="running").build((1, 8, 8), 3))
    with pytest.raises(ConfigError, match="running statistics cannot be batched"):
        Network(module, CrossEntropy(), batched=True)
