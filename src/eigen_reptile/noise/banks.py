"""Where noise acts: on a bank, on its tasks, or on the draws of mini-batches."""

import logging
from collections.abc import Sequence
from typing import NamedTuple, final

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from eigen_reptile.data import Bank, Banks, DataError, ImageBank, Samples, TaskShape
from eigen_reptile.noise.config import NoiseConfig
from eigen_reptile.noise.tables import class_table, file_table, flipped, mixed, read_labels, stochastic, task_table
from eigen_reptile.streams import stream
from eigen_reptile.tasks import Batches, Tasks

log = logging.getLogger(__name__)


@final
class Flips:
    """How the labels of tasks are told wrong."""

    def __init__(self, noise: NoiseConfig, names: Sequence[str], known: set[str]) -> None:
        self._noise = noise
        self._table = file_table(noise, names, known) if noise.kind == "matrix" else None

    def told(
        self, y: Int[np.ndarray, "B m"], classes: Int[np.ndarray, "B way"], uniform: Float[np.ndarray, "B m"]
    ) -> Int[np.ndarray, "B m"]:
        """What is told in place of the labels of some tasks, by numbers drawn from 0 to 1."""
        return flipped(y, self._tables(classes), uniform)

    def _tables(self, classes: Int[np.ndarray, "B way"]) -> Float[np.ndarray, "B way way"]:
        """How likely each class of each task is taken for each other class of it."""
        if self._table is None:
            table = task_table(self._noise, classes.shape[-1])
            return np.broadcast_to(table, (*classes.shape[:-1], *table.shape))
        names = classes % len(self._table)  # a turned class is confused as it is upright
        first, second = names[..., :, None], names[..., None, :]
        # A class may be there twice, turned: then it is told as itself, and not as its twin.
        twins = (first == second) & ~np.eye(classes.shape[-1], dtype=bool)
        return mixed(self._noise, stochastic(np.where(twins, 0.0, self._table[first, second])))


@final
class NoisyTasks(Bank):
    """A bank whose tasks tell wrong labels of some of their support, and, if they are learnt from, of their queries."""

    def __init__(self, bank: ImageBank, flips: Flips, queries: bool) -> None:
        self._bank = bank
        self._flips = flips
        self._queries = queries

    @property
    def shape(self) -> tuple[int, ...]:
        return self._bank.shape

    @property
    def class_numbers(self) -> int:
        return self._bank.class_numbers

    def fitted(self, task: TaskShape) -> TaskShape:
        return self._bank.fitted(task)

    def draw(self, count: int, task: TaskShape, rngs: Sequence[np.random.Generator]) -> Samples:
        return self._with_flips(self._bank.draw(count, task, rngs), rngs)

    @property
    def size(self) -> int:
        return self._bank.size

    def take(self, numbers: Int[np.ndarray, "S B b"], rngs: Sequence[np.random.Generator]) -> Samples:
        return self._with_flips(self._bank.take(numbers, rngs), rngs)

    def _with_flips(self, samples: Samples, rngs: Sequence[np.random.Generator]) -> Samples:
        told = self._told(samples.y, samples, rngs)
        right = samples.right & (told == samples.y)
        if self._queries and samples.query_y.shape[2]:
            samples = samples._replace(query_y=self._told(samples.query_y, samples, rngs))
        return samples._replace(y=told, right=right)

    def _told(self, y: np.ndarray, samples: Samples, rngs: Sequence[np.random.Generator]) -> np.ndarray:
        lanes = zip(y, samples.classes, rngs, strict=True)
        return np.stack([self._flips.told(own, classes, rng.random(own.shape)) for own, classes, rng in lanes])


def class_names(banks: Banks) -> set[str]:
    """The classes of all splits."""
    return {name for bank in banks if isinstance(bank, ImageBank) for name in bank.names}


class Noise(NamedTuple):
    """Noise made ready: the banks to draw from, and what is to be done to each draw of a mini-batch."""

    banks: Banks
    flips: Flips | None = None


def with_noise(banks: Banks, noise: NoiseConfig, evaluation: bool) -> Noise:
    """Banks with wrong labels to train on; on request also in the supports of validation and test."""
    if noise.kind == "none":
        return Noise(banks)
    images = [bank for bank in banks if isinstance(bank, ImageBank)]
    if len(images) < len(banks):
        raise DataError("this data set has no labels that could be wrong: leave --noise.kind at none")
    if evaluation and noise.where != "task":
        raise DataError(
            f"noise in the {noise.where} stays in training: use --noise.where task to have it in evaluation"
        )
    known = class_names(banks)
    if noise.where == "bank":
        return Noise(banks._replace(train=noisy_bank(images[0], noise, known)))
    if noise.where == "draw":
        return Noise(banks, Flips(noise, images[0].names, known))
    noisy = [
        NoisyTasks(bank, Flips(noise, bank.names, known), queries=place == 0)  # only those of training
        for place, bank in enumerate(images[: 3 if evaluation else 1])
    ]
    return Noise(Banks(*noisy, *banks[len(noisy) :]))


def noisy_bank(bank: ImageBank, noise: NoiseConfig, known: set[str]) -> ImageBank:
    """The bank with each picture under the class that it is given, once and for all."""
    return bank.relabelled(given_labels(bank, noise, known))


def given_labels(bank: ImageBank, noise: NoiseConfig, known: set[str]) -> Int[np.ndarray, "N"]:
    """The class that each picture is given, by its number; -1 for one outside of the bank."""
    true, rng = bank.labels, stream(noise.seed, "noise")
    if noise.kind == "labels":
        given = read_labels(noise, bank, known)
        if lost := int((given < 0).sum()):
            log.warning(
                "%d of %d pictures are given classes of other splits, and are left out where the labels are followed",
                lost, len(given),
            )  # fmt: skip
        return np.where(rng.random(len(true)) < noise.share, given, true)
    return flipped(true, class_table(noise, bank.names, known), rng.random(true.shape))


def noisy_draws(
    tasks: Tasks, batches: Batches, flips: Flips, rngs: Sequence[np.random.Generator], whole: bool
) -> tuple[Tasks, Batches]:
    """Labels told wrong of each draw into a mini-batch by itself; once of support and queries, if whole tasks teach.

    The first draws of a task are told the same however many there are, so that methods that draw more can be compared.
    """

    def told(y: Tensor) -> Tensor:
        lanes = zip(y.flatten(2).cpu().numpy(), tasks.classes.cpu().numpy(), rngs, strict=True)
        found = [flips.told(own, classes, rng.random(own.shape[::-1]).T) for own, classes, rng in lanes]
        return torch.from_numpy(np.stack(found)).to(y.device).view_as(y)

    y = told(batches.y)
    batches = batches._replace(y=y, right=batches.right & (y == batches.y))
    if not whole:
        return tasks, batches
    y = told(tasks.y)
    return tasks._replace(y=y, right=tasks.right & (y == tasks.y), query_y=told(tasks.query_y)), batches


class Realised(NamedTuple):
    """What noise did to some labels."""

    names: list[str]
    """The classes; where it acts inside tasks by a rule that does not know them, their places in the task."""
    counts: Int[np.ndarray, "C C"]
    """How often each class (row) was told as each (column)."""

    @property
    def rate(self) -> float:
        """The share of labels that are wrong."""
        return 1 - float(np.trace(self.counts) / self.counts.sum())


def realised(bank: Bank, noise: NoiseConfig, known: set[str], task: TaskShape, labels: int) -> Realised:
    """What noise does to the labels of a bank of pictures; inside tasks, to at least so many of them."""
    if not isinstance(bank, ImageBank):
        raise DataError("this data set has no labels that could be wrong")
    if noise.where == "bank":
        true, given = bank.labels, given_labels(bank, noise, known)
        return _counted(list(bank.names), true[given >= 0], given[given >= 0])
    flips = Flips(noise, bank.names, known)
    pairs: list[tuple[np.ndarray, np.ndarray]] = []
    for number in range(-(-labels // (task.way * task.shots))):
        rng = stream(noise.seed, "noise", number)
        samples = bank.draw(1, task, [rng])
        y = flips.told(samples.y[0], samples.classes[0], rng.random(samples.y[0].shape))
        numbers = samples.classes[0, 0] % len(bank.names) if noise.kind == "matrix" else np.arange(task.way)
        pairs.append((numbers[samples.y[0, 0]], numbers[y[0]]))
    places = [f"class {place + 1} of a task" for place in range(task.way)]
    true, told = (np.concatenate(part) for part in zip(*pairs, strict=True))
    return _counted(list(bank.names) if noise.kind == "matrix" else places, true, told)


def _counted(names: list[str], true: np.ndarray, told: np.ndarray) -> Realised:
    counts = np.zeros((len(names), len(names)), dtype=np.int64)
    np.add.at(counts, (true, told), 1)
    return Realised(names, counts)
