"""Where tasks come from."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Shaped


class Samples(NamedTuple):
    """B tasks for each of S lanes: m samples to learn from, and q to be asked about afterwards."""

    x: Shaped[np.ndarray, "S B m *shape"]
    y: Shaped[np.ndarray, "S B m *target"]
    query_x: Shaped[np.ndarray, "S B q *shape"]
    query_y: Shaped[np.ndarray, "S B q *target"]


class Bank(ABC):
    """A distribution over tasks."""

    @abstractmethod
    def draw(self, count: int, shots: int, rngs: Sequence[np.random.Generator]) -> Samples:
        """`count` tasks with `shots` support samples each; lane s draws from generator s."""

    @property
    @abstractmethod
    def features(self) -> int:
        """Numbers in one input."""

    @property
    @abstractmethod
    def targets(self) -> int:
        """Numbers in one answer."""
