"""Tasks for S lanes side by side, and the mini-batches that the inner loop will see."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from eigen_reptile.data import Bank


@dataclass(frozen=True)
class TaskConfig:
    """What one training task holds."""

    shots: int = 50
    """Support samples of a training task (m); on the sine wave 50 is the whole grid."""

    def __post_init__(self) -> None:
        if self.shots < 1:
            raise ValueError(f"shots must be at least 1, not {self.shots}")


class Tasks(NamedTuple):
    """B tasks for each of S lanes."""

    x: Shaped[Tensor, "S B m *shape"]
    y: Shaped[Tensor, "S B m *target"]
    query_x: Shaped[Tensor, "S B q *shape"]
    query_y: Shaped[Tensor, "S B q *target"]


class Batches(NamedTuple):
    """The n mini-batches of b samples that each task's inner loop takes, in order."""

    chosen: Int[Tensor, "S B n b"]
    """Which support samples."""
    y: Shaped[Tensor, "S B n b *target"]
    """Their labels, as the inner loop is told them."""
    weight: Float[Tensor, "S B n b"]
    """How much each counts in the loss."""


def sample_tasks(bank: Bank, shots: int, count: int, rngs: Sequence[np.random.Generator]) -> Tasks:
    """`count` tasks for each generator; lane s gets those of generator s."""
    return Tasks(*(torch.from_numpy(array) for array in bank.draw(count, shots, rngs)))


def draw_batches(tasks: Tasks, steps: int, size: int, rngs: Sequence[np.random.Generator]) -> Batches:
    """Shuffled passes over each task's support, one after the other, cut into `steps` batches of `size`."""
    count, m = tasks.x.shape[1:3]
    passes = -(-steps * size // m)
    keys = np.stack([rng.random((count, passes, m), dtype=np.float32) for rng in rngs])
    order = torch.from_numpy(keys.argsort(-1)).flatten(2)
    index = order[:, :, : steps * size]
    y = take_samples(tasks.y, index).unflatten(2, (steps, size))
    index = index.unflatten(2, (steps, size))
    return Batches(index, y, torch.ones(index.shape, dtype=torch.float32))


def take_samples(
    samples: Shaped[Tensor, "S B m *shape"], index: Int[Tensor, "S B b"]
) -> Shaped[Tensor, "S B b *shape"]:
    """Of each task's m samples, those that its own row of the index names."""
    lane = torch.arange(index.shape[0], device=index.device)[:, None, None]
    task = torch.arange(index.shape[1], device=index.device)[None, :, None]
    return samples[lane, task, index]
