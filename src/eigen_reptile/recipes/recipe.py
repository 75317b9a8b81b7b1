"""What a recipe is."""

from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple

from eigen_reptile.config import Experiment

Scale = Literal["full", "small", "tune"]


class Published(NamedTuple):
    """An accuracy in per cent that the paper reports."""

    mean: float
    ci95: float | None
    """Half of its interval, where the paper gives one."""


class Recipe(NamedTuple):
    """The experiments behind one table or figure of the paper, and what the paper reports there."""

    about: str
    cells: Callable[[Scale], dict[str, Experiment]]
    """From cell name to experiment, at the paper's scale, at one that two cores can do, or the search for the
    small scale's rates, which does not touch the test tasks."""
    published: Mapping[tuple[str, int], Published] = {}
    """By cell name and number of shots."""
