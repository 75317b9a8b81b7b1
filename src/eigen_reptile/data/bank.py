"""The interfaces of data: a `Dataset` holds settings, and loading it gives three `Bank`s of tasks."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Bool, Int, Shaped

from eigen_reptile.errors import DataError
from eigen_reptile.runtime.progress import StartProgress

Split = Literal["train", "validation", "test"]


class TaskShape(NamedTuple):
    """The size of a task. A regression task has no classes and counts as one class."""

    way: int
    """Classes (N)."""
    shots: int
    """Support samples of each class (K)."""
    queries: int
    """Query samples of each class."""


class Samples(NamedTuple):
    """B tasks for each of S replicas, with m support samples and q query samples each."""

    x: Shaped[np.ndarray, "S B m *shape"]
    y: Shaped[np.ndarray, "S B m *target"]
    query_x: Shaped[np.ndarray, "S B q *shape"]
    query_y: Shaped[np.ndarray, "S B q *target"]
    is_clean: Bool[np.ndarray, "S B m"]
    """Whether the given label y of a support sample is its true label. Only for scoring: no method may learn from
    it."""
    classes: Int[np.ndarray, "S B way"]
    """For each label of the task, the index of that class in the bank."""


class Bank(ABC):
    """A distribution over tasks."""

    @abstractmethod
    def draw_tasks(self, count: int, task: TaskShape, rngs: Sequence[np.random.Generator]) -> Samples:
        """Draw `count` tasks for each replica; replica s uses generator s and no other source of randomness."""

    @abstractmethod
    def feasible_shape(self, task: TaskShape) -> TaskShape:
        """The task as this bank can supply it, possibly with fewer queries; DataError if it cannot supply it."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """Shape of one input, as the network receives it."""

    @property
    @abstractmethod
    def n_classes(self) -> int:
        """Number of class indices: every entry of `Samples.classes` is below it. It counts rotated classes, and also
        classes without samples; regression has one class."""


class FiniteBank(Bank):
    """A bank with a finite number of samples, which can also be visited in epochs instead of drawn in tasks."""

    @property
    @abstractmethod
    def size(self) -> int:
        """Total number of samples."""

    @abstractmethod
    def take(self, indices: Int[np.ndarray, "S B b"], rngs: Sequence[np.random.Generator]) -> Samples:
        """The samples at these indices (each below `size`) as support of tasks that contain all classes and no
        queries. Replica s uses generator s if anything about its samples is random, such as label noise."""


def require_finite(bank: Bank) -> FiniteBank:
    """The same bank, if it can be visited in epochs; otherwise a DataError."""
    if not isinstance(bank, FiniteBank):
        raise DataError("this data set generates samples without end, so it has no epochs: set `task.epochs` to False")
    return bank


class Banks(NamedTuple):
    """A loaded data set. No class occurs in two splits."""

    train: Bank
    validation: Bank
    test: Bank


@dataclass(frozen=True)
class Dataset(ABC):
    """A data set before it is loaded: its fields define its contents and where it is stored."""

    @abstractmethod
    def load(self, start_progress: StartProgress) -> Banks:
        """Load the three splits; DataError if the data is missing, incomplete or not the expected data set."""

    @property
    @abstractmethod
    def is_classification(self) -> bool:
        """Whether targets are classes, scored by accuracy; otherwise they are numbers, scored by squared error."""

    @property
    @abstractmethod
    def has_characters(self) -> bool:
        """Whether its images show characters, which networks learn to classify in far fewer steps than photographs of
        objects; presets depend on it."""
