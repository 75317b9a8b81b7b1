"""Measure the noise that a configuration produces: the empirical class-transition counts."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Int

from eigen_reptile.data import Bank, ImageBank, TaskShape
from eigen_reptile.errors import DataError
from eigen_reptile.noise.banks import given_labels, noisy_task_bank
from eigen_reptile.noise.config import NoiseConfig
from eigen_reptile.runtime.rng import generator_at


class MeasuredNoise(NamedTuple):
    """How often each true label became each given label."""

    names: list[str]
    """Names of the classes; positions in the task, if the noise acts inside tasks by a rule that ignores names."""
    counts: Int[np.ndarray, "C C"]
    """Number of labels by true class (row) and given class (column)."""

    @property
    def rate(self) -> float:
        """The fraction of wrong labels."""
        return 1 - float(np.trace(self.counts) / self.counts.sum())


def measure_noise(
    bank: Bank, noise: NoiseConfig, known_classes: set[str], task: TaskShape, labels: int
) -> MeasuredNoise:
    """Apply the noise to the labels of an image bank; if it acts inside tasks, to at least `labels` labels of tasks."""
    if not isinstance(bank, ImageBank):
        raise DataError("label noise needs a data set with class labels")
    if noise.where == "bank":
        true, given = bank.labels, given_labels(bank, noise, known_classes)
        return _count_transitions(list(bank.names), true[given >= 0], given[given >= 0])
    noisy = noisy_task_bank(bank, noise, known_classes)
    pairs: list[tuple[np.ndarray, np.ndarray]] = []
    for number in range(-(-labels // (task.way * task.shots))):
        rng = generator_at(noise.seed, "noise", number)
        samples = noisy.draw_tasks(1, task, [rng])
        indices = samples.classes[0, 0] % len(bank.names) if noise.kind == "matrix" else np.arange(task.way)
        pairs.append((np.repeat(indices, task.shots), indices[samples.y[0, 0]]))
    positions = [f"class {position + 1} of a task" for position in range(task.way)]
    true, given = (np.concatenate(part) for part in zip(*pairs, strict=True))
    return _count_transitions(list(bank.names) if noise.kind == "matrix" else positions, true, given)


def _count_transitions(names: list[str], true: np.ndarray, given: np.ndarray) -> MeasuredNoise:
    counts = np.zeros((len(names), len(names)), dtype=np.int64)
    np.add.at(counts, (true, given), 1)
    return MeasuredNoise(names, counts)
