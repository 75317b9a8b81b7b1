"""Randomness by address: every draw comes from a generator named by (seed, purpose, step).

Nothing carries a generator's state from one iteration to the next, so a resumed run draws what it would have
drawn, evaluation cannot disturb training, and every method sees the same tasks and batches.
"""

from typing import Literal, get_args

import numpy as np

Purpose = Literal["init", "tasks", "batches", "validation", "test", "picture", "noise"]
_NUMBER: dict[str, int] = {purpose: number for number, purpose in enumerate(get_args(Purpose))}


def stream(seed: int, purpose: Purpose, step: int = 0) -> np.random.Generator:
    """The generator at this address: Philox keyed by (seed, purpose), its counter started at the step."""
    key = np.array([seed, _NUMBER[purpose]], dtype=np.uint64)
    counter = np.array([0, 0, 0, step], dtype=np.uint64)
    return np.random.Generator(np.random.Philox(key=key, counter=counter))
