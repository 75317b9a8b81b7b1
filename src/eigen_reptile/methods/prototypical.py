"""Prototypical networks (Snell, Swersky, Zemel 2017): the nearest mean of a class, in a learnt space."""

from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float, Shaped
from torch import Tensor
from torch.nn.functional import one_hot

from eigen_reptile.inner import InnerConfig, InnerState
from eigen_reptile.learner import Learner
from eigen_reptile.methods.gradient import GradientMethod
from eigen_reptile.methods.method import Iteration, Suggestion
from eigen_reptile.tasks import Batches, Tasks


@dataclass(frozen=True)
class MetricMethod(GradientMethod):
    """A method whose answers come from comparing queries with the support: nothing is adapted."""

    @property
    def classifies(self) -> bool:
        return True

    @property
    def suggests(self) -> Suggestion | None:
        return Suggestion(steps=1, lr=1.0, after=1, tasks=1, filters=64, head=False)

    def losses(self, iteration: Iteration) -> Float[Tensor, "S B"]:
        tasks, learner = iteration.tasks, iteration.learner
        said = self.answers(learner, iteration.point, tasks, tasks.query_x)
        return learner.sample_loss(said, tasks.query_y).mean(-1)

    def adapted(
        self,
        learner: Learner,
        theta: Float[Tensor, "S B D"],
        memory: InnerState,
        tasks: Tasks,
        batches: Batches,
        inner: InnerConfig,
    ) -> tuple[Float[Tensor, "S B D"], InnerState]:
        return theta, memory


@final
@dataclass(frozen=True)
class Prototypical(MetricMethod):
    """The class whose support has the nearest mean in the space of the network's outputs."""

    def answers(
        self, learner: Learner, theta: Float[Tensor, "S B D"], tasks: Tasks, x: Shaped[Tensor, "S B q *shape"]
    ) -> Shaped[Tensor, "S B q *out"]:
        placed = learner.outputs(theta, torch.cat([tasks.x, x], dim=2))
        support, asked = placed.split([tasks.x.shape[2], x.shape[2]], dim=2)
        member = one_hot(tasks.y, tasks.classes.shape[2]).to(placed).transpose(2, 3)
        # A class that wrong labels have emptied keeps a prototype in the origin.
        prototypes = member @ support / member.sum(-1, keepdim=True).clamp(min=1)
        distances: Tensor = (asked[:, :, :, None] - prototypes[:, :, None]).square().sum(-1)
        return -distances
