"""Table 3: wrong labels in meta-training (paper, section 5.3)."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from eigen_reptile.data import CifarFs, Dataset, Glyphs, MiniImagenet
from eigen_reptile.methods import METHODS, EigenReptile, Ispl, WithSampleSelection
from eigen_reptile.noise import NoiseConfig
from eigen_reptile.recipes import published
from eigen_reptile.recipes.all_methods import FILTERS
from eigen_reptile.recipes.cifar_fs import SMALL as CIFAR_SMALL
from eigen_reptile.recipes.recipe import PublishedAccuracy, Recipe, Scale
from eigen_reptile.recipes.scales import LearningRates, SmallScale, published_protocol, scaled_down, tuning_run
from eigen_reptile.tasks import TaskConfig
from eigen_reptile.training.config import Experiment
from eigen_reptile.training.presets import preset

TABLE_3 = (
    "reptile",
    "reptile-ispl",
    "eigen-reptile",
    "eigen-reptile-ispl",
    "eigen-reptile-ispl-paper",
    "eigen-reptile-spl",
)
"""The methods of table 3, and plain self-paced learning."""
ROBUST_LOSS = ("reptile-gce", "eigen-reptile-gce")
"""A common first remedy: a loss on which wrong labels have less influence."""
OTHER_METHODS = {"maml": 220, "prototypical": 2000, "metal": 90}
"""Methods with presets of their own, and the iterations that each does on CIFAR-FS in the time of Reptile's."""
OTHER_SHOTS = 5
"""Training shots of the other methods. With one shot, wrong labels would leave many classes without a clean sample;
with 30, each step would be too slow."""
NOISE_RATES = (0.1, 0.2, 0.5)
TASK = TaskConfig(way=5, shots=30)
SMALL = CIFAR_SMALL._replace(steps=2000, seeds=(0,))
LEARNING_RATES = LearningRates(0.002, 1.0)
"""The same for all methods of table 3. The best rates without noise are twice as large, and did worse with half of the
labels wrong (results/noisy-clean-rates)."""
GAMMAS = (0.8, 1.0, 1.2)
"""Candidate thresholds of ISPL, in units of the chance loss; short runs on validation tasks choose among them."""


def noise_settings() -> dict[str, NoiseConfig]:
    """By the suffix of a cell's name: no noise, symmetric noise within each task, or asymmetric noise in the bank."""
    settings = {"p0": NoiseConfig()}
    for rate in NOISE_RATES:
        settings[f"s{100 * rate:.0f}"] = NoiseConfig("symmetric", rate, "task")
        # A chain through the classes, because the authors' script moves their files in this way.
        settings[f"as{100 * rate:.0f}"] = NoiseConfig("asymmetric", rate, "bank", last="chain")
    return settings


def noisy_cells(
    settings: Mapping[str, NoiseConfig], names: Sequence[str], data: Dataset, scale: Scale, small: SmallScale = SMALL
) -> dict[str, Experiment]:
    """Every method under every noise, evaluated on the same tasks; those of table 3 also get the same wrong labels."""
    if scale == "tune":
        return _gamma_search()
    make = _full_cell if scale == "full" else partial(_small_cell, small)
    return {
        f"{name}-{suffix}": replace(make(name, data), noise=noise)
        for suffix, noise in settings.items()
        for name in names
    }


def _small_cell(small: SmallScale, name: str, data: Dataset) -> Experiment:
    cell = preset(data, METHODS[name], FILTERS)
    if name in OTHER_METHODS:
        steps = small.steps * OTHER_METHODS[name] // SMALL.steps
        return scaled_down(_with_more_shots(cell), small._replace(steps=steps))
    return scaled_down(replace(cell, task=TASK), small, LEARNING_RATES)


def _with_more_shots(cell: Experiment) -> Experiment:
    return replace(cell, task=replace(cell.task, shots=OTHER_SHOTS))


def _gamma_search() -> dict[str, Experiment]:
    """Eigen-Reptile with ISPL for each candidate gamma, and without ISPL, at the highest noise rate.

    On glyphs, because with half of the labels wrong a short run on CIFAR-FS learns too little to show any difference.
    """
    candidates = {
        f"eigen-reptile-ispl-{gamma:g}": WithSampleSelection(EigenReptile(), Ispl(gamma=gamma)) for gamma in GAMMAS
    }
    noise = NoiseConfig("symmetric", max(NOISE_RATES), "task")
    cells = {}
    for name, method in {"eigen-reptile": EigenReptile(), **candidates}.items():
        cell = replace(preset(Glyphs(), method), task=TASK, noise=noise)
        cells[name] = tuning_run(cell, 250, cell.inner.lr, cell.meta.lr)
    return cells


def _full_cell(name: str, data: Dataset) -> Experiment:
    """The authors' noisy runs: 10,000 iterations at an inner rate of 0.001, and the best initialisation is kept."""
    cell = published_protocol(preset(data, METHODS[name]))
    if name in OTHER_METHODS:
        return _with_more_shots(cell)
    return replace(
        cell,
        task=TASK,
        inner=replace(cell.inner, steps=7, lr=0.001),
        meta=replace(cell.meta, steps=10_000, keep="best"),
        evaluation=replace(cell.evaluation, every=500, shots=(1,)),
    )


def _published() -> dict[tuple[str, int], PublishedAccuracy]:
    """Table 3 for the cells of Reptile and Eigen-Reptile; both forms of ISPL stand beside the paper's row."""
    rows = {name: name for name in ("reptile", "reptile-ispl", "eigen-reptile", "eigen-reptile-ispl")}
    rows["eigen-reptile-ispl-paper"] = "eigen-reptile-ispl"
    cells = {f"{name}-{noise}": f"{row}-{noise}" for name, row in rows.items() for noise in published.NOISES}
    return published.accuracies_by_cell(published.NOISY_MINI_IMAGENET, cells)


def _cells(scale: Scale) -> dict[str, Experiment]:
    """On mini-ImageNet at full scale; on CIFAR-FS where two cores have to suffice."""
    data = MiniImagenet() if scale == "full" else CifarFs()
    return noisy_cells(noise_settings(), (*TABLE_3, *ROBUST_LOSS, *OTHER_METHODS), data, scale)


NOISY = Recipe(
    "Table 3: wrong labels in training, symmetric and asymmetric, with and without ISPL, 5-way.", _cells, _published()
)
