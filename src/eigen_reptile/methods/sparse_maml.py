"""Sparse-MAML (von Oswald et al. 2021): learning which parameters the inner loop may change."""

import math
from dataclasses import dataclass
from typing import Literal, final

import torch
from jaxtyping import Float
from torch import Tensor

from eigen_reptile.learner import Learner
from eigen_reptile.methods.maml import Maml, Rule
from eigen_reptile.methods.method import Domain, Suggestion
from eigen_reptile.models import Conv4
from eigen_reptile.streams import stream


@final
@dataclass(frozen=True)
class SparseMaml(Maml):
    """First-order MAML whose inner loop changes only the parameters whose learnt number is above zero."""

    order: Literal[1, 2] = 1
    adapts_norms: bool = True
    mask_rate: float = 7.5
    """How many times as fast as the network the numbers behind the mask are learnt."""

    @property
    def suggests(self) -> Suggestion | None:
        return Suggestion(steps=35, lr=0.1, after=35, tasks=2, model=Conv4(64, "valid"), iterations=40_000)

    def extra(self, learner: Learner, seed: int, domain: Domain) -> Float[Tensor, "E"]:
        """About half of the parameters of each tensor are let through."""
        rng = torch.Generator().manual_seed(int(stream(seed, "init", 1).integers(2**63)))
        parts = []
        for shape in learner.shapes.values():
            bound = 0.5 if len(shape) < 2 else math.sqrt(6 / shape[1:].numel())  # as Kaiming has it
            drawn = bound * (2 * torch.rand(shape, generator=rng) - 1)
            parts.append((drawn - drawn.mean()).flatten())
        return torch.cat(parts) / self.mask_rate

    def rule(self, learner: Learner, extra: Float[Tensor, "S B E"]) -> Rule:
        number = self.mask_rate * extra
        # What lets through is 0 or 1, but its gradient is taken as if it were the number itself.
        mask = number + ((number > 0).to(number) - number).detach()
        let_through = super().rule(learner, extra)
        return lambda gradient: let_through(mask * gradient)
