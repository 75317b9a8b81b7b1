"""Tasks for S lanes side by side, and the mini-batches that the inner loop will see."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from eigen_reptile.data import Bank, TaskShape
from eigen_reptile.streams import stream

CPU = torch.device("cpu")


@dataclass(frozen=True)
class TaskConfig:
    """What one training task holds."""

    way: int = 1
    """Classes in a task (N); 1 for regression."""
    shots: int = 50
    """Support samples of each class in a training task; on the sine wave 50 is the whole grid."""
    queries: int = 0
    """Query samples of each class in a training task, for methods that learn from them."""
    epochs: bool = False
    """Train on batches, of as many samples as a task has, out of shuffled passes over the whole training set, and not
    on tasks; for methods that learn to tell all of its classes apart."""

    @property
    def samples(self) -> int:
        """Samples of a task, or of a batch in its place."""
        return self.way * (self.shots + self.queries)

    def __post_init__(self) -> None:
        for name, least in {"way": 1, "shots": 1, "queries": 0}.items():
            if getattr(self, name) < least:
                raise ValueError(f"{name} must be at least {least}, not {getattr(self, name)}")


class Tasks(NamedTuple):
    """B tasks for each of S lanes."""

    x: Shaped[Tensor, "S B m *shape"]
    y: Shaped[Tensor, "S B m *target"]
    query_x: Shaped[Tensor, "S B q *shape"]
    query_y: Shaped[Tensor, "S B q *target"]
    right: Bool[Tensor, "S B m"]
    """Whether what y says is true. Only for scoring: no method may learn from it."""
    classes: Int[Tensor, "S B way"]
    """Which of the bank's classes the task's are."""


class Batches(NamedTuple):
    """The n mini-batches of b samples that each task's inner loop takes, in order."""

    chosen: Int[Tensor, "S B n b"]
    """Which support samples."""
    y: Shaped[Tensor, "S B n b *target"]
    """Their labels, as the inner loop is told them."""
    weight: Float[Tensor, "S B n b"]
    """How much each counts in the loss."""
    right: Bool[Tensor, "S B n b"]
    """Whether their labels are true; only for scoring."""


def sample_tasks(
    bank: Bank,
    task: TaskShape,
    count: int,
    rngs: Sequence[np.random.Generator],
    device: torch.device = CPU,
    dtype: torch.dtype = torch.float32,
) -> Tasks:
    """`count` tasks for each generator; lane s gets those of generator s.

    Numbers that are not whole get this dtype. Pictures stay bytes, which take a quarter of the room.
    """
    return Tasks(*(_tensor(array, device, dtype) for array in bank.draw(count, task, rngs)))


def whole_batches(
    bank: Bank,
    size: int,
    count: int,
    addresses: Sequence[tuple[int, int]],
    rngs: Sequence[np.random.Generator],
    device: torch.device = CPU,
    dtype: torch.dtype = torch.float32,
) -> Tasks:
    """`count` batches of `size` for each (seed, step): what comes next in shuffled passes over the whole bank.

    Each batch stands for a task of all classes, with no queries. The generators are for what is told wrong of it.
    """
    numbers = [in_passes(bank.size, seed, step * count * size, count * size) for seed, step in addresses]
    samples = bank.take(np.stack(numbers).reshape(-1, count, size), rngs)
    return Tasks(*(_tensor(array, device, dtype) for array in samples))


def in_passes(total: int, seed: int, first: int, count: int) -> Int[np.ndarray, "b"]:
    """The numbers from place `first` on in passes through all below `total`, each shuffled in its own way."""
    begun, ended = first // total, (first + count - 1) // total
    order = np.concatenate([_one_pass(total, seed, number) for number in range(begun, ended + 1)])
    return order[first - begun * total :][:count]


@lru_cache(maxsize=16)
def _one_pass(total: int, seed: int, number: int) -> Int[np.ndarray, "total"]:
    return stream(seed, "passes", number).permutation(total)


def _tensor(array: np.ndarray, device: torch.device, dtype: torch.dtype) -> Tensor:
    tensor = torch.from_numpy(array).to(device)
    return tensor.to(dtype) if tensor.is_floating_point() else tensor


def draw_batches(tasks: Tasks, steps: int, size: int, rngs: Sequence[np.random.Generator]) -> Batches:
    """Shuffled passes over each task's support, one after the other, cut into `steps` batches of `size`."""
    count, m = tasks.x.shape[1:3]
    passes = -(-steps * size // m)
    keys = np.stack([rng.random((count, passes, m), dtype=np.float32) for rng in rngs])
    order = torch.from_numpy(keys.argsort(-1)).flatten(2).to(tasks.x.device)
    index = order[:, :, : steps * size]
    index, y, right = (
        part.unflatten(2, (steps, size))
        for part in (index, take_samples(tasks.y, index), take_samples(tasks.right, index))
    )
    return Batches(index, y, torch.ones(index.shape, device=index.device), right)


def each_task(tasks: Tasks, batches: Batches) -> Iterator[tuple[Tasks, Batches]]:
    """One task after the other, each still with the task axis."""
    for task in range(tasks.x.shape[1]):
        one = slice(task, task + 1)
        yield Tasks(*(part[:, one] for part in tasks)), Batches(*(part[:, one] for part in batches))


def each_step(batches: Batches) -> Iterator[Batches]:
    """One mini-batch of each task after the other, each still with the axis of steps."""
    for step in range(batches.chosen.shape[2]):
        yield Batches(*(part[:, :, step : step + 1] for part in batches))


def take_samples(
    samples: Shaped[Tensor, "S B m *shape"], index: Int[Tensor, "S B b"]
) -> Shaped[Tensor, "S B b *shape"]:
    """Of each task's m samples, those that its own row of the index names."""
    lane = torch.arange(index.shape[0], device=index.device)[:, None, None]
    task = torch.arange(index.shape[1], device=index.device)[None, :, None]
    return samples[lane, task, index]
