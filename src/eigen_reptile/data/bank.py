"""Where tasks come from: a data set is settings that can be loaded; loaded, it is three banks of tasks."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Bool, Int, Shaped

from eigen_reptile.progress import Announce

Split = Literal["train", "validation", "test"]


class DataError(Exception):
    """A data set cannot be had or used as asked; the message says what is missing and what to do."""


class TaskShape(NamedTuple):
    """What a task is made of. A regression task has no classes: it counts as one."""

    way: int
    """Classes (N)."""
    shots: int
    """Support samples of each class (K)."""
    queries: int
    """Query samples of each class."""


class Samples(NamedTuple):
    """B tasks for each of S lanes: m samples to learn from, and q to be asked about afterwards."""

    x: Shaped[np.ndarray, "S B m *shape"]
    y: Shaped[np.ndarray, "S B m *target"]
    query_x: Shaped[np.ndarray, "S B q *shape"]
    query_y: Shaped[np.ndarray, "S B q *target"]
    right: Bool[np.ndarray, "S B m"]
    """Whether what y says of a sample is true. Only for scoring: no method may learn from it."""
    classes: Int[np.ndarray, "S B way"]
    """Which of the bank's classes the task's are."""


class Bank(ABC):
    """A distribution over tasks."""

    @abstractmethod
    def draw(self, count: int, task: TaskShape, rngs: Sequence[np.random.Generator]) -> Samples:
        """`count` tasks for each lane; lane s draws from generator s, and from nothing else."""

    @abstractmethod
    def fitted(self, task: TaskShape) -> TaskShape:
        """The task as this bank can supply it, perhaps with fewer queries; DataError if it cannot at all."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """Shape of one input, as the network gets it."""

    @property
    def class_numbers(self) -> int:
        """The numbers by which tasks name their classes are below this."""
        return 1

    @property
    def size(self) -> int:
        """Samples in all, if there is an end to them."""
        raise DataError("this data set has no end that could be reached: leave out --task.epochs")

    def take(self, numbers: Int[np.ndarray, "S B b"], rngs: Sequence[np.random.Generator]) -> Samples:
        """The samples of these numbers as the support of tasks of all classes; lane s may draw from generator s."""
        raise DataError("this data set has no numbered samples: leave out --task.epochs")


class Banks(NamedTuple):
    """A loaded data set. No class of one split occurs in another."""

    train: Bank
    validation: Bank
    test: Bank


@dataclass(frozen=True)
class Dataset(ABC):
    """A data set that is not loaded yet: its fields say which, and where it lies."""

    @abstractmethod
    def load(self, announce: Announce) -> Banks:
        """The data set's tasks; DataError if it is not there, not whole, or not what it should be."""

    @property
    @abstractmethod
    def classifies(self) -> bool:
        """Whether answers are classes, told by accuracy; otherwise they are numbers, told by squared error."""

    @property
    def characters(self) -> bool:
        """Whether its pictures are of characters, which networks learn to tell apart many times sooner than things."""
        return False
