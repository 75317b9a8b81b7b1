"""Omniglot, which the Reptile paper uses; the Eigen-Reptile paper does not."""

from dataclasses import replace

from eigen_reptile.data import Omniglot
from eigen_reptile.methods import METHODS
from eigen_reptile.recipes.recipe import Recipe, Scale
from eigen_reptile.recipes.scales import COMPARED_METHODS, WIDE_GRID, LearningRates, SearchRound, SmallScale, at_scale
from eigen_reptile.tasks import TaskConfig
from eigen_reptile.training.config import Experiment
from eigen_reptile.training.presets import preset

SMALL = SmallScale(
    steps=1500,
    # The best rates of the first round were at the edge of its grid, so a second round went beyond it.
    search=(SearchRound(300, WIDE_GRID), SearchRound(300, {0.004: (2.0,), 0.008: (1.0,)}, "-beyond")),
    seeds=(0, 1),
    tasks=150,
    monitor_tasks=60,
    # The best of both rounds on validation tasks (docs/results.md); 0.008 is again at the edge of the grid.
    rates={
        "reptile": LearningRates(0.008, 1.0),
        "eigen-reptile-paper": LearningRates(0.008, 1.0),
        "eigen-reptile-authors": LearningRates(0.008, 1.0),
    },
)


def _cells(scale: Scale) -> dict[str, Experiment]:
    """With the inner steps (5) and shots (10) of Reptile's authors, at full scale also their inner rate (0.001)."""
    cells = {}
    for name in COMPARED_METHODS:
        experiment = preset(Omniglot(), METHODS[name])
        inner = replace(experiment.inner, steps=5)
        cells[name] = replace(experiment, task=TaskConfig(way=5, shots=10), inner=inner)
    cells = at_scale(cells, SMALL, scale)
    if scale == "full":
        return {name: replace(cell, inner=replace(cell.inner, steps=5, lr=0.001)) for name, cell in cells.items()}
    return cells


OMNIGLOT = Recipe("Reptile and Eigen-Reptile on Omniglot, 5-way 1-shot and 5-shot; not in the paper.", _cells)
