"""From the posteriors of `Trust` towards probabilities: of labels with a trust of 0.7, three in ten should be wrong.

`Trust` ranks labels well, but it is too sure of labels that people confuse, and the more so the more samples there are.
So the log-odds of being wrong get a slope and an offset, which depend on the number of samples per class and on the
fraction of labels that `Trust` estimates to be wrong. The five numbers were fitted on five classes of CIFAR-10N and
checked on the other five (docs/audit.md).
"""

from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Float, Int
from scipy.special import expit, logit

from eigen_reptile.errors import ConfigError

FEWEST, MOST = 10.0, 300.0
"""Samples per class for which the numbers were fitted; fewer or more count as these."""
USUAL = 50
"""Samples per class at which slope and offset are those without a correction."""


@final
@dataclass(frozen=True)
class Calibration:
    """How leave-one-out posteriors become probabilities that labels are wrong."""

    slope: float = 1.031
    """Factor on the log-odds of being wrong."""
    slope_by_size: float = 0.130
    """What is added to the slope if there are e times as many samples."""
    offset: float = 2.135
    """What is added to the log-odds."""
    offset_by_size: float = 0.706
    """What is added to the offset if there are e times as many samples."""
    offset_by_noise: float = 0.207
    """Factor on the log-odds of the estimated fraction of wrong labels, which are added to the offset."""

    def __post_init__(self) -> None:
        least = self.slope + min(self.slope_by_size * _size(FEWEST), self.slope_by_size * _size(MOST))
        if not least > 0:
            raise ConfigError(f"`calibration.slope` must be above 0 for all numbers of samples, not {least:.3g}")

    @property
    def numbers(self) -> Float[np.ndarray, "5"]:
        """Factors on what `inputs` returns."""
        return np.array([self.slope, self.slope_by_size, self.offset, self.offset_by_size, self.offset_by_noise])

    def wrong(
        self, posterior: Float[np.ndarray, "N way"], given: Int[np.ndarray, "N"], noise: float
    ) -> Float[np.ndarray, "N"]:
        """The probability that each label is wrong, from what `Trust.judge` returned about samples that it judged."""
        return np.asarray(expit(inputs(posterior, given, noise) @ self.numbers))


def inputs(
    posterior: Float[np.ndarray, "N way"], given: Int[np.ndarray, "N"], noise: float
) -> Float[np.ndarray, "N 5"]:
    """What the log-odds of being wrong are a linear function of."""
    odds, size = log_odds(posterior, given), _size(len(given) / posterior.shape[1])
    same = np.ones_like(odds)
    return np.stack([odds, odds * size, same, same * size, same * logit(noise)], axis=1)


def log_odds(posterior: Float[np.ndarray, "N way"], given: Int[np.ndarray, "N"]) -> Float[np.ndarray, "N"]:
    """Log-odds of the other classes against the given one."""
    others: np.ndarray = posterior.astype(np.float64)
    own = others[np.arange(len(given)), given].copy()
    others[np.arange(len(given)), given] = 0
    least = float(np.finfo(np.float32).tiny)
    return np.asarray(np.log(np.maximum(others.sum(1), least)) - np.log(np.maximum(own, least)))


def _size(per_class: float) -> float:
    return float(np.log(np.clip(per_class, FEWEST, MOST) / USUAL))
