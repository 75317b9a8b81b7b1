"""What every meta-learning method is: a frozen object whose fields are its settings and which computes a direction."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

from jaxtyping import Float
from torch import Tensor

from eigen_reptile.inner import InnerConfig, InnerState, trajectory
from eigen_reptile.learner import Learner
from eigen_reptile.tasks import Batches, Tasks

Stats = dict[str, Float[Tensor, "S"]]


class MetaUpdate(NamedTuple):
    """What one meta-batch says about each lane."""

    direction: Float[Tensor, "S d"]
    """Where theta should go; the outer step multiplies it. NaN marks a lane that diverged."""
    memory: InnerState
    """The inner optimiser's memory afterwards."""
    stats: Stats
    """Numbers worth logging, one for each lane."""


@dataclass(frozen=True)
class Method(ABC):
    """A rule that turns a meta-batch of tasks into a direction for theta."""

    @abstractmethod
    def meta_update(
        self,
        learner: Learner,
        theta: Float[Tensor, "S d"],
        memory: InnerState,
        tasks: Tasks,
        batches: Batches,
        inner: InnerConfig,
    ) -> MetaUpdate:
        """A pure function of its tensors, without control flow on their values."""


@dataclass(frozen=True)
class TrajectoryMethod(Method):
    """A method that looks only at the points that the inner loop passed through."""

    @abstractmethod
    def direction(self, W: Float[Tensor, "S B rows d"]) -> tuple[Float[Tensor, "S d"], Stats]:
        """The direction for each lane, from the trajectories of its B tasks, each with the start as its first row."""

    def meta_update(
        self,
        learner: Learner,
        theta: Float[Tensor, "S d"],
        memory: InnerState,
        tasks: Tasks,
        batches: Batches,
        inner: InnerConfig,
    ) -> MetaUpdate:
        B = tasks.x.shape[1]
        start = memory if inner.carry == "shared" else InnerState.empty(theta)
        W, end = trajectory(learner, theta[:, None].expand(-1, B, -1), start.for_tasks(B), tasks.x, batches, inner)
        direction, stats = self.direction(W)
        return MetaUpdate(direction, end.averaged(), stats)
