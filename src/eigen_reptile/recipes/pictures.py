"""What the recipes on pictures have in common: section 5.2's protocol, in full and for two cores."""

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from eigen_reptile.config import Experiment, standard
from eigen_reptile.data import Dataset
from eigen_reptile.methods import METHODS
from eigen_reptile.recipes.recipe import Scale

PAIR = ("reptile", "eigen-reptile-paper", "eigen-reptile-authors")
INNER_RATES = (0.001, 0.002, 0.004)
OUTER_STEPS = (0.5, 1.0, 2.0)
USUAL_RATE, USUAL_STEP = 0.002, 1.0


class Rates(NamedTuple):
    """What was chosen for a method on validation tasks at the scale `tune`."""

    inner: float
    outer: float


class Small(NamedTuple):
    """A data set at the scale of two cores."""

    steps: int
    tuning_steps: int
    seeds: tuple[int, ...]
    tasks: int
    """Validation and test tasks in the end."""
    monitor_tasks: int
    """Validation tasks while training, at six points of it."""
    rates: Mapping[str, Rates]


def full(experiment: Experiment) -> Experiment:
    """The paper's protocol: 100,000 iterations, inner rate 0.0005; Reptile as its own authors ran it."""
    reptile = experiment.method == METHODS["reptile"]
    return replace(
        experiment,
        inner=replace(experiment.inner, steps=8 if reptile else 7, lr=0.001 if reptile else 0.0005),
        meta=replace(experiment.meta, steps=100_000),
        evaluation=replace(experiment.evaluation.by_authors(), every=5000, monitor_tasks=200),
        seeds=(0, 1, 2),
    )


def cells_of(data: Dataset, small: Small, scale: Scale) -> dict[str, Experiment]:
    """Reptile and both forms of Eigen-Reptile on a data set, at one of the scales."""
    return scaled({name: standard(data, METHODS[name]) for name in PAIR}, small, scale)


def scaled(cells: Mapping[str, Experiment], small: Small, scale: Scale) -> dict[str, Experiment]:
    """Experiments, named after their methods, at one of the scales."""
    if scale == "full":
        return {name: full(cell) for name, cell in cells.items()}
    if scale == "tune":
        return {f"{name}-{rate:g}": tuning(cell, small, rate) for name, cell in cells.items() for rate in INNER_RATES}
    return {name: shrunk(cell, small, small.rates[name]) for name, cell in cells.items()}


def shrunk(experiment: Experiment, small: Small, rates: Rates) -> Experiment:
    """The paper's protocol at the scale of two cores, with a method's own rates."""
    return replace(
        experiment,
        inner=replace(experiment.inner, lr=rates.inner),
        meta=replace(experiment.meta, steps=small.steps, lr=(rates.outer,)),
        evaluation=replace(
            experiment.evaluation,
            tasks=small.tasks,
            monitor_tasks=small.monitor_tasks,
            every=max(1, small.steps // 6),
        ),
        seeds=small.seeds,
    )


def tuning(experiment: Experiment, small: Small, inner_rate: float) -> Experiment:
    """A short run with one inner rate; at the usual one, all outer steps are tried. The test tasks are not touched.

    So each method gets the same five tries: three inner rates at the usual outer step, and three outer steps at
    the usual inner rate.
    """
    outer = OUTER_STEPS if inner_rate == USUAL_RATE else (USUAL_STEP,)
    evaluation = replace(
        experiment.evaluation, tasks=150, monitor_tasks=10, every=small.tuning_steps, shots=(1,), test=False
    )
    return replace(
        experiment,
        inner=replace(experiment.inner, lr=inner_rate),
        meta=replace(experiment.meta, steps=small.tuning_steps, lr=outer, keep="last"),
        evaluation=evaluation,
    )
