"""Mean prototypes: the class whose mean has the smallest angle to the sample."""

from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import normalize

from eigen_reptile.practice.heads.head import Head, LinearHead, Support
from eigen_reptile.practice.heads.scaling import Scaling

TEMPERATURE = 14.0
"""Inverse temperature of cosines, from the validation classes of CIFAR-FS (docs/trust.md)."""


@final
@dataclass(frozen=True)
class MeanPrototypes(Head):
    """Snell, Swersky and Zemel 2017, https://arxiv.org/abs/1703.05175: the class whose mean is nearest in angle.

    The best simple head if all labels are right. A wrong label moves two means.
    """

    def fit(self, support: Support) -> LinearHead:
        scaling = Scaling.of(support)
        return towards(scaling, support.one_hot.mT @ scaling(support.x))


def towards(
    scaling: Scaling, directions: Float[Tensor, "T way F"], temperature: Float[Tensor, "T"] | float = TEMPERATURE
) -> LinearHead:
    """The head that compares the angles of scaled features to one direction for each class."""
    scale = torch.as_tensor(temperature).to(directions).expand(len(directions))
    weight = scale[:, None, None] * normalize(directions, dim=-1)
    return scaling.undone(weight, torch.zeros_like(weight[..., 0]))
