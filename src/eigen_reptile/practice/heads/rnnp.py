"""RNNP: robust nearest neighbour prototypes, from hybrids of the samples of a class."""

from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import normalize, one_hot

from eigen_reptile.errors import ConfigError
from eigen_reptile.practice.heads.head import Head, LinearHead, Support
from eigen_reptile.practice.heads.prototypes import towards
from eigen_reptile.practice.heads.scaling import Scaling


@final
@dataclass(frozen=True)
class Rnnp(Head):
    """Mazumder, Singh and Namboodiri 2021, https://arxiv.org/abs/2011.11067: k-means over hybrid features, begun at the
    class means, so that samples with wrong labels move to the class that they resemble.

    A hybrid is `share` of one sample and the rest of another one with the same label. The authors draw a few partners
    for each sample; here every sample is mixed with every one of its label, itself included, which is deterministic.
    Use it to compare with the literature; the memory is quadratic in the samples.
    """

    share: float = 0.8
    """Share of the first sample in a hybrid."""
    rounds: int = 10
    """Rounds of k-means."""

    def __post_init__(self) -> None:
        if not 0.5 <= self.share <= 1:
            raise ConfigError(f"`head.share` must be from 0.5 to 1, not {self.share}")
        if self.rounds < 1:
            raise ConfigError(f"`head.rounds` must be at least 1, not {self.rounds}")

    def fit(self, support: Support) -> LinearHead:
        support = support.double()
        scaling = Scaling.of(support)
        x = scaling(support.x)
        labels = support.one_hot
        means = normalize(labels.mT, p=1, dim=-1) @ x
        partners, prototypes = labels @ labels.mT, means
        for _ in range(self.rounds):
            prototypes = self._moved(x, partners, prototypes)
        empty = labels.sum(1)[..., None] == 0
        return towards(scaling, torch.where(empty, means, prototypes))

    def _moved(
        self, x: Float[Tensor, "T m F"], partners: Float[Tensor, "T m m"], prototypes: Float[Tensor, "T way F"]
    ) -> Float[Tensor, "T way F"]:
        """The mean of the hybrids that are nearest to each prototype; a prototype that none is nearest to stays.

        Half the squared distance of a sample to a prototype, up to a constant, is affine in the sample, so those of a
        hybrid are a mixture of those of its two samples, and no hybrid is ever formed.
        """
        nearness = x @ prototypes.mT - prototypes.square().sum(-1)[:, None] / 2
        mixed = self.share * nearness[:, :, None] + (1 - self.share) * nearness[:, None]
        nearest = partners[..., None] * one_hot(mixed.argmax(-1), nearness.shape[-1])
        weights = self.share * nearest.sum(2) + (1 - self.share) * nearest.sum(1)
        total = weights.sum(1)[..., None]
        return torch.where(total > 0, weights.mT @ x / total.clamp(min=1), prototypes)
