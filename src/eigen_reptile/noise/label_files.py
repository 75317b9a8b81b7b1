"""Read label noise from files: a table of class transitions, or the given label of each image."""

import csv
import io
import math
from pathlib import Path

import numpy as np
from jaxtyping import Int

from eigen_reptile.data import ImageBank, data_folder
from eigen_reptile.data.io.archives import UnreadableFileError, ZipSource
from eigen_reptile.errors import DataError
from eigen_reptile.noise.config import NoiseConfig
from eigen_reptile.runtime.files import expanded

MAX_FILE_BYTES = 2**24
ROUNDING = 1e-3
"""Tolerance for the sum of the probabilities of a row, because files may contain few digits."""


def find_noise_file(noise: NoiseConfig) -> Path:
    """The file of the noise settings, taken as it is or relative to the data folder."""
    assert noise.file is not None  # NoiseConfig checks this
    candidates = [expanded(noise.file), data_folder() / noise.file]
    if found := next((candidate for candidate in candidates if candidate.is_file()), None):
        return found
    raise DataError(
        f"{' and '.join(map(str, dict.fromkeys(candidates)))} not found: set `noise.file` to an existing file"
    )


def read_transition_table(file: Path, known_classes: set[str]) -> dict[str, dict[str, float]]:
    """For each true class the probabilities of the given classes, from a CSV table of probabilities or counts."""
    lines = _read_csv(file)
    given = [name.strip() for name in lines[0][1:]]
    for name in (*given, *(line[0].strip() for line in lines[1:])):
        if name not in known_classes:
            raise DataError(f"{file}: the data set has no class named {name!r}")
    if len(set(given)) < len(given):
        raise DataError(f"{file} has two columns with the same name")
    table: dict[str, dict[str, float]] = {}
    for number, line in enumerate(lines[1:], start=2):
        name = line[0].strip()
        if name in table:
            raise DataError(f"{file}, line {number}: a second row for {name}")
        table[name] = dict(zip(given, _parse_weights(line[1:], len(given), f"{file}, line {number}"), strict=True))
    everything = [value for row in table.values() for value in row.values()]
    are_counts = all(value.is_integer() for value in everything) and max(everything) > 1
    for name, row in table.items():
        total = sum(row.values())
        if not are_counts and abs(total - 1) > ROUNDING:
            raise DataError(f"{file}: the probabilities of {name} add up to {total:g}, not to 1")
        table[name] = {given: value / total for given, value in row.items()}
    return table


def _parse_weights(cells: list[str], count: int, location: str) -> list[float]:
    """The probabilities or counts of one row of a transition table."""
    if len(cells) != count:
        raise DataError(f"{location}: {len(cells)} values for {count} classes")
    try:
        values = [float(cell) for cell in cells]
    except ValueError as error:
        raise DataError(f"{location}: {error}") from error
    if not all(0 <= value < math.inf for value in values) or sum(values) == 0:
        raise DataError(f"{location}: probabilities or counts must be finite, not negative, and not all zero")
    return values


def read_given_labels(noise: NoiseConfig, bank: ImageBank, known_classes: set[str]) -> Int[np.ndarray, "N"]:
    """The given label of each image, as a class index of the bank; -1 for a class of another split."""
    file = find_noise_file(noise)
    read_pairs = _read_pairs_from_npz if file.suffix == ".npz" else _read_pairs_from_csv
    given_of: dict[str, list[str]] = {name: [] for name in bank.names}
    for number, pair in enumerate(read_pairs(file, noise.column), start=1):
        if unknown := [name for name in pair if name not in known_classes]:
            raise DataError(f"{file}, image {number}: the data set has no class named {unknown[0]!r}")
        true, given = pair
        if true in given_of:
            given_of[true].append(given)
    index_of = {name: index for index, name in enumerate(bank.names)}
    for name, size in zip(bank.names, bank.sizes, strict=True):
        if len(given_of[name]) != size:
            raise DataError(f"{file} has {len(given_of[name])} labels for the {size} images of {name}")
    return np.array([index_of.get(label, -1) for name in bank.names for label in given_of[name]], dtype=np.int64)


def _read_pairs_from_csv(file: Path, column: str) -> list[tuple[str, str]]:
    """The true and the given class of each image."""
    first, *lines = _read_csv(file)
    names = [name.strip() for name in first]
    for name in ("class", column):
        if names.count(name) != 1:
            raise DataError(
                f"{file} must have one column named {name} (see `noise.column`); its columns are {', '.join(names)}"
            )
    for number, line in enumerate(lines, start=2):
        if len(line) != len(names):
            raise DataError(f"{file}, line {number}: {len(line)} values in {len(names)} columns")
    true, given = names.index("class"), names.index(column)
    return [(line[true], line[given]) for line in lines]


def _read_pairs_from_npz(file: Path, column: str) -> list[tuple[str, str]]:
    """The true and the given class of each image, from arrays of integers, which are the names of the classes."""
    source = ZipSource(file)
    found = []
    for name in ("clean_label", column):
        if f"{name}.npy" not in source.paths:
            available = ", ".join(path.removesuffix(".npy") for path in source.paths)
            raise DataError(f"{file} has no array {name}: set `noise.column` to one of its arrays ({available})")
        try:
            values = np.load(io.BytesIO(source.read(f"{name}.npy", MAX_FILE_BYTES)), allow_pickle=False)
        except (ValueError, EOFError, UnreadableFileError) as error:
            raise DataError(f"{file}, array {name}: {error}") from error
        if values.ndim != 1 or values.dtype.kind not in "iu":
            raise DataError(f"{file}: the array {name} must be one-dimensional and contain integers")
        found.append([str(value) for value in values])
    if len(found[0]) != len(found[1]):
        raise DataError(f"{file}: {len(found[1])} labels in {column} for {len(found[0])} images")
    return list(zip(*found, strict=True))


def _read_csv(file: Path) -> list[list[str]]:
    try:
        if file.stat().st_size > MAX_FILE_BYTES:
            raise DataError(f"{file} is too large for a table of labels: more than {MAX_FILE_BYTES >> 20} MiB")
        with file.open(newline="", encoding="utf-8-sig") as opened:
            lines = [line for line in csv.reader(opened) if line]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{file} cannot be read as CSV: {error}") from error
    if len(lines) < 2:
        raise DataError(f"{file} is empty")
    return lines
