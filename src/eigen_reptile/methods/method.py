"""What every meta-learning method is: a frozen object whose fields are its settings and which proposes a direction."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import reduce
from typing import NamedTuple, TypeVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from eigen_reptile.inner import InnerConfig, InnerState, trajectory
from eigen_reptile.learner import Learner
from eigen_reptile.tasks import Batches, Tasks, each_task
from eigen_reptile.threads import side_by_side

T = TypeVar("T")


class Iteration(NamedTuple):
    """What a method is given: S lanes, each with B tasks."""

    learner: Learner
    theta: Float[Tensor, "S d"]
    memory: InnerState
    """The inner optimiser's."""
    tasks: Tasks
    batches: Batches
    inner: InnerConfig
    step: Int[Tensor, ""]
    """The number of the iteration, counted from 0."""

    @property
    def tasks_each(self) -> int:
        """Tasks of each lane."""
        return self.tasks.x.shape[1]

    @property
    def point(self) -> Float[Tensor, "S B d"]:
        """Where the inner loop of each task starts."""
        return self.theta[:, None].expand(-1, self.tasks_each, -1)

    @property
    def start(self) -> InnerState:
        """The memory with which the inner loop of each task starts."""
        memory = self.memory if self.inner.carry == "shared" else InnerState.empty(self.theta)
        return memory.for_tasks(self.tasks_each)

    def in_parts(self, work: Callable[["Iteration"], T], size: int) -> Iterator[T]:
        """What comes of the work on all tasks at once, or on each by itself, whichever is faster.

        Each piece of work on one task holds so many bytes.
        """
        if self.learner.batched:
            return iter([work(self)])
        parts = ((self._replace(tasks=one, batches=its),) for one, its in each_task(self.tasks, self.batches))
        return side_by_side(work, parts, size, self.theta.device)


class Proposal(NamedTuple):
    """What some tasks ask of each lane, averaged over them.

    Only means over tasks enter the direction, so that tasks can be taken one after the other, or shared out between
    processes, and their proposals averaged.
    """

    vector: Float[Tensor, "S d"]
    length: Float[Tensor, "S"]
    memory: InnerState
    """The inner optimiser's memory afterwards."""
    stats: dict[str, Float[Tensor, "S"]]
    """Numbers worth logging."""

    @property
    def direction(self) -> Float[Tensor, "S d"]:
        """Where theta should go; the outer step multiplies it. NaN marks a lane that diverged."""
        return self.length.to(self.vector)[:, None] * self.vector

    def tensors(self) -> list[Tensor]:
        return [self.vector, self.length, *self.memory, *self.stats.values()]

    def with_tensors(self, tensors: Iterable[Tensor]) -> "Proposal":
        """The same with other values, in the order in which `tensors` gives them."""
        vector, length, square, steps, *stats = tensors
        return Proposal(vector, length, InnerState(square, steps), dict(zip(self.stats, stats, strict=True)))

    def plus(self, other: "Proposal") -> "Proposal":
        return self.with_tensors(a + b for a, b in zip(self.tensors(), other.tensors(), strict=True))

    def over(self, count: int) -> "Proposal":
        return self.with_tensors(tensor / count for tensor in self.tensors())


class Moves(NamedTuple):
    """How each task would move theta: its length times its vector, each averaged over the tasks."""

    vector: Float[Tensor, "S B d"]
    length: Float[Tensor, "S B"]
    stats: dict[str, Float[Tensor, "S B"]]

    def summed(self, memory: InnerState) -> Proposal:
        """The proposal of all these tasks, times their number."""
        stats = {name: values.sum(1) for name, values in self.stats.items()}
        return Proposal(self.vector.sum(1), self.length.sum(1), InnerState(*(part.sum(1) for part in memory)), stats)


def along(moved: Float[Tensor, "S B d"]) -> Moves:
    """Moves that are their tasks' own vectors as they are."""
    length = moved.norm(dim=-1)
    return Moves(moved, torch.ones_like(length), {"length": length})


@dataclass(frozen=True)
class Method(ABC):
    """A rule that turns a meta-batch of tasks into a direction for theta."""

    def batches(self, inner: InnerConfig) -> int:
        """Mini-batches that are drawn from each task."""
        return inner.steps

    def summary(self, stats: dict[str, float]) -> dict[str, float]:
        """What is worth logging, out of the stats of a proposal."""
        return stats

    @abstractmethod
    def propose(self, iteration: Iteration) -> Proposal:
        """What the tasks of an iteration ask: a pure function, without control flow on values."""


@dataclass(frozen=True)
class TrajectoryMethod(Method):
    """A method that looks only at the points that the inner loop passed through."""

    @abstractmethod
    def moves(self, W: Float[Tensor, "S B rows d"]) -> Moves:
        """What follows from the trajectory of each task, with the start as its first row."""

    def propose(self, iteration: Iteration) -> Proposal:
        learner, theta, inner = iteration.learner, iteration.theta, iteration.inner

        def summed(some: Iteration) -> Proposal:
            W, end = trajectory(learner, some.point, some.start, some.tasks.x, some.batches, inner)
            return self.moves(W).summed(end)

        size = (inner.steps + 1) * theta.nbytes
        return reduce(Proposal.plus, iteration.in_parts(summed, size)).over(iteration.tasks_each)
