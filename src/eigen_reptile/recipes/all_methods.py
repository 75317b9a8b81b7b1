"""Every method in the paper's tables, each trained for about the same time."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from eigen_reptile.data import CifarFs, Dataset, Omniglot
from eigen_reptile.methods import METHODS
from eigen_reptile.nn import Conv4
from eigen_reptile.recipes import published
from eigen_reptile.recipes.recipe import Recipe, Scale
from eigen_reptile.recipes.scales import SmallScale, published_protocol, scaled_down, tuning_run
from eigen_reptile.training.config import Experiment
from eigen_reptile.training.presets import preset

# Outer iterations that one core of a machine of 2026 does in about eight minutes on CIFAR-FS and four on Omniglot,
# estimated from the time of a few iterations. Including evaluation, a cell takes about ten minutes and five.
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

SMALL = SmallScale(steps=0, search=(), seeds=(0,), tasks=150, monitor_tasks=40, rates={})
"""For all methods; `steps` is replaced by the number of iterations of each."""
FILTERS = 32
"""The same width for all methods; some authors use up to four times as many."""
FACTORS = (0.3, 1.0, 3.0)
"""Multiples of each method's preset outer rate that the scale `tune` tries."""


def _cells(data: Dataset, steps: Mapping[str, int], scale: Scale) -> dict[str, Experiment]:
    """Each method with its preset, mostly the settings of its authors; none was tuned for this comparison."""
    if scale == "full":
        return {name: published_protocol(preset(data, METHODS[name])) for name in steps}
    cells = {name: preset(data, METHODS[name], FILTERS) for name in steps}
    if not data.has_characters:
        cells = {name: _with_same_pooling(cell) for name, cell in cells.items()}
    if scale == "tune":
        return {
            name: tuning_run(
                cell, steps[name] // 4, cell.inner.lr, tuple(factor * cell.meta.lr[0] for factor in FACTORS)
            )
            for name, cell in cells.items()
        }
    return {name: scaled_down(cell, SMALL._replace(steps=steps[name])) for name, cell in cells.items()}


def _with_same_pooling(cell: Experiment) -> Experiment:
    """The cell with the pooling of the paper, which at 32 pixels gives the same network as that of other authors.

    At 28 pixels (Omniglot) their pooling leaves a quarter of the features. The inner rates of MAML and its relatives
    depend on that, so each method keeps its own pooling there.
    """
    assert isinstance(cell.model, Conv4)
    return replace(cell, model=replace(cell.model, pooling="same"))


ALL_METHODS = Recipe(
    "Every method that the paper compares, on CIFAR-FS, about ten minutes each, 5-way 1-shot and 5-shot.",
    partial(_cells, CifarFs(), CIFAR_STEPS),
    published.CIFAR_FS,
)
ALL_METHODS_OMNIGLOT = Recipe(
    "Every method that the paper compares, on Omniglot, about five minutes each; not in the paper.",
    partial(_cells, Omniglot(), OMNIGLOT_STEPS),
)
