"""Spatial median: prototypes that few outliers cannot move far."""

from dataclasses import dataclass
from typing import final

from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import normalize

from eigen_reptile.practice.heads.head import Head, LinearHead, Support
from eigen_reptile.practice.heads.prototypes import towards
from eigen_reptile.practice.heads.scaling import Scaling

ROUNDS = 200
"""Rounds of Weiszfeld's algorithm, each of which lowers the sum of distances; it is slow only towards a median that
lies on a sample, where the sum is flat."""
SMALLEST_DISTANCE = 1e-6
"""A median that lies on a sample would divide by zero; average samples have length one."""


@final
@dataclass(frozen=True)
class SpatialMedian(Head):
    """Liang et al. 2022, https://arxiv.org/abs/2204.05494: prototypes are spatial medians, the points with the smallest
    sum of distances to the samples of a class; by the algorithm of Weiszfeld 1937.

    Use it if a few labels may be wrong and predictions must stay as simple as those of mean prototypes.
    """

    def fit(self, support: Support) -> LinearHead:
        support = support.double()
        scaling = Scaling.of(support)
        x = scaling(support.x)
        return towards(scaling, spatial_medians(x, support.one_hot.mT))


def spatial_medians(x: Float[Tensor, "T m F"], members: Float[Tensor, "T way m"]) -> Float[Tensor, "T way F"]:
    """The spatial median of each class; zero for a class without samples.

    A median is a weighted mean of the samples, and their weights need only products of samples.
    """
    gram = x @ x.mT
    squares = gram.diagonal(dim1=1, dim2=2)[:, None]
    weights = normalize(members, p=1, dim=-1)
    for _ in range(ROUNDS):
        products = weights @ gram
        distances = squares - 2 * products + (products * weights).sum(-1, keepdim=True)
        weights = normalize(members * distances.clamp(min=SMALLEST_DISTANCE**2).rsqrt(), p=1, dim=-1)
    return weights @ x
