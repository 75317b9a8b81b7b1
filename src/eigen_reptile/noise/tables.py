"""Tables of how likely each class is taken for each other: by a rule, or out of a file."""

import csv
import io
import logging
import math
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int

from eigen_reptile.data import DataError, ImageBank, data_folder
from eigen_reptile.data.archives import ZipSource
from eigen_reptile.noise.config import NoiseConfig

log = logging.getLogger(__name__)

MAX_TABLE_BYTES = 2**24
ROUNDING = 1e-3
"""What the probabilities of a row may miss one by, as those that were written with few digits do."""


@lru_cache(maxsize=2)  # of all classes of a large data set it takes longer than an iteration
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
    return mixed(noise, other)


def mixed(noise: NoiseConfig, table: Float[np.ndarray, "*L C C"]) -> Float[np.ndarray, "*L C C"]:
    """A table that is followed with the noise's probability, and otherwise nothing is told wrong."""
    found: np.ndarray = (1 - noise.share) * np.eye(table.shape[-1]) + noise.share * table
    return found


def class_table(noise: NoiseConfig, names: Sequence[str], known: set[str]) -> Float[np.ndarray, "C C"]:
    """How likely each of these classes is taken for each other of them."""
    if noise.kind != "matrix":
        return task_table(noise, len(names))
    return mixed(noise, file_table(noise, names, known))


def file_table(noise: NoiseConfig, names: Sequence[str], known: set[str]) -> Float[np.ndarray, "C C"]:
    """How likely each of these classes is taken for each other of them where the noise's file is followed.

    What it says of classes of the other splits is left out, and the rest of a row scaled up to one: a picture cannot
    go where no task looks.
    """
    rows = read_table(file_of(noise), known)
    for what, there in {"row": set(rows), "column": {name for row in rows.values() for name in row}}.items():
        if missing := [name for name in names if name not in there]:
            raise DataError(f"{noise.file} has no {what} for {len(missing)} of the classes, as {missing[0]}")
    weights = np.array([[rows[true][given] for given in names] for true in names])
    if lost := [name for name, row in zip(names, weights, strict=True) if row.sum() == 0]:
        raise DataError(f"{noise.file} sends all of {lost[0]} to classes that are not trained on")
    if (left_out := 1 - float(weights.sum(-1).mean())) > ROUNDING:
        log.warning(
            "%.1f %% of what %s says of these classes goes to classes of other splits: that is left out, and the rest "
            "of each row scaled up to one",
            100 * left_out, noise.file,
        )  # fmt: skip
    return stochastic(weights)


def stochastic(weights: Float[np.ndarray, "*L C C"]) -> Float[np.ndarray, "*L C C"]:
    """Rows that sum to one; a class whose pictures could go nowhere stays as it is."""
    total = weights.sum(-1, keepdims=True)
    stay = np.broadcast_to(np.eye(weights.shape[-1]), weights.shape)
    return np.where(total > 0, weights / np.where(total > 0, total, 1.0), stay)


def flipped(
    y: Int[np.ndarray, "*L m"], table: Float[np.ndarray, "*L C C"], uniform: Float[np.ndarray, "*L m"]
) -> Int[np.ndarray, "*L m"]:
    """Each label drawn anew from its row of the table, by a number drawn from 0 to 1."""
    row = np.take_along_axis(table, y[..., None], axis=-2).cumsum(-1)
    told: np.ndarray = (uniform[..., None] >= row[..., :-1]).sum(-1)
    return told


def read_table(file: Path, known: set[str]) -> dict[str, dict[str, float]]:
    """For each true class the probabilities of the given ones, out of a CSV table of probabilities or counts."""
    lines = _read_csv(file)
    for line in lines:
        line[0] = line[0].strip()
    given = [name.strip() for name in lines[0][1:]]
    for name in (*given, *(line[0] for line in lines[1:])):
        if name not in known:
            raise DataError(f"{file}: the data set has no class named {name!r}")
    if len(set(given)) < len(given):
        raise DataError(f"{file} has two columns of one name")
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
    everything = [value for row in table.values() for value in row.values()]
    counts = all(value.is_integer() for value in everything) and max(everything) > 1
    for name, row in table.items():
        total = sum(row.values())
        if not counts and abs(total - 1) > ROUNDING:
            raise DataError(f"{file}: the probabilities of {name} add up to {total:g}, not to 1")
        table[name] = {given: value / total for given, value in row.items()}
    return table


def read_labels(noise: NoiseConfig, bank: ImageBank, known: set[str]) -> Int[np.ndarray, "N"]:
    """The class that each picture is given, as its number in the bank; -1 for a class of another split."""
    file = file_of(noise)
    listed = (_listed_in_npz if file.suffix == ".npz" else _listed_in_csv)(file, noise.column)
    given: dict[str, list[str]] = {name: [] for name in bank.names}
    for number, pair in enumerate(listed, start=1):
        if missing := [name for name in pair if name not in known]:
            raise DataError(f"{file}, picture {number}: the data set has no class named {missing[0]!r}")
        true, told = pair
        if true in given:
            given[true].append(told)
    number_of = {name: number for number, name in enumerate(bank.names)}
    for name, size in zip(bank.names, bank.sizes, strict=True):
        if len(given[name]) != size:
            raise DataError(f"{file} has {len(given[name])} labels for the {size} pictures of {name}")
    return np.array([number_of.get(label, -1) for name in bank.names for label in given[name]], dtype=np.int64)


def _listed_in_csv(file: Path, column: str) -> list[tuple[str, str]]:
    """The true and the given class of each picture."""
    first, *lines = _read_csv(file)
    names = [name.strip() for name in first]
    for name in ("class", column):
        if names.count(name) != 1:
            raise DataError(f"{file} must have one column named {name} (--noise.column), not {', '.join(names)}")
    for number, line in enumerate(lines, start=2):
        if len(line) != len(names):
            raise DataError(f"{file}, line {number}: {len(line)} values in {len(names)} columns")
    true, given = names.index("class"), names.index(column)
    return [(line[true], line[given]) for line in lines]


def _listed_in_npz(file: Path, column: str) -> list[tuple[str, str]]:
    """The same from arrays of whole numbers, which are the classes' names."""
    source = ZipSource(file)
    found = []
    for name in ("clean_label", column):
        if f"{name}.npy" not in source.paths:
            known = ", ".join(path.removesuffix(".npy") for path in source.paths)
            raise DataError(f"{file} has no array {name}, but {known}: say which one with --noise.column")
        try:
            values = np.load(io.BytesIO(source.read(f"{name}.npy", MAX_TABLE_BYTES)), allow_pickle=False)
        except (ValueError, EOFError) as error:
            raise DataError(f"{file}, array {name}: {error}") from error
        if values.ndim != 1 or values.dtype.kind not in "iu":
            raise DataError(f"{file}: the array {name} must be a list of whole numbers")
        found.append([str(value) for value in values])
    if len(found[0]) != len(found[1]):
        raise DataError(f"{file}: {len(found[1])} labels in {column} for {len(found[0])} pictures")
    return list(zip(*found, strict=True))


def _read_csv(file: Path) -> list[list[str]]:
    try:
        if file.stat().st_size > MAX_TABLE_BYTES:
            raise DataError(f"{file} is too large for a table of labels: more than {MAX_TABLE_BYTES >> 20} MiB")
        with file.open(newline="", encoding="utf-8-sig") as opened:
            lines = [line for line in csv.reader(opened) if line]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{file} cannot be read as CSV: {error}") from error
    if len(lines) < 2:
        raise DataError(f"{file} is empty")
    return lines


def file_of(noise: NoiseConfig) -> Path:
    """Where the config's file is: as it says, or in the place for data sets."""
    assert noise.file is not None  # settled when the config was made
    places = [noise.file.expanduser(), data_folder() / noise.file]
    if found := next((place for place in places if place.is_file()), None):
        return found
    raise DataError(f"there is no {' and no '.join(map(str, dict.fromkeys(places)))}: put the table of labels there")
