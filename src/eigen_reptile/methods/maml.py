"""MAML (Finn, Abbeel, Levine 2017): an initialisation whose loss on new samples is small after adaptation."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from eigen_reptile.inner import InnerState, adapt
from eigen_reptile.learner import Learner
from eigen_reptile.methods.gradient import GradientMethod
from eigen_reptile.methods.method import Adaptation, Iteration
from eigen_reptile.tasks import Tasks

Rule = Callable[[Float[Tensor, "S B d"]], Float[Tensor, "S B d"]]
"""What the inner loop takes in place of a gradient."""


@dataclass(frozen=True)
class Maml(GradientMethod):
    """Down the gradient of the queries' loss after adaptation, through the adaptation."""

    order: Literal[1, 2] = 2
    """2: the gradient also goes through the inner gradients. 1: it takes them for constants (FOMAML)."""
    adapts: Literal["all", "head", "body"] = "all"
    """What the inner loop changes: everything, only the last layer (ANIL), or all but the last layer (BOIL)."""
    adapts_norms: bool = False
    """Whether it changes the scales and shifts of batch-norm too; otherwise they are only meta-learnt, as published."""

    def rule(self, learner: Learner, extra: Float[Tensor, "S B E"]) -> Rule:
        """What the inner loop makes of each gradient."""
        changed = set(learner.shapes)
        if not self.adapts_norms:
            changed -= learner.norms
        if self.adapts != "all":
            changed = changed & learner.head if self.adapts == "head" else changed - learner.head
        if changed == set(learner.shapes):
            return lambda gradient: gradient
        mask = learner.where(changed).to(extra.device)
        return lambda gradient: gradient * mask

    def gradient(
        self,
        learner: Learner,
        network: Float[Tensor, "S B d"],
        x: Shaped[Tensor, "S B b *shape"],
        y: Shaped[Tensor, "S B b *target"],
        weight: Float[Tensor, "S B b"],
    ) -> Float[Tensor, "S B d"]:
        """The inner gradient of each task's mini-batch."""
        return learner.gradient(network, x, y, weight)

    def losses(self, iteration: Iteration) -> Float[Tensor, "S B"]:
        end, _ = self.adapted(iteration.adaptation)
        return self.judged(iteration.learner, end, iteration.tasks)

    def judged(self, learner: Learner, theta: Float[Tensor, "S B D"], tasks: Tasks) -> Float[Tensor, "S B"]:
        """The loss of adapted parameters on each task's queries."""
        return learner.sample_loss(self.answers(learner, theta, tasks, tasks.query_x), tasks.query_y).mean(-1)

    def adapted(self, adaptation: Adaptation) -> tuple[Float[Tensor, "S B D"], InnerState]:
        learner, _, memory, tasks, batches, inner = adaptation
        rule = self.rule(learner, adaptation.extra)

        def gradient(point: Tensor, x: Tensor, y: Tensor, weight: Tensor) -> Tensor:
            return rule(self.gradient(learner, point if self.order == 2 else point.detach(), x, y, weight))

        network, memory = adapt(gradient, adaptation.network, memory, tasks.x, batches, inner)
        return torch.cat([network, adaptation.extra], dim=-1), memory

    def answers(
        self, learner: Learner, theta: Float[Tensor, "S B D"], tasks: Tasks, x: Shaped[Tensor, "S B q *shape"]
    ) -> Shaped[Tensor, "S B q *out"]:
        return learner.outputs(theta[..., : learner.d], x)


def sparing(learner: Learner, layer: str, rule: Rule) -> Rule:
    """The rule, but that layers of this name are left as they are."""
    spared = learner.within(layer)
    return rule if spared is None else lambda gradient: rule(gradient) * ~spared.to(gradient.device)
