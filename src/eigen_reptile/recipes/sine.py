"""The sine wave (paper, section 5.1): every direction, over one grid of outer step sizes, five seeds."""

from eigen_reptile.config import Experiment, MetaConfig
from eigen_reptile.methods import METHODS
from eigen_reptile.recipes.recipe import Recipe, Scale

STEP_SIZES = (0.05, 0.1, 0.2, 0.5, 1.0, 1.5, 2.0, 3.0, 5.0, 7.5, 10.0)
"""One grid for every direction, so that each is tuned with the same budget."""

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
    """The same at every scale: two cores can do it in full."""
    return {
        name: Experiment(method=METHODS[name], meta=MetaConfig(lr=STEP_SIZES), seeds=tuple(range(5)))
        for name in DIRECTIONS
    }


SINE = Recipe("Every update direction of section 5.1 at the full 30,000 iterations.", _cells)
