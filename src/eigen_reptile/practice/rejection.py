"""What is unlike every class: a conformal test of whether a sample is like the support.

The score of a sample is the distance to its nearest neighbour in the support. Under the null hypothesis that a new
sample comes from where the support came from, all m + 1 scores are exchangeable, and the p-value below is at most
`rate` in at most this fraction of cases: an exact statement for any m, any features and any labels, right or wrong.
In full conformal prediction, the new sample may also become the nearest neighbour of others. This changes no comparison
with its own score, because it is as far from them as they are from it.
"""

import math
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from eigen_reptile.errors import ConfigError

CHUNK = 1 << 24
"""Distances that are computed at a time."""


class Rejection(NamedTuple):
    """The support, and how far each of its samples is from the others."""

    support: Float[Tensor, "m F"]
    nearest: Float[Tensor, "m"]
    """Squared distance of each sample to its nearest neighbour."""

    @staticmethod
    def of(support: Float[Tensor, "m F"]) -> "Rejection":
        rows = max(1, CHUNK // len(support))
        nearest = []
        for start in range(0, len(support), rows):
            distances = squared_distances(support[start : start + rows], support)
            distances.diagonal(start).fill_(torch.inf)
            nearest.append(distances.amin(1))
        return Rejection(support, torch.cat(nearest))

    def p_value(self, x: Float[Tensor, "q F"]) -> Float[Tensor, "q"]:
        """The probability that a sample like those of the support is as far from them as this one, or farther."""
        score = squared_distances(x, self.support).amin(1, keepdim=True)
        return (1 + (self.nearest >= score).double().sum(1)) / (1 + len(self.nearest))


def squared_distances(x: Float[Tensor, "q F"], to: Float[Tensor, "m F"]) -> Float[Tensor, "q m"]:
    products = x @ to.mT
    return x.square().sum(1, keepdim=True) + to.square().sum(1) - 2 * products


def check_rate(reject: Any, samples: int) -> None:
    """ConfigError if this false-alarm rate is none, or cannot be attained with this number of samples."""
    if reject is None:
        return
    if isinstance(reject, bool) or not isinstance(reject, int | float | np.floating) or not 0 < reject < 1:
        raise ConfigError(f"`reject` must be None or a false-alarm rate between 0 and 1, not {reject!r}")
    if 1 / (samples + 1) > reject:
        raise ConfigError(
            f"`reject` must be at least 1/{samples + 1} with {samples} samples, not {reject:g}: "
            f"for a rate of {reject:g}, add samples until there are {math.ceil(1 / reject) - 1}"
        )
