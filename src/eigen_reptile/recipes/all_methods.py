"""Every method that the paper's tables compare, for the same time."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from eigen_reptile.config import Experiment, standard
from eigen_reptile.data import CifarFs, Dataset, Omniglot
from eigen_reptile.methods import METHODS
from eigen_reptile.models import Conv4
from eigen_reptile.recipes.pictures import Small, in_full, tuning, untuned
from eigen_reptile.recipes.recipe import Published, Recipe, Scale

# About what one core of a machine of 2026 does in eight minutes on CIFAR-FS and in four on Omniglot, by the time of a
# few iterations there; with the evaluation a cell takes some ten and five.
CIFAR_STEPS = {
    "reptile": 2400,
    "eigen-reptile": 2400,
    "maml": 1000,
    "fomaml": 2500,
    "anil": 1000,
    "boil": 950,
    "taml": 740,
    "meta-curvature": 740,
    "sparse-maml": 1560,
    "warp-maml": 365,
    "meta-dropout": 495,
    "metal": 162,
    "prototypical": 3450,
    "gnn": 890,
    "ecm": 3450,
    "mixtfsl": 4800,
}
OMNIGLOT_STEPS = {
    "reptile": 1700,
    "eigen-reptile": 1700,
    "maml": 670,
    "fomaml": 1200,
    "anil": 670,
    "boil": 670,
    "taml": 500,
    "meta-curvature": 540,
    "sparse-maml": 660,
    "warp-maml": 175,
    "meta-dropout": 200,
    "metal": 180,
    "prototypical": 2700,
    "gnn": 720,
    "ecm": 2700,
    "mixtfsl": 650,
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
    if not data.characters:
        cells = {name: _on_one_network(cell) for name, cell in cells.items()}
    if scale == "tune":
        return {
            name: tuning(cell, steps[name] // 4, cell.inner.lr, tuple(factor * cell.meta.lr[0] for factor in FACTORS))
            for name, cell in cells.items()
        }
    return {name: untuned(cell, SMALL._replace(steps=steps[name])) for name, cell in cells.items()}


def _on_one_network(cell: Experiment) -> Experiment:
    """With the pooling of the paper, which at 32 pixels makes the same network as that of other authors.

    At 28 pixels that of others leaves a quarter of the features, and the inner rates of MAML and its kin go with it.
    """
    assert isinstance(cell.model, Conv4)
    return replace(cell, model=replace(cell.model, pooling="same"))


ALL_METHODS = Recipe(
    "Every method that the paper compares, on CIFAR-FS, for some ten minutes each, 5-way 1-shot and 5-shot.",
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
    "Every method that the paper compares, on Omniglot, for some five minutes each; not in the paper.",
    partial(_cells, Omniglot(), OMNIGLOT_STEPS),
)
