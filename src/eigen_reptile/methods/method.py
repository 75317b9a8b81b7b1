"""What every meta-learning method is: a frozen object whose fields are its settings and which proposes a direction."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import reduce
from typing import NamedTuple, TypeVar

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from eigen_reptile.inner import InnerConfig, InnerState, adapt, trajectory
from eigen_reptile.learner import Learner
from eigen_reptile.models import Conv4
from eigen_reptile.tasks import Batches, Tasks, each_task
from eigen_reptile.threads import side_by_side

T = TypeVar("T")


class Adaptation(NamedTuple):
    """What a method is given to adapt: a point for each of the B tasks of S lanes, and what to learn from."""

    learner: Learner
    point: Float[Tensor, "S B D"]
    """Each task's theta so far."""
    memory: InnerState
    """And its inner optimiser's."""
    tasks: Tasks
    batches: Batches
    inner: InnerConfig

    @property
    def network(self) -> Float[Tensor, "S B d"]:
        """The part of each point that is the network."""
        return self.point[..., : self.learner.d]

    @property
    def extra(self) -> Float[Tensor, "S B E"]:
        """The part that is whatever else the method has."""
        return self.point[..., self.learner.d :]


class Iteration(NamedTuple):
    """What a method is given in training: S lanes, each with B tasks."""

    learner: Learner
    theta: Float[Tensor, "S D"]
    """All that is meta-learnt: the initial network, and whatever else the method has."""
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
    def point(self) -> Float[Tensor, "S B D"]:
        """What each task starts from."""
        return self.theta[:, None].expand(-1, self.tasks_each, -1)

    @property
    def network(self) -> Float[Tensor, "S B d"]:
        """The network that each task starts from."""
        return self.point[..., : self.learner.d]

    @property
    def start(self) -> InnerState:
        """The memory with which the inner loop of each task starts."""
        return self.memory.carried(self.inner).for_tasks(self.tasks_each)

    @property
    def adaptation(self) -> Adaptation:
        """From the start of each task through all of its mini-batches."""
        return Adaptation(self.learner, self.point, self.start, self.tasks, self.batches, self.inner)

    def in_parts(self, work: Callable[["Iteration"], T], size: int) -> Iterator[T]:
        """What comes of the work on all tasks at once, or on each by itself, whichever is faster.

        Each piece of work on one task holds so many bytes.
        """
        if self.learner.batched:
            return iter([work(self)])
        parts = ((self._replace(tasks=one, batches=its),) for one, its in each_task(self.tasks, self.batches))
        return side_by_side(work, parts, size, self.theta.device)


class Domain(NamedTuple):
    """What a method may know of its tasks before it has seen one."""

    shape: tuple[int, ...]
    """Of one input."""
    way: int
    """Classes in a task."""
    classes: int
    """The numbers of the classes of training, as tasks name them, are below this."""


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


class Suggestion(NamedTuple):
    """Settings that suit a method on pictures, where they are not the paper's.

    The first three are the inner loop's; a method without one leaves them as they are.
    """

    steps: int = 1
    """Inner steps on the whole support, by plain gradient descent."""
    lr: float = 1.0
    """Their rate, on the mean loss."""
    after: int = 1
    """Steps in evaluation."""
    outer_lr: float = 1e-3
    """Of Adam, at the start; it falls to zero like all others."""
    long_lr: float | None = None
    """The same for as many iterations as its authors have, where they have another that is too small for fewer."""
    clip: float | None = None
    tasks: int = 4
    shots: int = 1
    queries: int = 15
    """Of each class."""
    epochs: bool = False
    """Whether as many samples as a task has come out of passes over the whole training set."""
    model: Conv4 = Conv4(pooling="valid")
    iterations: int = 60_000
    """How many its authors have, for the scale `full`."""
    characters: "Suggestion | None" = None
    """What suits characters, where that is known."""

    def for_characters(self) -> "Suggestion":
        """What suits them better in a short run: by default larger steps, on few queries of more tasks."""
        return self.characters or self._replace(outer_lr=3 * self.outer_lr, tasks=2 * self.tasks, queries=5)


@dataclass(frozen=True)
class Method(ABC):
    """A rule that turns a meta-batch of tasks into a direction for theta, and theta into answers on a new task."""

    @property
    def wants_queries(self) -> bool:
        """Whether training tasks need queries of their own."""
        return False

    @property
    def classifies(self) -> bool:
        """Whether it can only tell classes apart."""
        return False

    @property
    def has_inner_loop(self) -> bool:
        """Whether it adapts parameters to a task, by its mini-batches."""
        return True

    @property
    def sees_support(self) -> bool:
        """Whether its answers put the support into one batch with the samples that are asked about."""
        return False

    @property
    def any_way(self) -> bool:
        """Whether what it learns from tasks of some number of classes serves for tasks of any other."""
        return False

    @property
    def takes_whole_set(self) -> bool:
        """Whether it can learn from batches of the whole training set, which stand for tasks of all its classes."""
        return False

    @property
    def least_tasks(self) -> int:
        """Tasks that a meta-batch must have for it to be what it is."""
        return 1

    @property
    def suggests(self) -> Suggestion | None:
        """What to begin with on pictures, if not what the paper has for Reptile and Eigen-Reptile."""
        return None

    def batches(self, inner: InnerConfig) -> int:
        """Mini-batches that are drawn from each task."""
        return inner.steps

    def summary(self, stats: dict[str, float]) -> dict[str, float]:
        """What is worth logging, out of the stats of a proposal."""
        return stats

    def extra(self, learner: Learner, seed: int, domain: Domain) -> Float[Tensor, "E"]:
        """What is meta-learnt beside the network, before training."""
        return torch.zeros(0)

    def init(self, learner: Learner, seed: int, domain: Domain) -> Float[Tensor, "D"]:
        """Theta before training: the network's d parameters, then whatever else is meta-learnt."""
        network = learner.init(seed)
        return torch.cat([network, self.extra(learner, seed, domain).to(network)])

    @abstractmethod
    def propose(self, iteration: Iteration) -> Proposal:
        """What the tasks of an iteration ask: a pure function, without control flow on values."""

    def compiled(self, required: bool) -> "Method":
        """The same for tasks that are done one by one, with what pays compiled; if need be without."""
        return self

    def settled(self, proposal: Proposal) -> Proposal:
        """The proposal of all tasks, with the vector that it makes of theirs."""
        return proposal

    def adapted(self, adaptation: Adaptation) -> tuple[Float[Tensor, "S B D"], InnerState]:
        """Theta after it has learnt from each task's mini-batches, and the inner optimiser's memory then."""
        learner, point, memory, tasks, batches, inner = adaptation
        return adapt(learner.gradient, point, memory, tasks.x, batches, inner)

    def answers(
        self, learner: Learner, theta: Float[Tensor, "S B D"], tasks: Tasks, x: Shaped[Tensor, "S B q *shape"]
    ) -> Shaped[Tensor, "S B q *out"]:
        """What adapted parameters say about samples of each task, all of one batch."""
        return learner.outputs(theta, x)


@dataclass(frozen=True)
class TrajectoryMethod(Method):
    """A method that looks only at the points that the inner loop passed through."""

    @abstractmethod
    def moves(self, W: Float[Tensor, "S B rows d"]) -> Moves:
        """What follows from the trajectory of each task, with the start as its first row."""

    def propose(self, iteration: Iteration) -> Proposal:
        learner, theta, inner = iteration.learner, iteration.theta, iteration.inner

        def summed(some: Iteration) -> Proposal:
            W, end = trajectory(learner.gradient, some.point, some.start, some.tasks.x, some.batches, inner)
            return self.moves(W).summed(end)

        size = (inner.steps + 1) * theta.nbytes
        return reduce(Proposal.plus, iteration.in_parts(summed, size)).over(iteration.tasks_each)
