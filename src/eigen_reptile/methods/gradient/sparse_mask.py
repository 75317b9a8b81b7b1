"""Sparse-MAML: learning which parameters the inner loop may change."""

import math
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from eigen_reptile.methods.gradient.adapted_parameters import GradientMap
from eigen_reptile.methods.gradient.gradient_transform import GradientTransform
from eigen_reptile.nn.flat_module import FlatModule
from eigen_reptile.runtime.rng import generator_at


@final
@dataclass(frozen=True)
class SparseMask(GradientTransform):
    """von Oswald et al. 2021, https://arxiv.org/abs/2110.14402: a learnt binary mask on the inner gradients.

    An entry passes where its learnt score is above zero. Use it with `order=1` and many inner steps, to see which
    layers should be adapted.
    """

    rate: float = 7.5
    """Learning rate of the scores, relative to that of the network."""

    def init(self, module: FlatModule, seed: int) -> Float[Tensor, "E"]:
        """Scores with mean zero, so that about half of the entries of each tensor pass."""
        rng = torch.Generator().manual_seed(int(generator_at(seed, "init", 1).integers(2**63)))
        parts = []
        for shape in module.shapes.values():
            bound = 0.5 if len(shape) < 2 else math.sqrt(6 / shape[1:].numel())  # Kaiming's
            scores = bound * (2 * torch.rand(shape, generator=rng) - 1)
            parts.append((scores - scores.mean()).flatten())
        return torch.cat(parts) / self.rate

    def bind(self, module: FlatModule, parameters: Float[Tensor, "S B E"]) -> GradientMap:
        scores = self.rate * parameters
        # Straight-through estimator: the mask is 0 or 1, but its gradient is that of the scores.
        mask = scores + ((scores > 0).to(scores) - scores).detach()
        return lambda gradient: mask * gradient
