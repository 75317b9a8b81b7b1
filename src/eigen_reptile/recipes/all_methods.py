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
    "reptile": 1800,
    "eigen-reptile": 1800,
    "maml": 900,
    "fomaml": 1900,
    "anil": 720,
    "boil": 840,
    "taml": 660,
    "meta-curvature": 670,
    "sparse-maml": 1150,
    "warp-maml": 350,
    "meta-dropout": 400,
    "metal": 135,
    "prototypical": 3200,
    "gnn": 1000,
    "ecm": 3000,
    "mixtfsl": 3900,
}
OMNIGLOT_STEPS = {
    "reptile": 1100,
    "eigen-reptile": 1100,
    "maml": 520,
    "fomaml": 1100,
    "anil": 510,
    "boil": 540,
    "taml": 460,
    "meta-curvature": 490,
    "sparse-maml": 630,
    "warp-maml": 220,
    "meta-dropout": 235,
    "metal": 98,
    "prototypical": 1900,
    "gnn": 530,
    "ecm": 1750,
    "mixtfsl": 2350,
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
