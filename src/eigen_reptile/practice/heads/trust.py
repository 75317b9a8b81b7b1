"""Trust in labels: each one is judged by a model that has learnt from all other samples.

The model is ridge regression onto soft labels, compared in angle: the ridge moves it from mean prototypes, where
samples are few, to a linear classifier, where they are many. Leaving a sample out is exact and costs no second fit.
Expectation-maximisation alternates between soft labels and the model; see docs/trust.md for the derivation.
"""

from dataclasses import dataclass
from typing import NamedTuple, final

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from eigen_reptile.errors import ConfigError
from eigen_reptile.practice.heads.head import Head, LinearHead, Support
from eigen_reptile.practice.heads.prototypes import TEMPERATURE, towards
from eigen_reptile.practice.heads.scaling import Scaling

TEMPERATURE_FACTORS = tuple(2 ** (quarter / 4) for quarter in range(-3, 7))
"""Inverse temperatures to choose from, relative to the expected one."""


class LabelTrust(NamedTuple):
    """How far the given labels of T tasks can be trusted."""

    posterior: Float[Tensor, "T m way"]
    """Probability of each class, given the sample, its label, and all other samples with theirs. NaN for a sample
    that cannot be judged, because no other sample has its label."""
    trust: Float[Tensor, "T m"]
    """Probability that the given label is right; NaN for a sample that cannot be judged."""
    noise: Float[Tensor, "T"]
    """Estimated fraction of wrong labels."""
    temperature: Float[Tensor, "T"]
    """Estimated inverse temperature of the cosines."""


@final
@dataclass(frozen=True)
class Trust(Head):
    """Classes weighted by how far each label can be trusted: leave-one-out posteriors by expectation-maximisation.

    The default. It survives wrong labels, finds them, and loses next to nothing where all labels are right.
    """

    ridge: float = 1.0
    """Ridge of the regression, relative to the average squared length of a sample. Larger: closer to mean
    prototypes."""
    temperature: float = TEMPERATURE
    """Inverse temperature of the cosines that is expected before any label is seen."""
    temperature_strength: float = 20.0
    """Weight of this expectation: what a temperature larger by the factor e loses in log-likelihood."""
    noise: float = 0.2
    """Fraction of wrong labels that is expected before any label is seen."""
    noise_strength: float = 10.0
    """Weight of this expectation: it counts as much as this number of labels."""
    rounds: int = 8
    """Rounds of expectation-maximisation."""

    def __post_init__(self) -> None:
        for name in ("ridge", "temperature", "noise_strength"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"`head.{name}` must be above 0, not {getattr(self, name)}")
        if not 0 < self.noise < 1:
            raise ConfigError(f"`head.noise` must be between 0 and 1, not {self.noise}")
        if not self.temperature_strength >= 0:
            raise ConfigError(f"`head.temperature_strength` must be at least 0, not {self.temperature_strength}")
        if self.rounds < 1:
            raise ConfigError(f"`head.rounds` must be at least 1, not {self.rounds}")

    def fit(self, support: Support) -> LinearHead:
        return self.fit_and_judge(support)[0]

    def judge(self, support: Support) -> LabelTrust:
        """The probability that each label is right, judged by a model that has not seen the sample."""
        return self.fit_and_judge(support)[1]

    def fit_and_judge(self, support: Support) -> tuple[LinearHead, LabelTrust]:
        """The classifier and the trust in each label, which come from the same rounds."""
        scaling = Scaling.of(support)
        regression = _Regression.of(scaling(support.x), self.ridge)
        found, unknown = self._judge(regression, support), ~can_be_judged(support)
        judged = found._replace(
            posterior=found.posterior.masked_fill(unknown[..., None], torch.nan),
            trust=found.trust.masked_fill(unknown, torch.nan),
        )
        return towards(scaling, regression.weights(found.posterior), found.temperature), judged

    def _judge(self, regression: "_Regression", support: Support) -> LabelTrust:
        """The state after the last round. A sample that cannot be judged keeps its label."""
        given, judged = support.one_hot, can_be_judged(support)
        soft_labels, noise = given, torch.full_like(given[:, 0, 0], self.noise)
        other_classes = max(1, support.way - 1)
        for _ in range(self.rounds):
            error = noise[:, None, None]
            channel = torch.where(given > 0, 1 - error, error / other_classes).log()
            cosines = regression.cosines_without_itself(soft_labels)
            temperature = self._likeliest_temperature(cosines, channel, judged)
            posterior = (temperature[:, None, None] * cosines + channel).softmax(-1)
            soft_labels = torch.where(judged[..., None], posterior, given)
            trust = (soft_labels * given).sum(-1)
            noise = ((1 - trust).sum(1) + self.noise_strength * self.noise) / (judged.sum(1) + self.noise_strength)
        return LabelTrust(soft_labels, trust, noise, temperature)

    def _likeliest_temperature(
        self, cosines: Float[Tensor, "T m way"], channel: Float[Tensor, "T m way"], judged: Bool[Tensor, "T m"]
    ) -> Float[Tensor, "T"]:
        """The inverse temperature that makes the given labels most probable, among multiples of the expected one."""
        factors = torch.tensor(TEMPERATURE_FACTORS).to(cosines)
        penalty = self.temperature_strength * factors.log().square()
        likelihoods = [
            (((factor * self.temperature * cosines).log_softmax(-1) + channel).logsumexp(-1) * judged).sum(1)
            for factor in factors
        ]
        return self.temperature * factors[(torch.stack(likelihoods, dim=1) - penalty).argmax(1)]


def can_be_judged(support: Support) -> Bool[Tensor, "T m"]:
    """Whether another sample has the same label."""
    return support.one_hot.sum(1).gather(1, support.y) > 1


class _Regression(NamedTuple):
    """Ridge regression of T tasks, w = (x'x + ridge)^-1 x' labels, prepared so that any labels cost only products."""

    x: Float[Tensor, "T m F"]
    solved: Float[Tensor, "T m F"]
    """(x'x + ridge)^-1 x_i of each sample, so that w is a sum of these, weighted by the labels."""
    leverage: Float[Tensor, "T m 1"]
    """x_i' solved_i"""
    square: Float[Tensor, "T m 1"]
    """|solved_i|^2"""

    @staticmethod
    def of(x: Float[Tensor, "T m F"], ridge: float) -> "_Regression":
        m, F = x.shape[1:]
        gram = (x @ x.mT if m <= F else x.mT @ x).double()  # the smaller one: (x'x + ridge)^-1 x' = x' (xx' + ridge)^-1
        gram.diagonal(dim1=1, dim2=2).add_(ridge)
        inverse = torch.cholesky_inverse(torch.linalg.cholesky(gram)).to(x)
        solved = inverse @ x if m <= F else x @ inverse
        leverage, square = (torch.linalg.vecdot(one, solved)[..., None] for one in (x, solved))
        return _Regression(x, solved, leverage, square)

    def weights(self, labels: Float[Tensor, "T m way"]) -> Float[Tensor, "T way F"]:
        return labels.mT @ self.solved

    def cosines_without_itself(self, labels: Float[Tensor, "T m way"]) -> Float[Tensor, "T m way"]:
        """For sample i, x_i'w / |w| where w is fitted without sample i; exact by the Sherman-Morrison formula.

        Without sample i, w becomes w - residual_i * solved_i.
        """
        w = self.weights(labels).mT
        fitted = self.x @ w
        residual = (labels - fitted) / (1 - self.leverage)
        square = w.square().sum(1, keepdim=True) - 2 * residual * (self.solved @ w) + residual.square() * self.square
        return (fitted - self.leverage * residual) * square.clamp(min=torch.finfo(square.dtype).tiny).rsqrt()
