"""Section 5.1: sine regression with every update direction, one grid of outer step sizes and five seeds."""

from eigen_reptile.methods import METHODS
from eigen_reptile.recipes.recipe import Recipe, Scale
from eigen_reptile.training.config import Experiment, MetaConfig

STEP_SIZES = (0.05, 0.1, 0.2, 0.5, 1.0, 1.5, 2.0, 3.0, 5.0, 7.5, 10.0)
"""The same for every direction, so that all are tuned with the same budget."""

DIRECTIONS = (
    "reptile",
    "eigen-reptile-paper",
    "eigen-reptile-authors",
    "eigen-reptile-no-sign-fix",
    "average-weights",
    "average-gradients",
    "average-unit-gradients",
)


def _cells(scale: Scale) -> dict[str, Experiment]:
    """The same at every scale: two cores can do the full one."""
    return {
        name: Experiment(method=METHODS[name], meta=MetaConfig(lr=STEP_SIZES), seeds=tuple(range(5)))
        for name in DIRECTIONS
    }


SINE = Recipe("Section 5.1: every update direction on sine regression, with the paper's 30,000 iterations.", _cells)
