"""Losses of single samples against torch, and against their limits."""

import pytest
import torch
from torch import nn

from eigen_reptile.nn import CrossEntropy, GeneralisedCrossEntropy, SquaredError
from eigen_reptile.nn.losses import weighted_mean
from samples import SAMPLES, B, S, assert_nearly_equal, labels, normal


def test_losses_agree_with_torch() -> None:
    output, y = normal(S, B, SAMPLES, 4), labels(4)
    flat = nn.functional.cross_entropy(output.flatten(0, 2), y.flatten(), reduction="none")
    assert_nearly_equal(CrossEntropy()(output, y), flat.view(S, B, SAMPLES))
    target = normal(S, B, SAMPLES, 4, seed=1)
    assert_nearly_equal(SquaredError()(output, target), ((output - target) ** 2).mean(-1))


def test_the_robust_loss_lies_between_two_known_ones() -> None:
    output = torch.randn(4, 6, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    y = torch.arange(24).view(4, 6) % 5
    p = output.softmax(-1).gather(-1, y[..., None])[..., 0]
    absolute, nearly_log = (GeneralisedCrossEntropy(q)(output, y) for q in (1.0, 1e-7))
    torch.testing.assert_close(absolute, 1 - p)
    torch.testing.assert_close(nearly_log, CrossEntropy()(output, y), rtol=1e-5, atol=1e-5)


def test_the_robust_loss_has_a_gradient_where_a_probability_is_zero() -> None:
    output = torch.tensor([[200.0, 0.0, 0.0]], requires_grad=True)
    loss = GeneralisedCrossEntropy(0.7)(output, torch.tensor([1]))
    loss.sum().backward()
    assert loss.item() == pytest.approx(1 / 0.7)
    assert output.grad is not None
    assert output.grad.isfinite().all()


@pytest.mark.parametrize("q", [0.0, 1.1, float("nan")])
def test_q_must_lie_between_0_and_1(q: float) -> None:
    with pytest.raises(ValueError, match=r"`method.q` must be above 0 and at most 1, not"):
        GeneralisedCrossEntropy(q)


def test_losses_with_equal_fields_are_the_same_loss() -> None:
    assert GeneralisedCrossEntropy(0.7) == GeneralisedCrossEntropy(0.7)
    assert hash(GeneralisedCrossEntropy(0.7)) == hash(GeneralisedCrossEntropy(0.7))
    assert len({CrossEntropy(), CrossEntropy(), SquaredError(), GeneralisedCrossEntropy(0.5)}) == 3


def test_the_weighted_mean_of_nothing_is_zero() -> None:
    losses, weight = torch.tensor([[1.0, 2.0, 6.0]] * 2), torch.tensor([[0.0, 3.0, 1.0], [0.0, 0.0, 0.0]])
    assert weighted_mean(losses, weight).tolist() == [3.0, 0.0]
