"""From the posteriors of `Trust` towards probabilities: of labels with a trust of 0.7, three in ten should be wrong.

`Trust` compares angles with one temperature for all data, which ranks labels well. But the angles that mean certainty
depend on the number of samples and on the features. So the temperature and the fraction of wrong labels are fitted
again, to the given labels, which needs no knowledge of the right ones: each was predicted without the sample. People
confuse similar classes, which that model takes for similar pictures; a slope and an offset, the same for all data,
correct for it in part. They were fitted on five classes of CIFAR-10N and checked on the other five; docs/audit.md says
where too few labels are expected to be wrong.
"""

from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Float, Int
from scipy.optimize import minimize
from scipy.special import expit, logsumexp, softmax

from eigen_reptile.errors import ConfigError

SMALLEST_NOISE, LARGEST_NOISE = 1e-6, 0.9


@final
@dataclass(frozen=True)
class Calibration:
    """How leave-one-out posteriors become probabilities that labels are wrong."""

    sharpness: float = 0.2
    """Logarithm of the factor by which the temperature of `Trust` is expected to be too small."""
    sharpness_spread: float = 0.15
    """Standard deviation of that expectation."""
    noise: float = 0.1
    """Fraction of wrong labels that is expected before any is seen."""
    strength: float = 4.0
    """Number of labels that this expectation counts for."""
    slope: float = 0.75
    """Factor on the log-odds of being wrong."""
    offset: float = 0.44
    """What is added to these log-odds afterwards."""

    def __post_init__(self) -> None:
        for name in ("sharpness_spread", "slope", "strength"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"`calibration.{name}` must be above 0, not {getattr(self, name)}")
        if not 0 < self.noise < 1:
            raise ConfigError(f"`calibration.noise` must be between 0 and 1, not {self.noise}")

    def wrong(
        self, posterior: Float[np.ndarray, "N way"], given: Int[np.ndarray, "N"], noise: float
    ) -> Float[np.ndarray, "N"]:
        """The probability that each label is wrong, from what `Trust.judge` returned about samples that it judged."""
        log_odds = self.uncorrected(posterior, given, noise)
        return np.asarray(expit(self.slope * log_odds + self.offset))

    def uncorrected(
        self, posterior: Float[np.ndarray, "N way"], given: Int[np.ndarray, "N"], noise: float
    ) -> Float[np.ndarray, "N"]:
        """The log-odds of being wrong before slope and offset."""
        margins = evidence_against(posterior, given, noise)
        sharpness, noise = self._fitted(margins)
        return _log_odds_of_others(np.exp(sharpness) * margins, given) + _label_odds(noise, posterior.shape[1])

    def _fitted(self, margins: Float[np.ndarray, "N way"]) -> tuple[float, float]:
        """The most probable sharpness and fraction of wrong labels, given all labels."""
        start = np.array([self.sharpness, self.noise])
        bounds = [(self.sharpness - 3, self.sharpness + 3), (SMALLEST_NOISE, LARGEST_NOISE)]
        found = minimize(self._loss, start, args=(margins,), jac=True, method="L-BFGS-B", bounds=bounds)
        return float(found.x[0]), float(found.x[1])

    def _loss(
        self, parameters: Float[np.ndarray, "2"], margins: Float[np.ndarray, "N way"]
    ) -> tuple[float, Float[np.ndarray, "2"]]:
        """The negative logarithm of the posterior of the two parameters, and its gradient.

        A label is right with probability 1 - noise, and otherwise any other class with equal probability:
        P(given) = (1 - noise) p + noise (1 - p) / (way - 1), where p is the model's probability of the given class.
        """
        sharpness, noise = parameters
        others, scale = margins.shape[1] - 1, np.exp(sharpness)
        p = np.exp(-logsumexp(scale * margins, axis=1))
        slope_of_p = -p * scale * (softmax(scale * margins, axis=1) * margins).sum(1)
        likelihood = (1 - noise) * p + noise * (1 - p) / others
        distance = (sharpness - self.sharpness) / self.sharpness_spread
        right, wrong = self.strength * (1 - self.noise), self.strength * self.noise
        loss = distance**2 / 2 - np.log(likelihood).sum() - right * np.log(1 - noise) - wrong * np.log(noise)
        by_sharpness = distance / self.sharpness_spread - ((1 - noise - noise / others) * slope_of_p / likelihood).sum()
        by_noise = right / (1 - noise) - wrong / noise - (((1 - p) / others - p) / likelihood).sum()
        return float(loss), np.array([by_sharpness, by_noise])


def evidence_against(
    posterior: Float[np.ndarray, "N way"], given: Int[np.ndarray, "N"], noise: float
) -> Float[np.ndarray, "N way"]:
    """By how much the logit of each class exceeds that of the given one, without what the label itself says."""
    logs = np.log(np.maximum(posterior, np.finfo(np.float64).tiny))
    margins: np.ndarray = logs - logs[np.arange(len(given)), given][:, None] - _label_odds(noise, posterior.shape[1])
    margins[np.arange(len(given)), given] = 0
    return margins


def _label_odds(noise: float, way: int) -> float:
    """Log-odds of one wrong class against the right one, from the label alone."""
    return float(np.log(noise / (1 - noise) / (way - 1)))


def _log_odds_of_others(margins: Float[np.ndarray, "N way"], given: Int[np.ndarray, "N"]) -> Float[np.ndarray, "N"]:
    others = margins.copy()
    others[np.arange(len(given)), given] = -np.inf
    return np.asarray(logsumexp(others, axis=1))
