"""Apply label noise to a bank, to its tasks, or to the draws of mini-batches."""

import logging
from collections.abc import Sequence
from typing import NamedTuple, final

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from eigen_reptile.data import Bank, Banks, FiniteBank, ImageBank, Samples, TaskShape
from eigen_reptile.errors import DataError
from eigen_reptile.noise.config import NoiseConfig
from eigen_reptile.noise.label_files import read_given_labels
from eigen_reptile.noise.support import MixedNoiseBank
from eigen_reptile.noise.transitions import (
    class_transition_matrix,
    flip_labels,
    mix_with_identity,
    normalize_rows,
    task_transition_matrix,
    transition_matrix_from_file,
)
from eigen_reptile.runtime.rng import generator_at
from eigen_reptile.tasks import Batches, Tasks

log = logging.getLogger(__name__)


@final
class LabelFlipper:
    """Flips the labels of tasks, among the classes of each task.

    `names` are the classes of the bank that the tasks come from, `known_classes` those of all splits.
    """

    def __init__(self, noise: NoiseConfig, names: Sequence[str], known_classes: set[str]) -> None:
        self._noise = noise
        self._matrix = transition_matrix_from_file(noise, names, known_classes) if noise.kind == "matrix" else None

    def noisy_labels(
        self, y: Int[np.ndarray, "B m"], classes: Int[np.ndarray, "B way"], uniform: Float[np.ndarray, "B m"]
    ) -> Int[np.ndarray, "B m"]:
        """Noisy labels in place of the labels y of some tasks, using uniform random numbers in [0, 1)."""
        return flip_labels(y, self._task_matrices(classes), uniform)

    def _task_matrices(self, classes: Int[np.ndarray, "B way"]) -> Float[np.ndarray, "B way way"]:
        """The transition matrix between the classes of each task."""
        if self._matrix is None:
            matrix = task_transition_matrix(self._noise, classes.shape[-1])
            return np.broadcast_to(matrix, (*classes.shape[:-1], *matrix.shape))
        unrotated = classes % len(self._matrix)  # the matrix of a rotated class is that of the unrotated one
        true, given = unrotated[..., :, None], unrotated[..., None, :]
        # If a task contains a class in two rotations, a label is never flipped from one rotation to the other.
        same_class = (true == given) & ~np.eye(classes.shape[-1], dtype=bool)
        inside = np.where(same_class, 0.0, self._matrix[true, given])
        return mix_with_identity(self._noise, normalize_rows(inside))


@final
class NoisyTaskBank(FiniteBank):
    """A bank whose tasks have noisy support labels and, with `queries`, also noisy query labels."""

    def __init__(self, bank: ImageBank, flipper: LabelFlipper, queries: bool) -> None:
        self._bank = bank
        self._flipper = flipper
        self._queries = queries

    @property
    def shape(self) -> tuple[int, ...]:
        return self._bank.shape

    @property
    def n_classes(self) -> int:
        return self._bank.n_classes

    def feasible_shape(self, task: TaskShape) -> TaskShape:
        return self._bank.feasible_shape(task)

    def draw_tasks(self, count: int, task: TaskShape, rngs: Sequence[np.random.Generator]) -> Samples:
        return self._add_noise(self._bank.draw_tasks(count, task, rngs), rngs)

    @property
    def size(self) -> int:
        return self._bank.size

    def take(self, indices: Int[np.ndarray, "S B b"], rngs: Sequence[np.random.Generator]) -> Samples:
        return self._add_noise(self._bank.take(indices, rngs), rngs)

    def _add_noise(self, samples: Samples, rngs: Sequence[np.random.Generator]) -> Samples:
        y = self._flip(samples.y, samples, rngs)
        is_clean = samples.is_clean & (y == samples.y)
        if self._queries and samples.query_y.shape[2]:
            samples = samples._replace(query_y=self._flip(samples.query_y, samples, rngs))
        return samples._replace(y=y, is_clean=is_clean)

    def _flip(self, y: np.ndarray, samples: Samples, rngs: Sequence[np.random.Generator]) -> np.ndarray:
        replicas = zip(y, samples.classes, rngs, strict=True)
        return np.stack(
            [self._flipper.noisy_labels(own, classes, rng.random(own.shape)) for own, classes, rng in replicas]
        )


def class_names(banks: Banks) -> set[str]:
    """The names of the classes of all splits; empty for a data set without classes."""
    return {name for bank in banks if isinstance(bank, ImageBank) for name in bank.names}


class NoisySource(NamedTuple):
    """Where training data with label noise comes from."""

    banks: Banks
    """Banks to draw tasks from; their labels are noisy if the noise acts on banks or tasks."""
    flipper: LabelFlipper | None = None
    """Applies the noise to each mini-batch, if it acts on draws; see `flip_draws`."""


def add_noise(banks: Banks, noise: NoiseConfig, evaluation: bool) -> NoisySource:
    """Add label noise to the training data; with `evaluation`, also to the support of validation and test tasks."""
    if noise.kind == "none":
        return NoisySource(banks)
    images = [bank for bank in banks if isinstance(bank, ImageBank)]
    if len(images) < len(banks):
        raise DataError("label noise needs a data set with class labels: set `noise.kind` to none")
    if evaluation and noise.where != "task":
        raise DataError(f"noise in evaluation (`evaluation.noisy`) needs `noise.where` to be task, not {noise.where}")
    known_classes = class_names(banks)
    if noise.where == "bank":
        return NoisySource(banks._replace(train=noisy_bank(images[0], noise, known_classes)))
    if noise.where == "draw":
        return NoisySource(banks, LabelFlipper(noise, images[0].names, known_classes))
    noisy = [
        noisy_task_bank(bank, noise, known_classes, queries=split == 0)  # only in training
        for split, bank in enumerate(images[: 3 if evaluation else 1])
    ]
    return NoisySource(Banks(*noisy, *banks[len(noisy) :]))


def noisy_task_bank(bank: ImageBank, noise: NoiseConfig, known_classes: set[str], queries: bool = False) -> Bank:
    """A bank whose tasks have noisy support labels and, with `queries`, unless the noise is mixed, query labels too."""
    if noise.kind == "mixed":
        return MixedNoiseBank(bank)
    return NoisyTaskBank(bank, LabelFlipper(noise, bank.names, known_classes), queries)


def noisy_bank(bank: ImageBank, noise: NoiseConfig, known_classes: set[str]) -> ImageBank:
    """The bank with each image stored under its given label, which is drawn once and for all."""
    return bank.with_labels(given_labels(bank, noise, known_classes))


def given_labels(bank: ImageBank, noise: NoiseConfig, known_classes: set[str]) -> Int[np.ndarray, "N"]:
    """The given label of each image of a bank, as a class index; -1 for a class that is not in the bank."""
    true, rng = bank.labels, generator_at(noise.seed, "noise")
    if noise.kind == "labels":
        given = read_given_labels(noise, bank, known_classes)
        if lost := int((given < 0).sum()):
            log.warning(
                "the given labels of %d of %d images are classes of other splits: these images are discarded wherever "
                "the given label is used",
                lost, len(given),
            )  # fmt: skip
        return np.where(rng.random(len(true)) < noise.apply_probability, given, true)
    matrix = class_transition_matrix(noise, bank.names, known_classes)
    return flip_labels(true, matrix, rng.random(true.shape))


def flip_draws(
    tasks: Tasks, batches: Batches, flipper: LabelFlipper, rngs: Sequence[np.random.Generator], flip_tasks: bool
) -> tuple[Tasks, Batches]:
    """Flip each label anew whenever it is drawn into a mini-batch; with `flip_tasks`, for methods that learn from
    queries, also the labels of support and queries once per task.

    The noise of a task's first draws does not depend on how many draws follow, so that methods that draw different
    numbers of mini-batches can be compared.
    """

    def flip(y: Tensor) -> Tensor:
        replicas = zip(y.flatten(2).cpu().numpy(), tasks.classes.cpu().numpy(), rngs, strict=True)
        found = [flipper.noisy_labels(own, classes, rng.random(own.shape[::-1]).T) for own, classes, rng in replicas]
        return torch.from_numpy(np.stack(found)).to(y.device).view_as(y)

    y = flip(batches.y)
    batches = batches._replace(y=y, is_clean=batches.is_clean & (y == batches.y))
    if not flip_tasks:
        return tasks, batches
    y = flip(tasks.y)
    return tasks._replace(y=y, is_clean=tasks.is_clean & (y == tasks.y), query_y=flip(tasks.query_y)), batches
