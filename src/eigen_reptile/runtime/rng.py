"""Addressed randomness: every draw comes from a generator identified by (seed, purpose, step).

No generator state is carried from one iteration to the next. So a resumed run draws what the uninterrupted run would
have drawn, evaluation cannot disturb training, and every method gets the same tasks and mini-batches.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Literal, final, get_args

import numpy as np
from numpy.random.bit_generator import ISeedSequence

Purpose = Literal["init", "tasks", "batches", "validation", "test", "snapshot", "noise", "epochs", "support"]
"""The position in this list is part of the address, so append new purposes at the end."""
_NUMBER: dict[str, int] = {purpose: number for number, purpose in enumerate(get_args(Purpose))}


def generator_at(seed: int, purpose: Purpose, step: int = 0) -> np.random.Generator:
    """The generator at this address: Philox keyed by (seed, purpose), with its counter starting at the step."""
    return _reset_generator(_new_generator(), seed, purpose, step)


@final
class GeneratorPool:
    """Generators for many addresses, reused from call to call.

    Constructing a generator takes longer than drawing a small task from it. The next call for the same purpose resets
    and reuses the generators that the last one returned.
    """

    def __init__(self) -> None:
        self._generators: dict[Purpose, list[np.random.Generator]] = {}

    def at(self, seeds: Sequence[int], purpose: Purpose, steps: Iterable[int]) -> list[np.random.Generator]:
        """One generator for each seed at each step, ordered by step."""
        addresses = [(seed, step) for step in steps for seed in seeds]
        pool = self._generators.setdefault(purpose, [])
        pool += [_new_generator() for _ in range(len(addresses) - len(pool))]
        return [_reset_generator(one, seed, purpose, step) for one, (seed, step) in zip(pool, addresses, strict=False)]


@final
class _NoEntropy(ISeedSequence):
    """Keeps a generator from collecting entropy from the system, which is slow; its key is set afterwards."""

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> np.ndarray:
        return np.zeros(n_words, dtype)


_NO_ENTROPY = _NoEntropy()


def _new_generator() -> np.random.Generator:
    return np.random.Generator(np.random.Philox(_NO_ENTROPY))  # type: ignore[arg-type]


def _reset_generator(generator: np.random.Generator, seed: int, purpose: Purpose, step: int) -> np.random.Generator:
    """The same generator, reset to an address."""
    address = {"counter": (0, 0, 0, step), "key": (seed, _NUMBER[purpose])}
    empty = {"buffer": (0, 0, 0, 0), "buffer_pos": 4, "has_uint32": 0, "uinteger": 0}
    state: Any = {"bit_generator": "Philox", "state": address, **empty}
    generator.bit_generator.state = state
    return generator
