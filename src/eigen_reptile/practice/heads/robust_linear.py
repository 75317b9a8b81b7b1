"""A linear classifier with a loss on which wrong labels have less influence."""

from dataclasses import dataclass
from typing import final

from eigen_reptile.errors import ConfigError
from eigen_reptile.nn.losses import GeneralisedCrossEntropy
from eigen_reptile.practice.heads.head import Head, LinearHead, Support
from eigen_reptile.practice.heads.linear import fit_linear


@final
@dataclass(frozen=True)
class RobustLinear(Head):
    """Zhang and Sabuncu 2018, https://arxiv.org/abs/1805.07836: a linear classifier with the generalised cross-entropy
    (1 - p^q) / q in place of logistic regression's.

    Use it where one would use logistic regression, but some labels are wrong. A sample that the rest contradicts is
    given up, instead of being fitted at any price.
    """

    q: float = 0.7
    """Between 0, the cross-entropy, and 1, the absolute error."""
    ridge: float = 0.2
    """Factor of half the squared weights, on features of average length one."""

    def __post_init__(self) -> None:
        if not 0 < self.q <= 1:
            raise ConfigError(f"`head.q` must be above 0 and at most 1, not {self.q}")
        if not self.ridge > 0:
            raise ConfigError(f"`head.ridge` must be above 0, not {self.ridge}")

    def fit(self, support: Support) -> LinearHead:
        return fit_linear(support, GeneralisedCrossEntropy(self.q), self.ridge)
