"""Draw tasks, or batches of an epoch, from a bank as tensors for S replicas side by side."""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from eigen_reptile.data.bank import Bank, Samples, TaskShape, require_finite
from eigen_reptile.runtime.rng import generator_at
from eigen_reptile.tasks import Tasks

CPU = torch.device("cpu")


def sample_tasks(
    bank: Bank,
    task: TaskShape,
    count: int,
    rngs: Sequence[np.random.Generator],
    device: torch.device = CPU,
    dtype: torch.dtype = torch.float32,
) -> Tasks:
    """Draw `count` tasks for each generator; replica s gets those of generator s.

    Floating-point arrays are converted to `dtype`. Images stay bytes, which take a quarter of the memory of float32.
    """
    return _to_tensors(bank.draw_tasks(count, task, rngs), device, dtype)


def epoch_batches(
    bank: Bank,
    size: int,
    count: int,
    addresses: Sequence[tuple[int, int]],
    rngs: Sequence[np.random.Generator],
    device: torch.device = CPU,
    dtype: torch.dtype = torch.float32,
) -> Tasks:
    """The `count` batches of `size` samples that each (seed, step) visits in shuffled epochs over the whole bank.

    Each batch takes the form of a task that contains all classes and has no queries. The generators are used for label
    noise. DataError if the bank has no end, see `require_finite`.
    """
    finite = require_finite(bank)
    indices = [epoch_indices(finite.size, seed, step * count * size, count * size) for seed, step in addresses]
    return _to_tensors(finite.take(np.stack(indices).reshape(-1, count, size), rngs), device, dtype)


def epoch_indices(total: int, seed: int, first: int, count: int) -> Int[np.ndarray, "b"]:
    """`count` sample indices from position `first` of a sequence of epochs, each its own permutation of `total`."""
    first_epoch, last_epoch = first // total, (first + count - 1) // total
    order = np.concatenate([_shuffled_epoch(total, seed, epoch) for epoch in range(first_epoch, last_epoch + 1)])
    return order[first - first_epoch * total :][:count]


@lru_cache(maxsize=16)
def _shuffled_epoch(total: int, seed: int, epoch: int) -> Int[np.ndarray, "total"]:
    return generator_at(seed, "epochs", epoch).permutation(total)


def _to_tensors(samples: Samples, device: torch.device, dtype: torch.dtype) -> Tasks:
    return Tasks(*(_to_tensor(array, device, dtype) for array in samples))


def _to_tensor(array: np.ndarray, device: torch.device, dtype: torch.dtype) -> Tensor:
    tensor = torch.from_numpy(array).to(device)
    return tensor.to(dtype) if tensor.is_floating_point() else tensor
