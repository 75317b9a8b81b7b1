"""The interface of every meta-learning method: three verbs and a list of requirements."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import NamedTuple, TypeVar, final

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from eigen_reptile.inner import InnerConfig, InnerState
from eigen_reptile.nn.network import Network
from eigen_reptile.runtime.threads import map_in_threads
from eigen_reptile.tasks import Batches, Tasks, each_task

T = TypeVar("T")

WeightRule = Callable[[Mapping[str, Float[Tensor, "S"]]], dict[str, Float[Tensor, "S"]]]
"""From scalars averaged over all tasks to the weights of terms; a term that is not in the result has weight 1."""


def unweighted(means: Mapping[str, Float[Tensor, "S"]]) -> dict[str, Float[Tensor, "S"]]:
    return {}


class MetaUpdate(NamedTuple):
    """The meta-update for one meta-batch, averaged over its tasks.

    Only averages over tasks enter, so that tasks can be computed one at a time, or shared between processes, and their
    updates averaged.
    """

    terms: dict[str, Float[Tensor, "S D"]]
    """Directions in parameter space, one for each term of the meta-objective."""
    means: dict[str, Float[Tensor, "S"]]
    """Scalars: statistics to log, and what the weights depend on."""
    inner_state: InnerState
    """The inner optimiser's state afterwards."""
    weights: WeightRule = unweighted

    @property
    def direction(self) -> Float[Tensor, "S D"]:
        """The direction for theta, before the outer step size. NaN marks a replica that diverged."""
        weights = self.weights(self.means)
        parts = [
            weights[name].to(term)[:, None] * term if name in weights else term for name, term in self.terms.items()
        ]
        return parts[0] if len(parts) == 1 else torch.stack(parts, dim=1).sum(1)

    def tensors(self) -> list[Tensor]:
        return [*self.terms.values(), *self.means.values(), *self.inner_state]

    def with_tensors(self, tensors: Iterable[Tensor]) -> "MetaUpdate":
        """The same update with other values, in the order of `tensors`."""
        values = iter(tensors)
        terms = {name: next(values) for name in self.terms}
        means = {name: next(values) for name in self.means}
        return self._replace(terms=terms, means=means, inner_state=InnerState(*values))

    def plus(self, other: "MetaUpdate") -> "MetaUpdate":
        return self.with_tensors(a + b for a, b in zip(self.tensors(), other.tensors(), strict=True))

    def over(self, count: int) -> "MetaUpdate":
        return self.with_tensors(tensor / count for tensor in self.tensors())


class Adaptation(NamedTuple):
    """The input of `Method.adapt`: parameters for each of B tasks of S replicas, and the data to adapt them to."""

    network: Network
    theta: Float[Tensor, "S B D"]
    inner_state: InnerState
    tasks: Tasks
    batches: Batches
    inner: InnerConfig

    @property
    def network_theta(self) -> Float[Tensor, "S B d"]:
        """The network's part of theta."""
        return self.theta[..., : self.network.d]

    @property
    def extra(self) -> Float[Tensor, "S B E"]:
        """The method's own part of theta."""
        return self.theta[..., self.network.d :]


class MetaBatch(NamedTuple):
    """The input of `Method.meta_update`: S replicas with B tasks each."""

    network: Network
    theta: Float[Tensor, "S D"]
    """Everything that is meta-learnt: the network's initialisation, then the method's own parameters."""
    inner_state: InnerState
    tasks: Tasks
    batches: Batches
    inner: InnerConfig
    step: Int[Tensor, ""]
    """Index of the outer iteration, from 0."""

    @property
    def tasks_per_replica(self) -> int:
        return self.tasks.x.shape[1]

    @property
    def adaptation(self) -> Adaptation:
        """The adaptation from the initialisation to each task by all of its mini-batches."""
        B = self.tasks_per_replica
        theta = self.theta[:, None].expand(-1, B, -1)
        state = self.inner_state.carried(self.inner).for_tasks(B)
        return Adaptation(self.network, theta, state, self.tasks, self.batches, self.inner)

    def map_tasks(self, work: Callable[["MetaBatch"], T], bytes_each: int) -> Iterator[T]:
        """`work` on all tasks at once, or on each task by itself, whichever is faster.

        `bytes_each` is the memory that the work on one task needs.
        """
        if self.network.batched:
            return iter([work(self)])
        parts = (
            (self._replace(tasks=tasks, batches=batches),) for tasks, batches in each_task(self.tasks, self.batches)
        )
        return map_in_threads(work, parts, bytes_each, self.theta.device)


def average_over_tasks(batch: MetaBatch, summed: Callable[[MetaBatch], MetaUpdate]) -> MetaUpdate:
    """The meta-update averaged over the tasks of a meta-batch; `summed` computes its sum over a part of them."""
    bytes_each = (batch.inner.steps + 1) * batch.theta.nbytes
    return reduce(MetaUpdate.plus, batch.map_tasks(summed, bytes_each)).over(batch.tasks_per_replica)


class TaskSpec(NamedTuple):
    """What a method may know about its tasks before it has seen one."""

    shape: tuple[int, ...]
    """Shape of one input."""
    way: int
    """Classes in a task."""
    classes: int
    """Classes in the training set."""


def no_extra_parameters(network: Network, seed: int, spec: TaskSpec) -> Float[Tensor, "E"]:
    return torch.zeros(0)


def no_samples(inner: InnerConfig) -> int:
    return 0


def one_batch_per_step(inner: InnerConfig) -> int:
    return inner.steps


@final
@dataclass(frozen=True)
class Requirements:
    """What a method needs from its tasks, its network and its training."""

    queries: bool = False
    """Training tasks must have query samples."""
    classification_only: bool = False
    """It cannot be used for regression."""
    inner_loop: bool = True
    """It adapts parameters to a task by gradient steps on mini-batches."""
    support_in_batch: bool = False
    """`predict` passes the support through the network in one batch with the queries."""
    flexible_way: bool = False
    """It can be tested on tasks with another number of classes than those it was trained on."""
    supports_epochs: bool = False
    """It can also be trained on batches from passes over the whole training set, instead of on tasks."""
    min_tasks: int = 1
    """Smallest number of tasks in a meta-batch for which the method is defined."""
    distinct_samples: bool = False
    """No sample of a task may be drawn twice, because the method selects among those drawn."""
    batches_to_draw: Callable[[InnerConfig], int] = one_batch_per_step
    """Number of mini-batches to draw from each task; ConfigError if the inner loop does not suit the method."""
    selection_samples: Callable[[InnerConfig], int] = no_samples
    """Number of samples of a task that pass through the network to select those of the inner loop."""
    extra_parameters: Callable[[Network, int, TaskSpec], Float[Tensor, "E"]] = no_extra_parameters
    """Initial values, for a given seed, of the parameters that are meta-learnt besides the network's."""


@dataclass(frozen=True)
class Method(ABC):
    """A meta-learning method: a frozen object whose fields are its hyper-parameters."""

    @property
    @abstractmethod
    def requirements(self) -> Requirements: ...

    @abstractmethod
    def meta_update(self, batch: MetaBatch) -> MetaUpdate:
        """The meta-update for one meta-batch: a pure function, without control flow on tensor values."""

    @abstractmethod
    def adapt(self, adaptation: Adaptation) -> tuple[Float[Tensor, "S B D"], InnerState]:
        """Theta adapted to each task by its mini-batches, and the inner optimiser's state afterwards."""

    @abstractmethod
    def predict(
        self, network: Network, theta: Float[Tensor, "S B D"], tasks: Tasks, x: Shaped[Tensor, "S B q *shape"]
    ) -> Shaped[Tensor, "S B q *out"]:
        """Predictions of the adapted parameters for samples of each task that form one batch."""


def initial_theta(method: Method, network: Network, seed: int, spec: TaskSpec) -> Float[Tensor, "D"]:
    """Theta before training: the network's d parameters, then the method's own."""
    parameters = network.module.init(seed)
    extra = method.requirements.extra_parameters(network, seed, spec)
    return torch.cat([parameters, extra.to(parameters)])
