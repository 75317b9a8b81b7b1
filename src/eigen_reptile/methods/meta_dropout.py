"""Meta-dropout (Lee et al. 2020): MAML that learns under which noise to adapt."""

from dataclasses import dataclass, replace
from hashlib import sha256
from typing import final

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from eigen_reptile.learner import Learner
from eigen_reptile.methods.maml import Maml, Rule, sparing
from eigen_reptile.methods.method import Iteration, Suggestion
from eigen_reptile.models import Conv4
from eigen_reptile.streams import stream

NOISE = "noise"


@final
@dataclass(frozen=True)
class MetaDropout(Maml):
    """MAML whose inner loop adapts under noise in every layer, of a strength that is learnt and left as it is.

    Queries are answered without noise. What the noise is, each mini-batch settles by itself: so it is the same
    wherever, whenever and beside whatever else a task is learnt. As everywhere here convolutions have no bias. A
    network without layers for noise is that of MAML.
    """

    samples: int = 5
    """Draws of noise over which each step in evaluation takes the mean (the authors have 30); in training it is one."""

    def __post_init__(self) -> None:
        if self.samples < 1:
            raise ValueError(f"samples must be at least 1, not {self.samples}")

    @property
    def suggests(self) -> Suggestion | None:
        pictures = Suggestion(
            steps=5, lr=0.01, after=5, long_lr=1e-4, clip=3.0, model=Conv4(pooling="valid", layers="noise")
        )
        return pictures._replace(characters=pictures.for_characters()._replace(lr=0.1))

    def rule(self, learner: Learner, extra: Float[Tensor, "S B E"]) -> Rule:
        return sparing(learner, NOISE, super().rule(learner, extra))

    def losses(self, iteration: Iteration) -> Float[Tensor, "S B"]:
        return super().losses(iteration) if self.samples == 1 else replace(self, samples=1).losses(iteration)

    def gradient(
        self,
        learner: Learner,
        network: Float[Tensor, "S B d"],
        x: Shaped[Tensor, "S B b *shape"],
        y: Shaped[Tensor, "S B b *target"],
        weight: Float[Tensor, "S B b"],
    ) -> Float[Tensor, "S B d"]:
        """With its own noise for each task; the mean over the draws."""
        if learner.within(NOISE) is None:
            return super().gradient(learner, network, x, y, weight)
        found = []
        for one in zip(*(part.flatten(0, 1)[:, None, None] for part in (network, x, y, weight)), strict=True):
            draws = [learner.told(seed).gradient(*one) for seed in noise_seeds(one[1], self.samples)]
            found.append(torch.stack(draws).mean(0))
        return torch.cat(found).view(network.shape)


def noise_seeds(x: Shaped[Tensor, "1 1 b *shape"], count: int) -> list[int]:
    """What the noise of a mini-batch is drawn with: numbers that its samples and their order settle."""
    seed = int.from_bytes(sha256(x.cpu().numpy().tobytes()).digest()[:8], "big")
    return [int(stream(seed, "noise", number).integers(2**63)) for number in range(count)]
