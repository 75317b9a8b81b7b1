"""Pieces of work side by side, a thread each: on small networks that beats all threads on one piece."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import starmap
from typing import Any, TypeVar

import torch

T = TypeVar("T")

PIECES_PER_CORE = 3
"""More than one, so that no core idles while the last of a few pieces is done."""
LARGE = 2**26
"""Bytes from which on a piece is done by itself, with all threads, so that memory holds one at a time."""


def side_by_side(
    work: Callable[..., T], pieces: Iterable[tuple[Any, ...]], size: int, device: torch.device
) -> Iterator[T]:
    """`work(*piece)` of each piece, in their order; each holds so many bytes on this device while it is done.

    Pieces that are not large give the same bits however many threads there are, because each is done by one.
    """
    cores = torch.get_num_threads()
    if cores == 1 or size > LARGE or device.type != "cpu":
        return starmap(work, pieces)
    recording = torch.is_grad_enabled()  # which each thread has for itself

    def piece_of_work(piece: tuple[Any, ...]) -> T:
        with torch.set_grad_enabled(recording):
            return work(*piece)

    return _pool(cores).map(piece_of_work, pieces)


@cache
def _pool(cores: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(PIECES_PER_CORE * cores, initializer=torch.set_num_threads, initargs=(1,))
