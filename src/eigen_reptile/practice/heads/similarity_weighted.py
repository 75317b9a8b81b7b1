"""Similarity-weighted prototypes: a sample counts as much as it resembles the others of its label."""

from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import normalize

from eigen_reptile.errors import ConfigError
from eigen_reptile.practice.heads.head import Head, LinearHead, Support
from eigen_reptile.practice.heads.prototypes import towards
from eigen_reptile.practice.heads.scaling import Scaling


@final
@dataclass(frozen=True)
class SimilarityWeighted(Head):
    """Liang et al. 2022, https://arxiv.org/abs/2204.05494: a sample's weight in its prototype is a softmax of its mean
    cosine to the other samples of its label.

    Use it if fewer than half of the labels of each class are wrong, and not in the same way. Unlike trust, it does not
    look at the other classes.
    """

    sharpness: float = 10.0
    """Factor of the mean cosines before the softmax; 0 gives mean prototypes."""

    def __post_init__(self) -> None:
        if self.sharpness < 0:
            raise ConfigError(f"`head.sharpness` must be at least 0, not {self.sharpness}")

    def fit(self, support: Support) -> LinearHead:
        scaling = Scaling.of(support)
        x = scaling(support.x)
        weights = (self.sharpness * _mean_cosines(x, support.one_hot)).exp()
        return towards(scaling, (support.one_hot * weights).mT @ x)


def _mean_cosines(x: Float[Tensor, "T m F"], labels: Float[Tensor, "T m way"]) -> Float[Tensor, "T m 1"]:
    """The mean cosine of each sample to the other samples of its label; 0 if there are none."""
    directions = normalize(x, dim=-1)
    others = labels @ labels.mT - torch.eye(x.shape[1]).to(x)
    cosines = others * (directions @ directions.mT)
    return cosines.sum(-1, keepdim=True) / others.sum(-1, keepdim=True).clamp(min=1)
