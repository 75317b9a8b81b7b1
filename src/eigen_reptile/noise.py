"""Wrong labels, made on purpose: whatever the kind, a table says how likely each class is taken for each other.

Nothing on disk is touched, and the same seed gives the same flips to every method. Beside each label that training is
told stands whether it is right; methods may log that, and must not use it.
"""

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple, final

import numpy as np
import torch
from jaxtyping import Float, Int

from eigen_reptile.data import Bank, Banks, DataError, ImageBank, Samples, TaskShape
from eigen_reptile.streams import stream
from eigen_reptile.tasks import Batches, Tasks

Kind = Literal["none", "symmetric", "asymmetric", "matrix", "labels"]
Place = Literal["bank", "task", "draw"]

MAX_TABLE_BYTES = 2**24


@dataclass(frozen=True)
class NoiseConfig:
    """Wrong labels in meta-training."""

    kind: Kind = "none"
    """symmetric: any other class; asymmetric: the next class; matrix: as a table says; labels: as a file says."""
    rate: float | None = None
    """Probability of a wrong label (p). For `matrix` and `labels`, that of following them at all; default: always."""
    where: Place = "task"
    """bank: once for each picture of the training classes; task: for each picture in each task, among the classes of
    that task; draw: the same anew each time that a picture is drawn into a mini-batch."""
    last: Literal["ring", "chain"] = "ring"
    """What the last class becomes under asymmetric noise: the first one, or it stays as it is."""
    file: Path | None = None
    """For `matrix`: a CSV table with the true classes as rows and the given ones as columns, named in its first column
    and first line; probabilities, or counts. For `labels`: a CSV with the columns `class` and `label`, which lists the
    pictures of each class in the order of their files."""
    seed: int = 0
    """Seed of the flips in the bank. Those in tasks and draws go by the experiment's seeds."""

    def __post_init__(self) -> None:
        if self.rate is not None and not 0 <= self.rate <= 1:
            raise ValueError(f"noise.rate must be a probability from 0 to 1, not {self.rate}")
        if not 0 <= self.seed < 2**63:
            raise ValueError(f"noise.seed must be a whole number from 0 to 2**63 - 1, not {self.seed}")
        if self.kind in ("symmetric", "asymmetric") and self.rate is None:
            raise ValueError(f"{self.kind} noise needs a probability: --noise.rate")
        if self.kind in ("matrix", "labels") and self.file is None:
            raise ValueError(f"noise of the kind {self.kind} needs a CSV file: --noise.file")
        if self.kind == "labels" and self.where != "bank":
            raise ValueError("given labels belong to the pictures: use --noise.where bank")

    @property
    def share(self) -> float:
        """The probability that a label is drawn from the table of this kind."""
        return 1.0 if self.rate is None else self.rate


@final
class Flips:
    """How the labels of tasks are told wrong."""

    def __init__(self, noise: NoiseConfig, names: Sequence[str], known: set[str]) -> None:
        self._noise = noise
        self._table = class_table(noise, names, known) if noise.kind == "matrix" else None

    def told(
        self, y: Int[np.ndarray, "B m"], classes: Int[np.ndarray, "B way"], rng: np.random.Generator
    ) -> Int[np.ndarray, "B m"]:
        """What is told in place of the labels of some tasks."""
        return flipped(y, self._tables(classes), rng)

    def _tables(self, classes: Int[np.ndarray, "B way"]) -> Float[np.ndarray, "B way way"]:
        """How likely each class of each task is taken for each other class of it."""
        if self._table is None:
            table = task_table(self._noise, classes.shape[-1])
            return np.broadcast_to(table, (*classes.shape[:-1], *table.shape))
        return _stochastic(self._table[classes[..., :, None], classes[..., None, :]])


@final
class NoisyTasks(Bank):
    """A bank whose tasks tell wrong labels of some of their support. Queries stay clean."""

    def __init__(self, bank: ImageBank, flips: Flips) -> None:
        self._bank = bank
        self._flips = flips

    @property
    def shape(self) -> tuple[int, ...]:
        return self._bank.shape

    def fitted(self, task: TaskShape) -> TaskShape:
        return self._bank.fitted(task)

    def draw(self, count: int, task: TaskShape, rngs: Sequence[np.random.Generator]) -> Samples:
        samples = self._bank.draw(count, task, rngs)
        lanes = zip(samples.y, samples.classes, rngs, strict=True)
        told = np.stack([self._flips.told(*lane) for lane in lanes])
        return samples._replace(y=told, right=samples.right & (told == samples.y))


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
    known = {name for bank in images for name in bank.names}
    if noise.where == "bank":
        return Noise(banks._replace(train=noisy_bank(images[0], noise, known)))
    if noise.where == "draw":
        return Noise(banks, Flips(noise, images[0].names, known))
    noisy = [NoisyTasks(bank, Flips(noise, bank.names, known)) for bank in images[: 3 if evaluation else 1]]
    return Noise(Banks(*noisy, *banks[len(noisy) :]))


def noisy_bank(bank: ImageBank, noise: NoiseConfig, known: set[str]) -> ImageBank:
    """The bank with each picture under the class that it is given, once and for all."""
    true, rng = bank.labels, stream(noise.seed, "noise")
    if noise.kind == "labels":
        given = read_labels(_file(noise), bank, known)
        return bank.relabelled(np.where(rng.random(len(true)) < noise.share, given, true))
    return bank.relabelled(flipped(true, class_table(noise, bank.names, known), rng))


def noisy_draws(batches: Batches, tasks: Tasks, flips: Flips, rngs: Sequence[np.random.Generator]) -> Batches:
    """Mini-batches whose labels are told wrong, each draw by itself."""
    y = batches.y.flatten(2).cpu().numpy()
    lanes = zip(y, tasks.classes.cpu().numpy(), rngs, strict=True)
    told = torch.from_numpy(np.stack([flips.told(*lane) for lane in lanes])).to(batches.y.device).view_as(batches.y)
    return batches._replace(y=told, right=batches.right & (told == batches.y))


def task_table(noise: NoiseConfig, classes: int) -> Float[np.ndarray, "C C"]:
    """How likely each of some classes is taken for each other, by a rule that does not know them."""
    if classes == 1:
        return np.ones((1, 1))
    same = np.eye(classes)
    if noise.kind == "symmetric":
        other = (1 - same) / (classes - 1)
    else:
        other = np.roll(same, 1, axis=1)
        if noise.last == "chain":
            other[-1] = same[-1]
    mixed: np.ndarray = (1 - noise.share) * same + noise.share * other
    return mixed


def class_table(noise: NoiseConfig, names: Sequence[str], known: set[str]) -> Float[np.ndarray, "C C"]:
    """How likely each of these classes is taken for each other of them.

    What a file says of classes of the other splits is left out, and the rest of a row scaled up to one: a picture
    cannot go where no task looks.
    """
    if noise.kind != "matrix":
        return task_table(noise, len(names))
    rows = read_table(_file(noise), known)
    if missing := [name for name in names if name not in rows]:
        raise DataError(f"{noise.file} has no row for {len(missing)} of the classes, as {missing[0]}")
    table = _stochastic(np.array([[rows[true].get(given, 0.0) for given in names] for true in names]))
    mixed: np.ndarray = (1 - noise.share) * np.eye(len(names)) + noise.share * table
    return mixed


def _stochastic(weights: Float[np.ndarray, "*L C C"]) -> Float[np.ndarray, "*L C C"]:
    """Rows that sum to one; a class whose pictures could go nowhere stays as it is."""
    total = weights.sum(-1, keepdims=True)
    stay = np.broadcast_to(np.eye(weights.shape[-1]), weights.shape)
    return np.where(total > 0, weights / np.where(total > 0, total, 1.0), stay)


def flipped(
    y: Int[np.ndarray, "*L m"], table: Float[np.ndarray, "*L C C"], rng: np.random.Generator
) -> Int[np.ndarray, "*L m"]:
    """Each label drawn anew from its row of the table."""
    row = np.take_along_axis(table.cumsum(-1), y[..., None], axis=-2)
    told: np.ndarray = (rng.random(y.shape)[..., None] >= row[..., :-1]).sum(-1)
    return told


def read_table(file: Path, known: set[str]) -> dict[str, dict[str, float]]:
    """For each true class the probabilities of the given ones, out of a CSV table of probabilities or counts."""
    lines = _read_csv(file)
    given = lines[0][1:]
    for name in given:
        if name not in known:
            raise DataError(f"{file}: the data set has no class named {name}")
    table: dict[str, dict[str, float]] = {}
    for number, line in enumerate(lines[1:], start=2):
        place = f"{file}, line {number}"
        if len(line) != len(given) + 1:
            raise DataError(f"{place}: {len(line) - 1} values for {len(given)} classes")
        if line[0] in table:
            raise DataError(f"{place}: a second row for {line[0]}")
        try:
            values = [float(value) for value in line[1:]]
        except ValueError as error:
            raise DataError(f"{place}: {error}") from error
        if not all(0 <= value < math.inf for value in values) or sum(values) == 0:
            raise DataError(f"{place}: probabilities or counts must be finite, not negative, and not all zero")
        table[line[0]] = dict(zip(given, values, strict=True))
    counts = all(value.is_integer() for row in table.values() for value in row.values())
    for name, row in table.items():
        total = sum(row.values())
        if not counts and abs(total - 1) > 1e-6:
            raise DataError(f"{file}: the probabilities of {name} add up to {total:g}, not to 1")
        table[name] = {given: value / total for given, value in row.items()}
    return table


def read_labels(file: Path, bank: ImageBank, known: set[str]) -> Int[np.ndarray, "N"]:
    """The class that each picture is given, as its number in the bank; -1 for a class of another split."""
    lines = _read_csv(file)
    if [name.strip().lower() for name in lines[0]] != ["class", "label"]:
        raise DataError(f"{file} must begin with the line class,label")
    given: dict[str, list[str]] = {name: [] for name in bank.names}
    for number, line in enumerate(lines[1:], start=2):
        if len(line) != 2 or not known.issuperset(line):
            raise DataError(f"{file}, line {number}: must hold the true and the given class of a picture, not {line}")
        if line[0] in given:
            given[line[0]].append(line[1])
    number_of = {name: number for number, name in enumerate(bank.names)}
    for name, size in zip(bank.names, bank.sizes, strict=True):
        if len(given[name]) != size:
            raise DataError(f"{file} has {len(given[name])} labels for the {size} pictures of {name}")
    return np.array([number_of.get(label, -1) for name in bank.names for label in given[name]], dtype=np.int64)


def _read_csv(file: Path) -> list[list[str]]:
    try:
        if file.stat().st_size > MAX_TABLE_BYTES:
            raise DataError(f"{file} is too large for a table of labels: more than {MAX_TABLE_BYTES >> 20} MiB")
        with file.open(newline="", encoding="utf-8") as opened:
            lines = [line for line in csv.reader(opened) if line]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{file} cannot be read as CSV: {error}") from error
    if len(lines) < 2:
        raise DataError(f"{file} is empty")
    return lines


def _file(noise: NoiseConfig) -> Path:
    assert noise.file is not None  # settled when the config was made
    return noise.file
