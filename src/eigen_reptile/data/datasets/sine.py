"""Sine-wave regression (Finn et al. 2017; section 5.1 of the paper): each task is a curve y(x) = A sin(x + b)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from eigen_reptile.data.bank import Bank, Banks, Dataset, Samples, TaskShape
from eigen_reptile.errors import ConfigError, DataError
from eigen_reptile.runtime.memory import check_memory
from eigen_reptile.runtime.progress import StartProgress


@final
@dataclass(frozen=True)
class Sine(Dataset):
    """Sine waves of random amplitude and phase (Finn et al. 2017, https://arxiv.org/abs/1703.03400).

    Each task is the regression of one curve that is known at equally spaced points. Use it for quick experiments: it
    needs no files, and a small network learns it in seconds.
    """

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
            raise ConfigError(f"`data.points` must be at least 1, not {self.points}")
        if not -math.inf < self.low < self.high < math.inf:
            raise ConfigError(
                f"`data.low` must be below `data.high`, and both must be finite, not {self.low} and {self.high}"
            )
        if not 0 <= self.min_amplitude <= self.max_amplitude < math.inf:
            raise ConfigError(
                "amplitudes must satisfy 0 <= `data.min_amplitude` <= `data.max_amplitude` and be finite, not "
                f"{self.min_amplitude} and {self.max_amplitude}"
            )

    @property
    def is_classification(self) -> bool:
        return False

    @property
    def has_characters(self) -> bool:
        return False

    def load(self, start_progress: StartProgress) -> Banks:
        """Every split has the same distribution, because the same curve is practically never drawn twice."""
        check_memory(16 * self.points, f"{self.points} points", "use fewer `data.points`")
        return Banks(*[SineBank(self)] * 3)


@final
class SineBank(Bank):
    """Regression tasks on sine curves."""

    def __init__(self, config: Sine) -> None:
        self._config = config
        self._grid = np.linspace(config.low, config.high, config.points, dtype=np.float32)

    @property
    def shape(self) -> tuple[int, ...]:
        return (1,)

    @property
    def n_classes(self) -> int:
        return 1

    def feasible_shape(self, task: TaskShape) -> TaskShape:
        if task.way != 1:
            raise DataError(f"regression has no classes: `task.way` must be 1, not {task.way}")
        return task._replace(queries=self._config.points)

    def draw_tasks(self, count: int, task: TaskShape, rngs: Sequence[np.random.Generator]) -> Samples:
        """Draw tasks whose queries are the whole grid.

        The support is the whole grid too if it has as many points as shots are requested, as in training in the
        original script; otherwise it is drawn from the grid with replacement, as in evaluation in that script.
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
        is_clean, classes = np.ones(x.shape, dtype=bool), np.zeros((*x.shape[:2], 1), dtype=np.int64)
        return Samples(x[..., None], y[..., None], query_x[..., None], curve[..., None], is_clean, classes)
