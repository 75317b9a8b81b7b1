"""Tasks with support and query samples, and the mini-batches that the inner loop takes from the support."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from eigen_reptile.errors import ConfigError


@final
@dataclass(frozen=True)
class TaskConfig:
    """The composition of a training task."""

    way: int = 1
    """Classes in a task (N); 1 for regression."""
    shots: int = 50
    """Support samples of each class in a training task; on the sine wave 50 is the whole grid."""
    queries: int = 0
    """Query samples of each class in a training task, for methods that learn from them."""
    epochs: bool = False
    """Train on batches as large as a task, drawn in shuffled passes over the whole training set, instead of on tasks;
    for methods that learn to classify among all training classes."""

    def __post_init__(self) -> None:
        for name, least in {"way": 1, "shots": 1, "queries": 0}.items():
            if getattr(self, name) < least:
                raise ConfigError(f"`task.{name}` must be at least {least}, not {getattr(self, name)}")

    @property
    def support(self) -> int:
        """Support samples of a task."""
        return self.way * self.shots

    @property
    def samples(self) -> int:
        """Samples of a task, or of a batch that takes its place."""
        return self.way * (self.shots + self.queries)


class Tasks(NamedTuple):
    """B tasks for each of S replicas."""

    x: Shaped[Tensor, "S B m *shape"]
    y: Shaped[Tensor, "S B m *target"]
    query_x: Shaped[Tensor, "S B q *shape"]
    query_y: Shaped[Tensor, "S B q *target"]
    is_clean: Bool[Tensor, "S B m"]
    """Whether the support label is the true one. Only for scoring: no method may learn from it."""
    classes: Int[Tensor, "S B way"]
    """Indices of the task's classes in the bank."""


class Batches(NamedTuple):
    """The n mini-batches of b samples that the inner loop of each task takes, in order."""

    chosen: Int[Tensor, "S B n b"]
    """Indices into the support."""
    y: Shaped[Tensor, "S B n b *target"]
    """Their labels, as the inner loop sees them."""
    weight: Float[Tensor, "S B n b"]
    """Their weights in the loss."""
    is_clean: Bool[Tensor, "S B n b"]
    """Whether their labels are the true ones; only for scoring."""


def draw_batches(tasks: Tasks, steps: int, size: int | None, rngs: Sequence[np.random.Generator]) -> Batches:
    """Shuffled passes over the support of each task, cut into `steps` batches of `size`; None: the whole support."""
    count, m = tasks.x.shape[1:3]
    size = m if size is None else size
    passes = -(-steps * size // m)
    keys = np.stack([rng.random((count, passes, m), dtype=np.float32) for rng in rngs])
    order = torch.from_numpy(keys.argsort(-1)).flatten(2).to(tasks.x.device)
    index = order[:, :, : steps * size]
    index, y, is_clean = (
        part.unflatten(2, (steps, size))
        for part in (index, take_samples(tasks.y, index), take_samples(tasks.is_clean, index))
    )
    return Batches(index, y, torch.ones(index.shape, device=index.device), is_clean)


def each_task(tasks: Tasks, batches: Batches) -> Iterator[tuple[Tasks, Batches]]:
    """One task at a time, still with the task axis."""
    for task in range(tasks.x.shape[1]):
        one = slice(task, task + 1)
        yield Tasks(*(part[:, one] for part in tasks)), Batches(*(part[:, one] for part in batches))


def each_step(batches: Batches) -> Iterator[Batches]:
    """One mini-batch of each task at a time, still with the axis of steps."""
    for step in range(batches.chosen.shape[2]):
        yield Batches(*(part[:, :, step : step + 1] for part in batches))


def take_samples(
    samples: Shaped[Tensor, "S B m *shape"], index: Int[Tensor, "S B b"]
) -> Shaped[Tensor, "S B b *shape"]:
    """The samples of each task at the indices in its own row."""
    replica = torch.arange(index.shape[0], device=index.device)[:, None, None]
    task = torch.arange(index.shape[1], device=index.device)[None, :, None]
    return samples[replica, task, index]
