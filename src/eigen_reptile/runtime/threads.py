"""Parallel work in threads with one core each, which for small networks is faster than all cores on one piece."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import starmap
from typing import Any, TypeVar

import torch

T = TypeVar("T")

PIECES_PER_CORE = 3
"""More than one, so that no core is idle while the last of a few pieces is computed."""
LARGE = 2**26
"""Pieces of more bytes are computed one at a time, with all cores, to limit the memory in use."""


def map_in_threads(
    work: Callable[..., T], pieces: Iterable[tuple[Any, ...]], size: int, device: torch.device
) -> Iterator[T]:
    """The results of `work(*piece)`, in the order of the pieces; each uses `size` bytes on the device while it runs.

    Unless the pieces are large, the results are the same bits on any number of cores: a single thread computes each.
    """
    cores = torch.get_num_threads()
    if cores == 1 or size > LARGE or device.type != "cpu":
        return starmap(work, pieces)
    recording = torch.is_grad_enabled()  # every thread has its own setting

    def run_piece(piece: tuple[Any, ...]) -> T:
        with torch.set_grad_enabled(recording):
            return work(*piece)

    return thread_pool(cores).map(run_piece, pieces)


@cache
def thread_pool(cores: int) -> ThreadPoolExecutor:
    """The threads for this many cores; each runs torch on a single core."""
    return ThreadPoolExecutor(PIECES_PER_CORE * cores, initializer=torch.set_num_threads, initargs=(1,))
