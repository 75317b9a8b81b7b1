"""Wrong labels in the support of a task: the noise of somebody who adapts once, to a handful of samples.

Each class of a task has the same number of wrong labels, and each label is given wrongly that often, so that classes
keep their sizes (Liang et al. 2022, https://arxiv.org/abs/2204.05494). Labels of queries stay right.
"""

from collections.abc import Sequence
from typing import Literal, final

import numpy as np
import torch
from jaxtyping import Int

from eigen_reptile.data import Bank, ImageBank, Samples, TaskShape
from eigen_reptile.data.sampling import sample_tasks
from eigen_reptile.errors import ConfigError, DataError
from eigen_reptile.tasks import Tasks

SupportNoise = Literal["none", "symmetric", "paired", "outlier"]
LARGEST_RATE = 0.6
MIXED_RATES = (0.0, 0.2, 0.4)
"""Rates among which each training task draws its own, with noise of the kind mixed."""


def wrong_count(rate: float, shots: int) -> int:
    """Wrong labels of each class."""
    return round(rate * shots)


def check_support_noise(kind: SupportNoise, rate: float, way: int, shots: int, name: str) -> None:
    """ConfigError if this many shots cannot have this noise: no label would be wrong, or another class would have as
    many samples of a label as the true one. `name` is the field of the rate."""
    wrong = wrong_count(rate, shots)
    if rate > 0 and wrong == 0:
        raise ConfigError(
            f"`{name}` {rate:g} is less than one wrong label per class with {shots} per class: use more shots"
        )
    from_one_class = {"symmetric": -(-wrong // (way - 1)), "paired": wrong}.get(kind, 0)
    if shots - wrong <= from_one_class:
        raise ConfigError(
            f"`{name}` {rate:g} leaves {shots - wrong} of {shots} shots right, and {from_one_class} can be of one "
            "other class: use a smaller rate or more shots"
        )


def support_labels(
    kind: SupportNoise, rate: float, way: int, shots: int, rng: np.random.Generator
) -> Int[np.ndarray, "way shots"]:
    """The given labels of the samples of each class; -1 for a sample that an outlier replaces.

    Symmetric: the wrong labels of a class are spread evenly over the others. Paired: they are all of one other class,
    and no two classes have the same. In both, the true class has the most samples of each label.
    """
    labels = np.repeat(np.arange(way)[:, None], shots, axis=1)
    wrong = wrong_count(rate, shots)
    if kind == "none" or wrong == 0:
        return labels
    match kind:
        case "symmetric":
            given = _spread_labels(way, wrong, rng)
        case "paired":
            given = np.repeat(_derangement(way, rng)[:, None], wrong, axis=1)
        case "outlier":
            given = np.full((way, wrong), -1)
    for own, new in zip(labels, given, strict=True):
        own[rng.choice(shots, wrong, replace=False)] = new
    return labels


def _spread_labels(way: int, wrong: int, rng: np.random.Generator) -> Int[np.ndarray, "way wrong"]:
    """Wrong labels for each class, each label equally often, and for a single class as evenly as possible.

    The classes form a random circle, and the wrong labels are those at random distances along it, the same distances
    for all classes, none of them used again before all are.
    """
    circle = rng.permutation(way)
    distances = np.concatenate([1 + rng.permutation(way - 1) for _ in range(-(-wrong // (way - 1)))])[:wrong]
    place = np.argsort(circle)
    given: np.ndarray = circle[(place[:, None] + distances) % way]
    return given


def _derangement(way: int, rng: np.random.Generator) -> Int[np.ndarray, "way"]:
    """A random permutation without fixed points, all equally likely."""
    while True:
        found = rng.permutation(way)
        if (found != np.arange(way)).all():
            return found


def with_support_noise(
    tasks: Tasks, bank: Bank, task: TaskShape, kind: SupportNoise, rate: float, rngs: Sequence[np.random.Generator]
) -> Tasks:
    """The tasks with wrong labels or outliers in their support, drawn by one generator for each row of tasks."""
    if kind == "none":
        return tasks
    count = tasks.x.shape[1]
    given = np.stack(
        [[support_labels(kind, rate, task.way, task.shots, rng) for _ in range(count)] for rng in rngs]
    ).reshape(len(rngs), count, -1)
    y = torch.from_numpy(given).to(tasks.y)
    if kind == "outlier":
        return _with_outliers(tasks, y < 0, bank, task, rngs)
    return tasks._replace(y=y, is_clean=tasks.is_clean & (y == tasks.y))


def _with_outliers(
    tasks: Tasks, replaced: torch.Tensor, bank: Bank, task: TaskShape, rngs: Sequence[np.random.Generator]
) -> Tasks:
    """The tasks with some samples replaced by samples of classes outside the task, under the same labels."""
    outside = outside_task(bank, task, int(replaced[0, 0].sum()))
    x, count = tasks.x.clone(), tasks.x.shape[1]
    others = sample_tasks(bank, outside, count, rngs, x.device, x.dtype)
    for row, column in np.ndindex(len(rngs), count):
        mask = replaced[row, column]
        is_outside = ~torch.isin(others.classes[row, column], tasks.classes[row, column])
        # One sample of each class, then another one of each; classes and samples are in random order.
        samples = others.x[row, column].unflatten(0, outside[:2])[is_outside].transpose(0, 1).flatten(0, 1)
        x[row, column, mask] = samples[: int(mask.sum())]
    return tasks._replace(x=x, is_clean=tasks.is_clean & ~replaced)


def outside_task(bank: Bank, task: TaskShape, wrong: int) -> TaskShape:
    """A task so large that it has enough samples of classes that are in no given task; DataError if there are none."""
    classes = bank.n_nonempty_classes if isinstance(bank, ImageBank) else 0
    if classes <= task.way:
        raise DataError(
            f"outliers in the support need classes outside of a task, but there are {classes} classes and a task has "
            f"{task.way}: use a smaller `task.way` or `evaluation.way`, or another `evaluation.support_noise`"
        )
    way = min(classes, 2 * task.way)
    return TaskShape(way, -(-wrong // (way - task.way)), 0)


@final
class MixedNoiseBank(Bank):
    """A bank whose tasks have symmetric noise in their support, at a rate that each task draws; queries are clean."""

    def __init__(self, bank: ImageBank) -> None:
        self._bank = bank

    @property
    def shape(self) -> tuple[int, ...]:
        return self._bank.shape

    @property
    def n_classes(self) -> int:
        return self._bank.n_classes

    def feasible_shape(self, task: TaskShape) -> TaskShape:
        return self._bank.feasible_shape(task)

    def draw_tasks(self, count: int, task: TaskShape, rngs: Sequence[np.random.Generator]) -> Samples:
        samples = self._bank.draw_tasks(count, task, rngs)
        y = np.stack(
            [
                [support_labels("symmetric", rng.choice(MIXED_RATES), *task[:2], rng).ravel() for _ in range(count)]
                for rng in rngs
            ]
        )
        return samples._replace(y=y, is_clean=samples.is_clean & (y == samples.y))
