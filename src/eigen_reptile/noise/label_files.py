"""Read label noise from files: a table of class transitions, or the given label of each image."""

import csv
import io
import math
from itertools import islice
from pathlib import Path

import numpy as np
from jaxtyping import Int, Integer

from eigen_reptile.data import ImageBank, data_folder
from eigen_reptile.data.io.archives import UnreadableFileError, ZipSource, read_file
from eigen_reptile.errors import DataError
from eigen_reptile.noise.config import NoiseConfig
from eigen_reptile.runtime.files import expanded

MAX_FILE_BYTES = 2**24
MAX_LABELS = 2**21
ROUNDING = 1e-3
"""Tolerance for the sum of the probabilities of a row, because files may contain few digits."""


def find_noise_file(noise: NoiseConfig) -> Path:
    """The file of the noise settings, taken as it is or relative to the data folder."""
    assert noise.file is not None  # NoiseConfig checks this
    try:
        candidates = [expanded(noise.file), data_folder() / noise.file]
        if found := next((candidate for candidate in candidates if candidate.is_file()), None):
            return found
    except OSError as error:  # such as a name that is too long
        raise DataError(f"`noise.file` {str(noise.file)[:200]} cannot be used: {error!s:.200}") from error
    raise DataError(
        f"{' and '.join(map(str, dict.fromkeys(candidates)))} not found: set `noise.file` to an existing file"
    )


def read_transition_table(file: Path, known_classes: set[str]) -> dict[str, dict[str, float]]:
    """For each true class the probabilities of the given classes, from a CSV table of probabilities or counts."""
    lines = _read_csv(file)
    given = [name.strip() for name in lines[0][1:]]
    for name in (*given, *(line[0].strip() for line in lines[1:])):
        if name not in known_classes:
            raise DataError(f"{file}: the data set has no class named {name[:80]!r}")
    if len(set(given)) < len(given):
        raise DataError(f"{file} has two columns with the same name")
    table: dict[str, dict[str, float]] = {}
    for number, line in enumerate(lines[1:], start=2):
        name = line[0].strip()
        if name in table:
            raise DataError(f"{file}, line {number}: a second row for {name:.80}")
        table[name] = dict(zip(given, _parse_weights(line[1:], len(given), f"{file}, line {number}"), strict=True))
    everything = [value for row in table.values() for value in row.values()]
    are_counts = all(value.is_integer() for value in everything) and max(everything) > 1
    for name, row in table.items():
        total = sum(row.values())
        if total == math.inf or (not are_counts and abs(total - 1) > ROUNDING):
            raise DataError(f"{file}: the probabilities of {name:.80} add up to {total:g}, not to 1")
        table[name] = {given: value / total for given, value in row.items()}
    return table


def _parse_weights(cells: list[str], count: int, location: str) -> list[float]:
    """The probabilities or counts of one row of a transition table."""
    if len(cells) != count:
        raise DataError(f"{location}: {len(cells)} values for {count} classes")
    try:
        values = [float(cell) for cell in cells]
    except ValueError as error:
        raise DataError(f"{location}: {error!s:.200}") from error
    if not all(0 <= value < math.inf for value in values) or sum(values) == 0:
        raise DataError(f"{location}: probabilities or counts must be finite, not negative, and not all zero")
    return values


def read_given_labels(noise: NoiseConfig, bank: ImageBank, known_classes: set[str]) -> Int[np.ndarray, "N"]:
    """The given label of each image, as a class index of the bank; -1 for a class of another split."""
    file = find_noise_file(noise)
    read_pairs = read_pairs_from_npz if file.suffix == ".npz" else _read_pairs_from_csv
    given_of: dict[str, list[str]] = {name: [] for name in bank.names}
    for number, pair in enumerate(read_pairs(file, noise.column), start=1):
        if unknown := [name for name in pair if name not in known_classes]:
            raise DataError(f"{file}, image {number}: the data set has no class named {unknown[0][:80]!r}")
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
                f"{file} must have one column named {name} (see `noise.column`); its columns are "
                f"{', '.join(names):.300}"
            )
    for number, line in enumerate(lines, start=2):
        if len(line) != len(names):
            raise DataError(f"{file}, line {number}: {len(line)} values in {len(names)} columns")
    true, given = names.index("class"), names.index(column)
    return [(line[true], line[given]) for line in lines]


def read_pairs_from_npz(file: Path, column: str) -> list[tuple[str, str]]:
    """The true and the given class of each image, from arrays of integers, which are the names of the classes."""
    source = ZipSource(file)
    found = []
    for name in ("clean_label", column):
        if f"{name}.npy" not in source.paths:
            available = ", ".join(path.removesuffix(".npy") for path in source.paths)
            raise DataError(f"{file} has no array {name}: set `noise.column` to one of its arrays ({available:.300})")
        try:
            values = _read_integers(source.read(f"{name}.npy", MAX_FILE_BYTES))
        except (ValueError, UnreadableFileError) as error:
            raise DataError(f"{file}, array {name}: {error}") from error
        found.append([str(value) for value in values])
    if len(found[0]) != len(found[1]):
        raise DataError(f"{file}: {len(found[1])} labels in {column} for {len(found[0])} images")
    return list(zip(*found, strict=True))


def _read_integers(data: bytes) -> Integer[np.ndarray, "N"]:
    """The content of a npy file; ValueError unless it is a list of integers of the length that its header claims."""
    stream = io.BytesIO(data)
    try:
        if np.lib.format.read_magic(stream) == (1, 0):
            shape, _, kind = np.lib.format.read_array_header_1_0(stream)
        else:
            shape, _, kind = np.lib.format.read_array_header_2_0(stream)
    except Exception as error:  # numpy raises many different exceptions on damaged headers
        raise ValueError("its header is damaged") from error
    if len(shape) != 1 or kind.kind not in "iu":
        raise ValueError("it must be one-dimensional and contain integers")
    if shape[0] > MAX_LABELS or shape[0] * kind.itemsize != len(data) - stream.tell():
        raise ValueError(f"it is truncated, or has more than {MAX_LABELS} labels")
    return np.frombuffer(data, kind, offset=stream.tell())


def _read_csv(file: Path) -> list[list[str]]:
    try:
        text = read_file(file, MAX_FILE_BYTES).decode("utf-8-sig")
        rows = (line for line in csv.reader(io.StringIO(text, newline="")) if line)
        lines = list(islice(rows, MAX_LABELS + 1))
    except OSError as error:
        raise DataError(f"{file} cannot be read: {error.strerror}") from error
    except (ValueError, csv.Error) as error:
        raise DataError(f"{file} cannot be read as CSV: it {error!s:.200}") from error
    if len(lines) < 2:
        raise DataError(f"{file} is empty")
    if len(lines) > MAX_LABELS:
        raise DataError(f"{file} has more than {MAX_LABELS} lines")
    return lines
