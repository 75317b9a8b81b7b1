"""What a recipe is: named experiments at three scales, and the numbers that the paper reports for them."""

from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple

from eigen_reptile.training.config import Experiment

Scale = Literal["full", "small", "tune"]


class PublishedAccuracy(NamedTuple):
    """An accuracy in per cent that the paper reports."""

    mean: float
    ci95: float | None
    """Half-width of its 95 % interval; None where the paper gives no interval."""


def no_further_evaluations(cell: Experiment) -> dict[str, Experiment]:
    """No evaluation besides the cell's own."""
    return {}


class Recipe(NamedTuple):
    """The experiments behind one table or figure of the paper, and the accuracies that the paper reports there."""

    about: str
    """One line for the list of recipes."""
    cells: Callable[[Scale], dict[str, Experiment]]
    """From a scale to the experiments by cell name. `full` is the paper's scale, `small` one that two cores can do,
    and `tune` the search for the learning rates of `small`, which does not evaluate test tasks."""
    published: Mapping[tuple[str, int], PublishedAccuracy] = {}
    """The paper's accuracies by cell name and number of shots."""
    evaluations: Callable[[Experiment], dict[str, Experiment]] = no_further_evaluations
    """Further evaluations of what a cell has learnt, by the suffix of the cell's name."""
