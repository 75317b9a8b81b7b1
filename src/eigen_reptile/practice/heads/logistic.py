"""Logistic regression: what most people try first."""

from dataclasses import dataclass
from typing import final

from eigen_reptile.errors import ConfigError
from eigen_reptile.nn.losses import CrossEntropy
from eigen_reptile.practice.heads.head import Head, LinearHead, Support
from eigen_reptile.practice.heads.linear import fit_linear


@final
@dataclass(frozen=True)
class Logistic(Head):
    """Logistic regression, as Tian et al. 2020, https://arxiv.org/abs/2003.11539, use it on few samples: the smallest
    cross-entropy plus a ridge.

    Use it if there are many samples and their labels are right. With few, it fits wrong labels exactly.
    """

    ridge: float = 1.0
    """Factor of half the squared weights; `1 / C` in scikit-learn, on features of average length one."""

    def __post_init__(self) -> None:
        if not self.ridge > 0:
            raise ConfigError(f"`head.ridge` must be above 0, not {self.ridge}")

    def fit(self, support: Support) -> LinearHead:
        return fit_linear(support, CrossEntropy(), self.ridge)
