"""Wrong labels in the support of test tasks: every method, trained once and tested at several rates."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from eigen_reptile.data import CifarFs, Dataset, Omniglot
from eigen_reptile.methods import METHODS
from eigen_reptile.noise import NoiseConfig, SupportNoise
from eigen_reptile.recipes.all_methods import CIFAR_STEPS, FILTERS, OMNIGLOT_STEPS, SMALL
from eigen_reptile.recipes.noisy import OTHER_SHOTS, TASK
from eigen_reptile.recipes.recipe import Recipe, Scale
from eigen_reptile.recipes.scales import published_protocol, scaled_down, tuning_run
from eigen_reptile.training.config import Experiment
from eigen_reptile.training.presets import image_preset, preset

LIKE = {
    "eigen-reptile-paper": "eigen-reptile",
    "eigen-reptile-no-sign-fix": "eigen-reptile",
    "reptile-ispl": "reptile",
    "eigen-reptile-ispl": "eigen-reptile",
    "eigen-reptile-ispl-paper": "eigen-reptile",
    "eigen-reptile-ispl-authors": "eigen-reptile",
    "eigen-reptile-spl": "eigen-reptile",
    "reptile-gce": "reptile",
    "eigen-reptile-gce": "eigen-reptile",
    "foml": "reptile",
    "maml-ispl": "maml",
    "fomaml-ispl": "fomaml",
    "taml-theil": "taml",
    "average-weights": "reptile",
    "average-gradients": "reptile",
    "average-unit-gradients": "reptile",
}
"""Relatives that take as long for an iteration as a method whose number of iterations is known."""
ALIASES = ("eigen-reptile-authors",)
"""Names of methods that are equal to another one, here `eigen-reptile`."""
SHARE = 4
"""Runs are this many times shorter than those of the recipe all-methods: two minutes for a cell on CIFAR-FS."""
SHOTS = (5, 10)
MIXED = ("eigen-reptile", "maml", "prototypical")
"""Methods that are also trained with wrong labels in the support, as TraNFS is."""
RATES: dict[SupportNoise, tuple[float, ...]] = {"symmetric": (0.2, 0.4, 0.6), "paired": (0.4,), "outlier": (0.4,)}


def _cells(data: Dataset, steps: Mapping[str, int], scale: Scale) -> dict[str, Experiment]:
    """Every method, trained without noise on tasks as large as those of the recipe noisy; some also with mixed support
    noise."""
    cells = {name: _cell(data, name, steps[LIKE.get(name, name)], scale) for name in METHODS if name not in ALIASES}
    mixed = {f"{name}-mixed": replace(cells[name], noise=NoiseConfig("mixed")) for name in MIXED}
    return cells | mixed


def _cell(data: Dataset, name: str, steps: int, scale: Scale) -> Experiment:
    cell = preset(data, METHODS[name], None if scale == "full" else FILTERS)
    if image_preset(cell.method) is None:
        cell = replace(cell, task=TASK)
    elif not cell.task.epochs:
        cell = replace(cell, task=replace(cell.task, shots=max(cell.task.shots, OTHER_SHOTS)))
    if scale == "tune":
        return tuning_run(cell, steps // SHARE, cell.inner.lr, cell.meta.lr)
    cell = published_protocol(cell) if scale == "full" else scaled_down(cell, SMALL._replace(steps=steps // SHARE))
    return replace(cell, evaluation=replace(cell.evaluation, shots=SHOTS))


def _noisy_tests(cell: Experiment) -> dict[str, Experiment]:
    """The tests of a trained cell with wrong labels in the support."""
    return {
        f"{kind}-{100 * rate:.0f}": replace(
            cell, evaluation=replace(cell.evaluation, support_noise=kind, support_rate=rate)
        )
        for kind, rates in RATES.items()
        for rate in rates
    }


SUPPORT_NOISE = Recipe(
    "Wrong labels in the support of tests, every method on CIFAR-FS.",
    partial(_cells, CifarFs(), CIFAR_STEPS),
    evaluations=_noisy_tests,
)
SUPPORT_NOISE_OMNIGLOT = Recipe(
    "Wrong labels in the support of tests, every method on Omniglot.",
    partial(_cells, Omniglot(), OMNIGLOT_STEPS),
    evaluations=_noisy_tests,
)
