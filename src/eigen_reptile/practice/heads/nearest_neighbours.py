"""Nearest neighbours: the labels of the samples at the smallest angles."""

from dataclasses import dataclass
from typing import final

from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import normalize

from eigen_reptile.errors import ConfigError
from eigen_reptile.practice.heads.head import FittedHead, Head, Support
from eigen_reptile.practice.heads.scaling import Scaling

SMOOTHING = 1e-3
"""Votes that every class has beforehand, where the nearest sample has one, so that the logits are finite."""
ROUNDING = 1e-9
"""Cosines that differ by less are equal."""


@final
@dataclass(frozen=True)
class NearestNeighbours(Head):
    """Wu et al. 2018, https://arxiv.org/abs/1805.01978, section 3.4: the nearest samples vote, weighted by the
    exponential of their cosines.

    Use it if classes have several forms, so that no prototype resembles all of a class. It keeps all samples, and with
    few of them a wrong label wins wherever it is nearest.
    """

    k: int = 5
    """Number of neighbours that vote; all samples if there are fewer. Samples as near as the last one vote too."""
    temperature: float = 2.0
    """Inverse temperature of the cosines in the weights of the votes."""

    def __post_init__(self) -> None:
        if self.k < 1:
            raise ConfigError(f"`head.k` must be at least 1, not {self.k}")
        if self.temperature < 0:
            raise ConfigError(f"`head.temperature` must be at least 0, not {self.temperature}")

    def fit(self, support: Support) -> "FittedNeighbours":
        support = support.double()
        scaling = Scaling.of(support)
        directions = normalize(scaling(support.x), dim=-1)
        return FittedNeighbours(self, scaling, directions, support.one_hot)


@final
@dataclass(frozen=True)
class FittedNeighbours(FittedHead):
    """The directions of all samples, and their labels."""

    head: NearestNeighbours
    scaling: Scaling
    directions: Float[Tensor, "T m F"]
    labels: Float[Tensor, "T m way"]

    def logits(self, x: Float[Tensor, "T q F"]) -> Float[Tensor, "T q way"]:
        cosines = normalize(self.scaling(x.to(self.directions)), dim=-1) @ self.directions.mT
        nearest = cosines.topk(min(self.head.k, cosines.shape[-1]), dim=-1).values
        weights = (self.head.temperature * (cosines - nearest[..., :1])).exp()
        votes = (cosines >= nearest[..., -1:] - ROUNDING) * weights
        return (votes @ self.labels + SMOOTHING).log()
