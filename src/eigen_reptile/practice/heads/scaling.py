"""Features relative to their mean over the support, with an average length of one."""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from eigen_reptile.practice.heads.head import LinearHead


class Scaling(NamedTuple):
    """Subtracts the mean of the support, then divides by the average length of what is left."""

    mean: Float[Tensor, "T 1 F"]
    length: Float[Tensor, "T 1 1"]

    @staticmethod
    def of(x: Float[Tensor, "T m F"]) -> "Scaling":
        mean = x.mean(1, keepdim=True)
        length = (x - mean).norm(dim=-1).mean(1)[:, None, None]
        return Scaling(mean, torch.where(length > 0, length, 1))

    def __call__(self, x: Float[Tensor, "T m F"]) -> Float[Tensor, "T m F"]:
        return (x - self.mean) / self.length

    def undone(self, weight: Float[Tensor, "T way F"], bias: Float[Tensor, "T way"]) -> LinearHead:
        """The head whose logits for unscaled features are those of this weight and bias for scaled ones."""
        unscaled = weight / self.length
        return LinearHead(unscaled, bias - (unscaled @ self.mean.mT)[..., 0])
