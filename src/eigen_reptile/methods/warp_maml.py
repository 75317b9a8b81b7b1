"""Warp-MAML (Flennerhag et al. 2020): MAML with layers between the others that bend the inner gradients."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from eigen_reptile.inner import InnerState
from eigen_reptile.learner import Learner
from eigen_reptile.methods.gradient import META_LOSS
from eigen_reptile.methods.maml import Maml, Rule, sparing
from eigen_reptile.methods.method import Adaptation, Iteration, Suggestion
from eigen_reptile.models import Conv4
from eigen_reptile.tasks import each_step

WARP, WARP_LOSS = "warp", "warp_loss"


@final
@dataclass(frozen=True)
class WarpMaml(Maml):
    """MAML whose network has warp layers: adaptation leaves them as they are, but goes through them.

    They are to make each single step of it good: their loss is that of the queries after one step from each point
    that the inner loop passed through, taken as it is. With its authors that alone teaches the warp layers, and MAML's
    loss the others; here MAML's loss teaches all. A network without warp layers is that of MAML.
    """

    strength: float = 1.0
    """How much the warp layers' loss counts, beside MAML's."""

    def __post_init__(self) -> None:
        if not self.strength >= 0:
            raise ValueError(f"strength must be at least 0, not {self.strength}")

    @property
    def suggests(self) -> Suggestion | None:
        """As others have it who ran it on mini-ImageNet; the authors published no code for that."""
        return Suggestion(steps=5, lr=0.1, after=5, tasks=1, shots=5, model=Conv4(64, "valid", layers="warp"))

    def rule(self, learner: Learner, extra: Float[Tensor, "S B E"]) -> Rule:
        return sparing(learner, WARP, super().rule(learner, extra))

    def terms(self, iteration: Iteration) -> dict[str, Float[Tensor, "S B"]]:
        """MAML's loss, and that of the warp layers, along the same trajectory."""
        learner, tasks = iteration.learner, iteration.tasks
        warp = learner.within(WARP)
        if warp is None:
            return super().terms(iteration)
        warp = warp.to(iteration.theta.device)
        start = point = iteration.point
        memory, ahead = iteration.start, []
        for batch in each_step(iteration.batches):
            step = Adaptation(learner, point, memory, tasks, batch, iteration.inner)
            here = torch.where(warp, start, point.detach())
            known = InnerState(*(part.detach() for part in memory))
            ahead.append(self.judged(learner, self.adapted(step._replace(point=here, memory=known))[0], tasks))
            point, memory = self.adapted(step)
        return {META_LOSS: self.judged(learner, point, tasks), WARP_LOSS: torch.stack(ahead).sum(0)}

    def weights(self, means: Mapping[str, Float[Tensor, "S"]]) -> dict[str, Float[Tensor, "S"]]:
        found = super().weights(means)
        return found | ({WARP_LOSS: self.strength * torch.ones_like(means[WARP_LOSS])} if WARP_LOSS in means else {})
