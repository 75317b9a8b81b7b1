"""Section 5.2's protocol for image classification, at the paper's scale and at one that two cores can do."""

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from eigen_reptile.data import Dataset
from eigen_reptile.methods import METHODS
from eigen_reptile.nn import Conv4
from eigen_reptile.recipes.recipe import Scale
from eigen_reptile.training.config import Experiment
from eigen_reptile.training.presets import image_preset, preset

COMPARED_METHODS = ("reptile", "eigen-reptile-paper", "eigen-reptile-authors")
"""The methods of tables 1 and 2: Reptile, and Eigen-Reptile as in the paper and as in the authors' code."""


class LearningRates(NamedTuple):
    """The learning rates of a method, as chosen on validation tasks at the scale `tune`."""

    inner: float
    outer: float


class SearchRound(NamedTuple):
    """A round of short runs that search for learning rates on validation tasks; the same for every method."""

    steps: int
    """Outer iterations of each run."""
    grid: Mapping[float, tuple[float, ...]]
    """The outer learning rates tried with each inner learning rate."""
    suffix: str = ""
    """Appended to the names of the cells; tells rounds apart."""


WIDE_GRID = {0.001: (1.0,), 0.002: (0.5, 1.0, 2.0), 0.004: (1.0,)}
"""The grid of every first round."""


class SmallScale(NamedTuple):
    """The settings of a data set at the scale `small`."""

    steps: int
    """Outer iterations."""
    search: tuple[SearchRound, ...]
    """The rounds at the scale `tune`."""
    seeds: tuple[int, ...]
    tasks: int
    """Tasks in the final validation and in the test."""
    monitor_tasks: int
    """Validation tasks during training, which are evaluated six times."""
    rates: Mapping[str, LearningRates]
    """The learning rates that the search found, by method."""


def paper_protocol(experiment: Experiment) -> Experiment:
    """Section 5.2's protocol: 100,000 iterations at an inner rate of 0.0005; Reptile as its own authors ran it."""
    reptile = experiment.method == METHODS["reptile"]
    return replace(
        experiment,
        inner=replace(experiment.inner, steps=8 if reptile else 7, lr=0.001 if reptile else 0.0005),
        meta=replace(experiment.meta, steps=100_000),
        evaluation=replace(experiment.evaluation.authors_protocol(), every=5000, monitor_tasks=200),
        seeds=(0, 1, 2),
    )


def published_protocol(experiment: Experiment) -> Experiment:
    """The experiment as published: by the paper for Reptile, Eigen-Reptile and their variants, else by its own authors.

    Other methods get as many iterations as their authors used. The outer rate is constant, as most of them had it.
    Methods without an inner loop use running statistics in batch-norm.
    """
    in_paper, own = paper_protocol(experiment), image_preset(experiment.method)
    if own is None:
        return in_paper
    on_this_data = (own.on_characters if experiment.data.has_characters else None) or own
    rate = own.full_outer_lr or own.outer_lr
    needs = experiment.method.requirements
    meta = replace(experiment.meta, steps=own.iterations, batch=on_this_data.tasks, lr=(rate,), final_lr=rate)
    task = replace(experiment.task, queries=on_this_data.queries if needs.queries else 0)
    evaluation = replace(
        in_paper.evaluation.field_protocol(),
        inner_steps=experiment.evaluation.inner_steps,
        batch=experiment.evaluation.batch,
    )
    model = experiment.model
    if not needs.inner_loop:
        assert isinstance(model, Conv4)
        model = replace(model, statistics="running")
    return replace(in_paper, model=model, task=task, inner=experiment.inner, meta=meta, evaluation=evaluation)


def compared_cells(data: Dataset, small: SmallScale, scale: Scale) -> dict[str, Experiment]:
    """Reptile and both forms of Eigen-Reptile on a data set, at one of the scales."""
    return at_scale({name: preset(data, METHODS[name]) for name in COMPARED_METHODS}, small, scale)


def at_scale(cells: Mapping[str, Experiment], small: SmallScale, scale: Scale) -> dict[str, Experiment]:
    """Experiments, named after their methods, at one of the scales."""
    if scale == "full":
        return {name: paper_protocol(cell) for name, cell in cells.items()}
    if scale == "tune":
        return {
            f"{name}-{inner:g}{search.suffix}": tuning_run(cell, search.steps, inner, outer)
            for search in small.search
            for name, cell in cells.items()
            for inner, outer in search.grid.items()
        }
    return {name: scaled_down(cell, small, small.rates[name]) for name, cell in cells.items()}


def scaled_down(experiment: Experiment, small: SmallScale, rates: LearningRates | None = None) -> Experiment:
    """The experiment at the scale `small`, with these learning rates; None: with its own, which were not tuned."""
    inner_lr, outer_lr = rates or (experiment.inner.lr, experiment.meta.lr[0])
    return replace(
        experiment,
        inner=replace(experiment.inner, lr=inner_lr),
        meta=replace(experiment.meta, steps=small.steps, lr=(outer_lr,)),
        evaluation=replace(
            experiment.evaluation,
            tasks=small.tasks,
            monitor_tasks=small.monitor_tasks,
            every=-(-small.steps // 6),
        ),
        seeds=small.seeds,
    )


def tuning_run(experiment: Experiment, steps: int, inner_lr: float, outer_lrs: tuple[float, ...]) -> Experiment:
    """A short run that tries several outer learning rates with one inner rate, without evaluating test tasks."""
    evaluation = replace(experiment.evaluation, tasks=150, monitor_tasks=10, every=steps, shots=(1,), test=False)
    return replace(
        experiment,
        inner=replace(experiment.inner, lr=inner_lr),
        meta=replace(experiment.meta, steps=steps, lr=outer_lrs, keep="last"),
        evaluation=evaluation,
    )
