"""Losses of single samples, from a network's outputs and the targets."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor
from torch.nn.functional import cross_entropy

from eigen_reptile.errors import ConfigError


@dataclass(frozen=True)
class SampleLoss(ABC):
    """One loss for each sample. A value, not a closure: two losses with equal fields are the same loss."""

    @abstractmethod
    def __call__(self, output: Tensor, y: Tensor) -> Tensor:
        """From outputs (..., b, out) and targets (..., b) or (..., b, out) to losses (..., b)."""


@final
@dataclass(frozen=True)
class SquaredError(SampleLoss):
    """Mean over the outputs of the squared difference, for regression."""

    def __call__(self, output: Float[Tensor, "*L b out"], y: Float[Tensor, "*L b out"]) -> Float[Tensor, "*L b"]:
        return (output - y).square().mean(-1)


@final
@dataclass(frozen=True)
class CrossEntropy(SampleLoss):
    """-ln p, where p is the softmax probability of the label."""

    def __call__(self, output: Float[Tensor, "*L b way"], y: Int[Tensor, "*L b"]) -> Float[Tensor, "*L b"]:
        return cross_entropy(output.flatten(0, -2), y.flatten(), reduction="none").view(y.shape)


@final
@dataclass(frozen=True)
class GeneralisedCrossEntropy(SampleLoss):
    """(1 - p^q) / q, where p is the softmax probability of the label (Zhang and Sabuncu 2018).

    Between the cross-entropy (q towards 0) and the absolute error (q = 1), which wrong labels influence less.
    """

    q: float

    def __post_init__(self) -> None:
        if not 0 < self.q <= 1:
            raise ConfigError(f"`method.q` must be above 0 and at most 1, not {self.q}")

    def __call__(self, output: Shaped[Tensor, "*L b way"], y: Int[Tensor, "*L b"]) -> Float[Tensor, "*L b"]:
        log_p = output.log_softmax(-1).gather(-1, y[..., None])[..., 0]
        return (1 - (self.q * log_p).exp()) / self.q  # exp(q ln p), because p**q has no gradient where p underflows


def weighted_mean(losses: Float[Tensor, "*L b"], weight: Float[Tensor, "*L b"]) -> Float[Tensor, "*L"]:
    """Weighted mean over the samples; zero where all weights are zero."""
    return (weight * losses).sum(-1) / weight.sum(-1).clamp(min=torch.finfo(weight.dtype).tiny)
