"""What a study of the theory finds: curves with intervals, to be drawn and tabulated."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from eigen_reptile.evaluate import interval95


class Line(NamedTuple):
    name: str
    x: list[float]
    y: list[float]
    ci95: list[float]
    """Half of each interval."""


class Panel(NamedTuple):
    """One picture of a study."""

    title: str
    x: str
    y: str
    lines: list[Line]
    logarithmic: bool = False
    """Whether x is shown so."""


class Study(NamedTuple):
    title: str
    about: str
    panels: list[Panel]


def line(name: str, x: Sequence[float], values: Sequence[np.ndarray]) -> Line:
    """The means of the values at each x, with their 95 % intervals."""
    means, halves = zip(*(interval95(found) for found in values), strict=True)
    return Line(name, *([float(f"{number:.6g}") for number in numbers] for numbers in (x, means, halves)))
