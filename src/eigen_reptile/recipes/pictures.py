"""What the recipes on pictures have in common: section 5.2's protocol, in full and for two cores."""

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from eigen_reptile.config import Experiment, standard
from eigen_reptile.data import Dataset
from eigen_reptile.methods import METHODS
from eigen_reptile.models import Conv4
from eigen_reptile.recipes.recipe import Scale

PAIR = ("reptile", "eigen-reptile-paper", "eigen-reptile-authors")


class Rates(NamedTuple):
    """What was chosen for a method on validation tasks at the scale `tune`."""

    inner: float
    outer: float


class Round(NamedTuple):
    """Short runs that look for rates on validation tasks; every method gets the same."""

    steps: int
    tries: Mapping[float, tuple[float, ...]]
    """Inner rates, and the outer steps tried with each."""
    suffix: str = ""
    """Of the cells' names, where there are several rounds."""


WIDE = {0.001: (1.0,), 0.002: (0.5, 1.0, 2.0), 0.004: (1.0,)}


class Small(NamedTuple):
    """A data set at the scale of two cores."""

    steps: int
    search: tuple[Round, ...]
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


def in_full(experiment: Experiment) -> Experiment:
    """The paper's protocol for Reptile, Eigen-Reptile and what is built on them.

    The others have their own, for as many iterations as their authors had; most of them kept the outer rate too. Where
    nothing is adapted, batch-norm goes by running statistics.
    """
    longer, own = full(experiment), experiment.method.suggests
    if own is None:
        return longer
    there = (own.characters if experiment.data.characters else None) or own
    rate = own.long_lr or own.outer_lr
    meta = replace(experiment.meta, steps=own.iterations, batch=there.tasks, lr=(rate,), final_lr=rate)
    task = replace(experiment.task, queries=there.queries if experiment.method.wants_queries else 0)
    evaluation = replace(
        longer.evaluation.by_field(), after=experiment.evaluation.after, batch=experiment.evaluation.batch
    )
    model = experiment.model
    if not experiment.method.has_inner_loop:
        assert isinstance(model, Conv4)
        model = replace(model, statistics="running")
    return replace(longer, model=model, task=task, inner=experiment.inner, meta=meta, evaluation=evaluation)


def cells_of(data: Dataset, small: Small, scale: Scale) -> dict[str, Experiment]:
    """Reptile and both forms of Eigen-Reptile on a data set, at one of the scales."""
    return scaled({name: standard(data, METHODS[name]) for name in PAIR}, small, scale)


def scaled(cells: Mapping[str, Experiment], small: Small, scale: Scale) -> dict[str, Experiment]:
    """Experiments, named after their methods, at one of the scales."""
    if scale == "full":
        return {name: full(cell) for name, cell in cells.items()}
    if scale == "tune":
        return {
            f"{name}-{rate:g}{search.suffix}": tuning(cell, search.steps, rate, outer)
            for search in small.search
            for name, cell in cells.items()
            for rate, outer in search.tries.items()
        }
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
            every=-(-small.steps // 6),
        ),
        seeds=small.seeds,
    )


def untuned(experiment: Experiment, small: Small) -> Experiment:
    """The same with the rates that the experiment has."""
    return shrunk(experiment, small, Rates(experiment.inner.lr, experiment.meta.lr[0]))


def tuning(experiment: Experiment, steps: int, inner_rate: float, outer_steps: tuple[float, ...]) -> Experiment:
    """A short run with one inner rate and some outer steps. The test tasks are not touched."""
    evaluation = replace(experiment.evaluation, tasks=150, monitor_tasks=10, every=steps, shots=(1,), test=False)
    return replace(
        experiment,
        inner=replace(experiment.inner, lr=inner_rate),
        meta=replace(experiment.meta, steps=steps, lr=outer_steps, keep="last"),
        evaluation=evaluation,
    )
