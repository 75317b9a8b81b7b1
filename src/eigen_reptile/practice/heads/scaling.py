"""Features relative to their centre, with an average length of one."""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from eigen_reptile.practice.heads.head import LinearHead, Support

LARGEST = 1.5
"""The largest weight of a class in the centre, relative to the size of the median class."""


class Scaling(NamedTuple):
    """Subtracts the centre of the support, then divides by the average length of what is left.

    The centre is the mean of all samples unless a class is much larger than others. It would then be close to this
    class, whose samples would have any angle to each other. So a class counts for no more than `LARGEST` times the
    samples of the median class. Smaller differences of size are left as they are, because wrong labels cause them too.
    """

    mean: Float[Tensor, "T 1 F"]
    length: Float[Tensor, "T 1 1"]

    @staticmethod
    def of(support: Support) -> "Scaling":
        x, weight = support.x, _weights(support.one_hot)
        mean = (weight * x).sum(1, keepdim=True)
        length = (weight * (x - mean).norm(dim=-1, keepdim=True)).sum(1, keepdim=True)
        return Scaling(mean, torch.where(length > 0, length, 1))

    def __call__(self, x: Float[Tensor, "T m F"]) -> Float[Tensor, "T m F"]:
        return (x - self.mean) / self.length

    def undone(self, weight: Float[Tensor, "T way F"], bias: Float[Tensor, "T way"]) -> LinearHead:
        """The head whose logits for unscaled features are those of this weight and bias for scaled ones."""
        unscaled = weight / self.length
        return LinearHead(unscaled, bias - (unscaled @ self.mean.mT)[..., 0])


def _weights(one_hot: Float[Tensor, "T m way"]) -> Float[Tensor, "T m 1"]:
    """The weight of each sample in the centre; they add up to one."""
    size = one_hot.sum(1, keepdim=True)
    median = torch.where(size > 0, size, torch.nan).nanmedian(-1, keepdim=True).values
    weight = one_hot @ (LARGEST * median / size.clamp(min=1)).clamp(max=1).mT
    return weight / weight.sum(1, keepdim=True)
