"""Randomness by address: every draw comes from a generator named by (seed, purpose, step).

Nothing carries a generator's state from one iteration to the next, so a resumed run draws what it would have
drawn, evaluation cannot disturb training, and every method sees the same tasks and batches.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Literal, get_args

import numpy as np
from numpy.random.bit_generator import ISeedSequence

Purpose = Literal["init", "tasks", "batches", "validation", "test", "picture", "noise", "passes"]
_NUMBER: dict[str, int] = {purpose: number for number, purpose in enumerate(get_args(Purpose))}


class _NoEntropy(ISeedSequence):
    """Spares a generator that is told its key afterwards from asking the system for one, which takes longer."""

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> np.ndarray:
        return np.zeros(n_words, dtype)


_NO_ENTROPY = _NoEntropy()


def stream(seed: int, purpose: Purpose, step: int = 0) -> np.random.Generator:
    """The generator at this address: Philox keyed by (seed, purpose), its counter started at the step."""
    return _moved(_new_generator(), seed, purpose, step)


def lent_streams(seeds: Sequence[int], purpose: Purpose, steps: Iterable[int]) -> list[np.random.Generator]:
    """Those of all seeds at one step after the other. They are moved elsewhere by the next call for the same purpose.

    To make a generator takes longer than what is drawn from it where tasks are small.
    """
    addresses = [(seed, step) for step in steps for seed in seeds]
    lent = _lent[purpose]
    lent += [_new_generator() for _ in range(len(addresses) - len(lent))]
    return [_moved(generator, seed, purpose, step) for generator, (seed, step) in zip(lent, addresses, strict=False)]


_lent: dict[Purpose, list[np.random.Generator]] = {purpose: [] for purpose in get_args(Purpose)}


def _new_generator() -> np.random.Generator:
    return np.random.Generator(np.random.Philox(_NO_ENTROPY))  # type: ignore[arg-type]


def _moved(generator: np.random.Generator, seed: int, purpose: Purpose, step: int) -> np.random.Generator:
    """The generator itself, at an address."""
    address = {"counter": (0, 0, 0, step), "key": (seed, _NUMBER[purpose])}
    nothing_left = {"buffer": (0, 0, 0, 0), "buffer_pos": 4, "has_uint32": 0, "uinteger": 0}
    state: Any = {"bit_generator": "Philox", "state": address, **nothing_left}
    generator.bit_generator.state = state
    return generator
