"""Every method that the paper's tables compare, on one network, for the same time."""

from collections.abc import Mapping
from functools import partial

from eigen_reptile.config import Experiment, standard
from eigen_reptile.data import CifarFs, Dataset, Omniglot
from eigen_reptile.methods import METHODS
from eigen_reptile.recipes.pictures import Small, in_full, tuning, untuned
from eigen_reptile.recipes.recipe import Published, Recipe, Scale

# About what one core of a machine of 2026 does in ten minutes on CIFAR-FS and in five on Omniglot, by the processor
# time of a few iterations there.
CIFAR_STEPS = {
    "reptile": 1900,
    "eigen-reptile": 1900,
    "maml": 730,
    "fomaml": 1900,
    "anil": 800,
    "boil": 760,
    "taml": 620,
    "meta-curvature": 610,
    "sparse-maml": 1070,
    "warp-maml": 290,
    "meta-dropout": 400,
    "metal": 165,
    "prototypical": 3450,
    "gnn": 1150,
    "ecm": 3450,
    "mixtfsl": 4500,
}
OMNIGLOT_STEPS = {
    "reptile": 1300,
    "eigen-reptile": 1300,
    "maml": 830,
    "fomaml": 1400,
    "anil": 790,
    "boil": 890,
    "taml": 640,
    "meta-curvature": 770,
    "sparse-maml": 465,
    "warp-maml": 155,
    "meta-dropout": 165,
    "metal": 140,
    "prototypical": 2100,
    "gnn": 590,
    "ecm": 2300,
    "mixtfsl": 2800,
}

SMALL = Small(steps=0, search=(), seeds=(0,), tasks=150, monitor_tasks=40, rates={})
"""But for the number of iterations, which is each method's own."""
FILTERS = 32
"""One width for all; that of some authors is up to four times as large."""
FACTORS = (0.3, 1.0, 3.0)
"""Times the outer rate to begin with: the tries of every method at the scale `tune`."""


def _cells(data: Dataset, steps: Mapping[str, int], scale: Scale) -> dict[str, Experiment]:
    """Each method with the settings to begin with, mostly those of its authors: none has been tuned for this."""
    if scale == "full":
        return {name: in_full(standard(data, METHODS[name])) for name in steps}
    cells = {name: standard(data, METHODS[name], FILTERS) for name in steps}
    if scale == "tune":
        return {
            name: tuning(cell, steps[name] // 4, cell.inner.lr, tuple(factor * cell.meta.lr[0] for factor in FACTORS))
            for name, cell in cells.items()
        }
    return {name: untuned(cell, SMALL._replace(steps=steps[name])) for name, cell in cells.items()}


ALL_METHODS = Recipe(
    "Every method that the paper compares, on CIFAR-FS, for ten minutes each, 5-way 1-shot and 5-shot.",
    partial(_cells, CifarFs(), CIFAR_STEPS),
    {
        ("reptile", 1): Published(58.30, 1.20),
        ("reptile", 5): Published(75.45, 0.55),
        ("eigen-reptile", 1): Published(61.90, 1.40),
        ("eigen-reptile", 5): Published(78.30, 0.50),
        ("maml", 1): Published(58.90, 1.90),
        ("maml", 5): Published(71.50, 1.00),
        ("prototypical", 1): Published(55.50, 0.70),
        ("prototypical", 5): Published(72.00, 0.60),
        ("gnn", 1): Published(61.90, None),
        ("gnn", 5): Published(75.30, None),
        ("ecm", 1): Published(55.14, 0.48),
        ("ecm", 5): Published(71.66, 0.39),
    },
)
ALL_METHODS_OMNIGLOT = Recipe(
    "Every method that the paper compares, on Omniglot, for five minutes each; not in the paper.",
    partial(_cells, Omniglot(), OMNIGLOT_STEPS),
)
