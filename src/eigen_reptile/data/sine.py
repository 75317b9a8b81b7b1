"""The sine wave (paper, section 5.1): each task is a curve y(x) = A sin(x + b) on [-5, 5]."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from eigen_reptile.data.bank import Bank, Banks, DataError, Dataset, Samples, TaskShape
from eigen_reptile.progress import Announce


@final
@dataclass(frozen=True)
class Sine(Dataset):
    """Sine curves of random amplitude and phase, known at equally spaced points."""

    points: int = 50
    """Points of the grid over the whole interval; the error is measured on all of them."""
    low: float = -5.0
    """Left end of the interval."""
    high: float = 5.0
    """Right end of the interval."""
    min_amplitude: float = 0.1
    """Smallest amplitude A."""
    max_amplitude: float = 5.0
    """Largest amplitude A."""

    def __post_init__(self) -> None:
        if self.points < 1:
            raise ValueError(f"points must be at least 1, not {self.points}")
        if not -math.inf < self.low < self.high < math.inf:
            raise ValueError(f"low must be below high, and both finite, not {self.low} and {self.high}")
        if not 0 <= self.min_amplitude <= self.max_amplitude < math.inf:
            raise ValueError(
                f"amplitudes must satisfy 0 <= min <= max, not {self.min_amplitude} and {self.max_amplitude}"
            )

    @property
    def classifies(self) -> bool:
        return False

    def load(self, announce: Announce) -> Banks:
        """The same distribution for every split: a curve drawn twice is next to impossible."""
        return Banks(*[SineBank(self)] * 3)


@final
class SineBank(Bank):
    """Tasks on sine curves."""

    def __init__(self, config: Sine) -> None:
        self._config = config
        self._grid = np.linspace(config.low, config.high, config.points, dtype=np.float32)

    @property
    def shape(self) -> tuple[int, ...]:
        return (1,)

    def fitted(self, task: TaskShape) -> TaskShape:
        if task.way != 1:
            raise DataError(f"a curve has no classes: --task.way must be 1, not {task.way}")
        return task._replace(queries=self._config.points)

    def draw(self, count: int, task: TaskShape, rngs: Sequence[np.random.Generator]) -> Samples:
        """Tasks whose queries are the whole grid.

        The support is the whole grid too if that many shots are asked for, as in the original script's
        training; otherwise it is drawn from the grid with replacement, as in that script's evaluation.
        """
        config, grid = self._config, self._grid
        uniform = np.stack([rng.random((count, 2)) for rng in rngs])
        amplitude = config.min_amplitude + (config.max_amplitude - config.min_amplitude) * uniform[..., :1]
        phase = 2 * np.pi * uniform[..., 1:]
        curve = (amplitude * np.sin(grid + phase)).astype(np.float32)
        query_x = np.tile(grid, (*curve.shape[:2], 1))
        x, y = query_x, curve
        if task.shots != config.points:
            chosen = np.stack([rng.integers(config.points, size=(count, task.shots)) for rng in rngs])
            x, y = grid[chosen], np.take_along_axis(curve, chosen, axis=2)
        right, classes = np.ones(x.shape, dtype=bool), np.zeros((*x.shape[:2], 1), dtype=np.int64)
        return Samples(x[..., None], y[..., None], query_x[..., None], curve[..., None], right, classes)
