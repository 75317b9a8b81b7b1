"""Wrong labels in meta-training (paper, section 5.3, table 3)."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from eigen_reptile.config import Experiment, standard
from eigen_reptile.data import CifarFs, Dataset, Glyphs, MiniImagenet
from eigen_reptile.methods import METHODS, EigenReptile, Ispl, Selected
from eigen_reptile.noise import NoiseConfig
from eigen_reptile.recipes.all_methods import FILTERS
from eigen_reptile.recipes.cifar_fs import SMALL as CIFAR_SMALL
from eigen_reptile.recipes.pictures import Rates, Small, in_full, shrunk, tuning, untuned
from eigen_reptile.recipes.recipe import Published, Recipe, Scale
from eigen_reptile.tasks import TaskConfig

TABLE_3 = (
    "reptile",
    "reptile-ispl",
    "eigen-reptile",
    "eigen-reptile-ispl",
    "eigen-reptile-ispl-paper",
    "eigen-reptile-spl",
)
"""And plain self-paced learning."""
ROBUST = ("reptile-gce", "eigen-reptile-gce")
"""What one would try first: a loss that wrong labels pull at less."""
OTHERS = {"maml": 220, "prototypical": 2000, "metal": 90}
"""Methods with settings of their own, and the iterations that they do on CIFAR-FS in the time that Reptile takes."""
SHOTS_OF_OTHERS = 5
"""Theirs in training: of one, wrong labels would leave many classes nothing, and of 30 each step is too slow."""
RATES = (0.1, 0.2, 0.5)
TASK = TaskConfig(way=5, shots=30)
SMALL = CIFAR_SMALL._replace(steps=2000, seeds=(0,))
RATES_UNDER_NOISE = Rates(0.002, 1.0)
"""For all methods alike. Those that are best without noise are twice as large, and did worse with half of the labels
wrong (results/noisy-clean-rates)."""
GAMMAS = (0.8, 1.0, 1.2)
"""Thresholds of ISPL, in the loss of a guess, that short runs on validation tasks choose from."""


def noises() -> dict[str, NoiseConfig]:
    """By the end of a cell's name: none, symmetric inside each task, or from class to class in the whole bank."""
    found = {"p0": NoiseConfig()}
    for rate in RATES:
        found[f"s{100 * rate:.0f}"] = NoiseConfig("symmetric", rate, "task")
        # A chain through the classes, as the authors' script moves their files.
        found[f"as{100 * rate:.0f}"] = NoiseConfig("asymmetric", rate, "bank", last="chain")
    return found


def cells_under(
    noises: Mapping[str, NoiseConfig], names: Sequence[str], data: Dataset, scale: Scale, small: Small = SMALL
) -> dict[str, Experiment]:
    """Every method under every noise, evaluated on the same tasks; those of table 3 also see the same flips."""
    if scale == "tune":
        return _thresholds()
    make = _in_full if scale == "full" else partial(_shrunk, small)
    return {f"{name}-{end}": replace(make(name, data), noise=noise) for end, noise in noises.items() for name in names}


def _shrunk(small: Small, name: str, data: Dataset) -> Experiment:
    cell = standard(data, METHODS[name], FILTERS)
    if name in OTHERS:
        return untuned(_with_more_shots(cell), small._replace(steps=small.steps * OTHERS[name] // SMALL.steps))
    return shrunk(replace(cell, task=TASK), small, RATES_UNDER_NOISE)


def _with_more_shots(cell: Experiment) -> Experiment:
    """Each inner step still takes the whole support."""
    task = replace(cell.task, shots=SHOTS_OF_OTHERS)
    return replace(cell, task=task, inner=replace(cell.inner, batch=task.way * task.shots))


def _thresholds() -> dict[str, Experiment]:
    """ISPL's choice of gamma at the highest rate of noise, beside doing without it.

    On glyphs: with half of the labels wrong, CIFAR-FS teaches too little in a short run to tell anything apart.
    """
    tries = {f"eigen-reptile-ispl-{gamma:g}": Selected(EigenReptile(), Ispl(gamma=gamma)) for gamma in GAMMAS}
    noise = NoiseConfig("symmetric", max(RATES), "task")
    found = {}
    for name, method in {"eigen-reptile": EigenReptile(), **tries}.items():
        cell = replace(standard(Glyphs(), method), task=TASK, noise=noise)
        found[name] = tuning(cell, 250, cell.inner.lr, cell.meta.lr)
    return found


def _in_full(name: str, data: Dataset) -> Experiment:
    """The authors' noisy runs: 10,000 iterations, the best of which is kept, at an inner rate of 0.001."""
    cell = in_full(standard(data, METHODS[name]))
    if name in OTHERS:
        return _with_more_shots(cell)
    return replace(
        cell,
        task=TASK,
        inner=replace(cell.inner, steps=7, lr=0.001),
        meta=replace(cell.meta, steps=10_000, keep="best"),
        evaluation=replace(cell.evaluation, every=500, shots=(1,)),
    )


def _published() -> dict[tuple[str, int], Published]:
    """Table 3, which gives no intervals."""
    ends = ("p0", "s10", "as10", "s20", "as20", "s50", "as50")
    rows = {
        "reptile": (47.64, 46.08, 47.30, 43.49, 45.51, 23.33, 42.03),
        "reptile-ispl": (47.23, 46.50, 47.00, 43.70, 45.42, 21.83, 41.09),
        "eigen-reptile": (47.87, 47.18, 47.42, 45.01, 46.50, 27.23, 42.29),
        "eigen-reptile-ispl": (47.26, 47.20, 47.24, 45.49, 46.83, 28.68, 43.71),
        "eigen-reptile-ispl-paper": (47.26, 47.20, 47.24, 45.49, 46.83, 28.68, 43.71),
    }
    return {
        (f"{name}-{end}", 1): Published(mean, None)
        for name, means in rows.items()
        for end, mean in zip(ends, means, strict=True)
    }


def _cells(scale: Scale) -> dict[str, Experiment]:
    """Two cores do CIFAR-FS instead of mini-ImageNet."""
    data = MiniImagenet() if scale == "full" else CifarFs()
    return cells_under(noises(), (*TABLE_3, *ROBUST, *OTHERS), data, scale)


NOISY = Recipe(
    "Table 3: wrong labels in training, symmetric and asymmetric, with and without ISPL, 5-way.", _cells, _published()
)
