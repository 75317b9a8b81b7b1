"""Banks of one-pixel images whose pixel is the true class, and CSV files of label noise, for the tests of noise."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from eigen_reptile.data import ImageBank

CLASSES = 20
NAMES = [f"class-{number:02d}" for number in range(CLASSES)]
KNOWN = set(NAMES)


def pixel_bank(first: int = 0, classes: int = CLASSES, each: int = 50) -> ImageBank:
    """`each` images of every class from class number `first` on; the only pixel of an image is its class number."""
    pixels = np.repeat(np.arange(first, first + classes, dtype=np.uint8), each)[:, None, None, None]
    return ImageBank(pixels, [f"class-{number:02d}" for number in range(first, first + classes)], [each] * classes)


def transition_rates(true: np.ndarray, given: np.ndarray, classes: int) -> np.ndarray:
    """How often each true class (row) has each given label (column), as fractions of the row."""
    counts = np.zeros((classes, classes))
    np.add.at(counts, (true.ravel(), given.ravel()), 1)
    rates: np.ndarray = counts / counts.sum(1, keepdims=True)
    return rates


def write_csv(folder: Path, rows: Sequence[Sequence[object]]) -> Path:
    file = folder / "table.csv"
    file.write_text("\n".join(",".join(map(str, row)) for row in rows) + "\n")
    return file


def matrix_rows(matrix: np.ndarray, names: list[str]) -> Sequence[Sequence[object]]:
    """The rows of a CSV file with this transition matrix."""
    return [["true", *names], *([name, *row] for name, row in zip(names, matrix.tolist(), strict=True))]
