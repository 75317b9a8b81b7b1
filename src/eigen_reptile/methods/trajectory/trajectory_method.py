"""Methods that only look at the trajectory of the inner loop."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from eigen_reptile.inner import InnerConfig, InnerState, adapt, trajectory
from eigen_reptile.methods.method import (
    Adaptation,
    MetaBatch,
    MetaUpdate,
    Method,
    Requirements,
    WeightRule,
    average_over_tasks,
    unweighted,
)
from eigen_reptile.nn.network import Network
from eigen_reptile.tasks import Tasks

DIRECTION = "direction"
"""The only term of the update."""


FEW_STEPS = 10
"""Inner steps that give enough points for every method."""


class TaskDirections(NamedTuple):
    """The direction that follows from the trajectory of each task."""

    vector: Float[Tensor, "S B d"]
    stats: dict[str, Float[Tensor, "S B"]]
    """Numbers worth logging."""
    weights: WeightRule = unweighted
    """A factor for the mean vector that depends on the means of the statistics."""


def as_directions(movement: Float[Tensor, "S B d"]) -> TaskDirections:
    """Directions that are the tasks' own movements, unchanged."""
    return TaskDirections(movement, {"length": movement.norm(dim=-1)})


@dataclass(frozen=True)
class TrajectoryMethod(Method):
    """A method whose update follows from the points of the inner loop alone; it adapts and predicts like Reptile."""

    compiles: ClassVar[bool] = False
    """Whether `direction_of` consists of many small operations, which are worth compiling."""

    @abstractmethod
    def direction_of(self, W: Float[Tensor, "S B rows d"]) -> TaskDirections:
        """The direction for each task from its trajectory, whose first row is the start."""

    @property
    def requirements(self) -> Requirements:
        return Requirements(batches_to_draw=self._batches_to_draw)

    def _batches_to_draw(self, inner: InnerConfig) -> int:
        if inner.steps <= FEW_STEPS:
            self.direction_of(torch.zeros(1, 1, inner.steps + 1, 1))  # ConfigError if it needs more points
        return inner.steps

    def meta_update(self, batch: MetaBatch) -> MetaUpdate:
        direction_of = self.direction_of
        if self.compiles and not batch.network.batched:
            direction_of = batch.network.compiled(DIRECTION, direction_of)

        def summed(part: MetaBatch) -> MetaUpdate:
            network, theta, state, tasks, batches, inner = part.adaptation
            W, end = trajectory(network.gradient, theta, state, tasks.x, batches, inner)
            vector, stats, weights = direction_of(W)
            sums = {name: values.sum(1) for name, values in stats.items()}
            return MetaUpdate({DIRECTION: vector.sum(1)}, sums, end.summed_over_tasks(), weights)

        return average_over_tasks(batch, summed)

    def adapt(self, adaptation: Adaptation) -> tuple[Float[Tensor, "S B D"], InnerState]:
        network, theta, state, tasks, batches, inner = adaptation
        return adapt(network.gradient, theta, state, tasks.x, batches, inner)

    def predict(
        self, network: Network, theta: Float[Tensor, "S B D"], tasks: Tasks, x: Shaped[Tensor, "S B q *shape"]
    ) -> Shaped[Tensor, "S B q *out"]:
        return network.outputs(theta, x)
