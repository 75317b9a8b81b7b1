"""Paired comparisons: both sides had the same tasks, so only their differences matter."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.special import stdtr

from eigen_reptile.data import Folder
from eigen_reptile.errors import RunError
from eigen_reptile.report.collect import Cell, read_cell, shots_and_columns
from eigen_reptile.runtime.files import differences
from eigen_reptile.training.config import Experiment
from eigen_reptile.training.evaluate import interval95
from eigen_reptile.training.serialise import to_json, with_absolute_paths


class PairedDifference(NamedTuple):
    """The mean of the differences between pairs, first minus second."""

    first: float
    second: float
    difference: float
    ci95: float
    """Half-width of the 95 % interval."""
    p: float
    """Two-sided p-value of the paired t-test."""
    pairs: int


class Comparison(NamedTuple):
    """Two runs by one measure, over the test tasks (each averaged over the seeds) and over the seeds."""

    shots: int
    column: str
    over_tasks: PairedDifference
    over_seeds: PairedDifference | None
    failed: tuple[int, int]
    """Tasks of each run, over all of its seeds, that failed; see `TestScores.failed`."""


def paired_difference(first: np.ndarray, second: np.ndarray) -> PairedDifference:
    """The mean difference with its 95 % interval and the p-value of the paired t-test."""
    difference, half = interval95(first - second)
    if len(first) < 2:
        p = math.nan  # a single pair has no spread to test against
    elif (error := float((first - second).std(ddof=1)) / math.sqrt(len(first))) > 0:
        # Not `ttest_rel`, which warns if all differences are nearly equal.
        p = 2 * float(stdtr(len(first) - 1, -abs(difference) / error))
    else:
        p = float(difference == 0)  # all differences are equal
    return PairedDifference(float(first.mean()), float(second.mean()), difference, half, p, len(first))


def compare_runs(first: Path, second: Path) -> tuple[str, list[Comparison]]:
    """The measure of two finished runs, and their comparisons by all shots and columns that both were tested with."""
    cells = [read_cell(_result_file(folder)) for folder in (first, second)]
    if reasons := why_not_comparable(*cells):
        raise RunError(f"{first} and {second} were not tested on the same tasks: {'; '.join(reasons)}")
    found = comparisons(*cells)
    if not found:
        raise RunError(f"{first} and {second} have no test scores in common: were both tested?")
    return cells[0].result.measure, found


def comparisons(first: Cell, second: Cell) -> list[Comparison]:
    """Comparisons of two cells by all shots and columns for which both have stored the scores of single tasks."""
    found = []
    for shots, column in shots_and_columns([first]):
        tasks = [cell.task_scores(shots, column) for cell in (first, second)]
        if tasks[0] is not None and tasks[1] is not None:
            over_tasks = paired_difference(tasks[0], tasks[1])
            over_seeds = _over_seeds(first, second, shots, column)
            failed = (_failed(first, shots, column), _failed(second, shots, column))
            found.append(Comparison(shots, column, over_tasks, over_seeds, failed))
    return found


def why_not_comparable(first: Cell, second: Cell) -> list[str]:
    """The settings by which the test tasks of two cells differ; empty if the tasks are the same."""
    origins = str(first.folder), str(second.folder)
    kinds = [type(cell.experiment.data).__name__ for cell in (first, second)]
    if kinds[0] != kinds[1]:  # then its settings differ as well
        return [f"the data set is {kinds[0]} in {origins[0]} and {kinds[1]} in {origins[1]}"]
    first_tasks, second_tasks = (_settings_of_test_tasks(cell.experiment) for cell in (first, second))
    return differences(first_tasks, second_tasks, origins)


def _settings_of_test_tasks(exp: Experiment) -> dict[str, Any]:
    """The part of an experiment on which its test tasks depend.

    The location of an official data set is not part of it, nor is how a method adapts, because mini-batches are drawn
    after the tasks.
    """
    same_for_all = replace(
        exp.evaluation, every=1, monitor_tasks=1, snapshot_steps=(), way=None, inner_steps=(1,), batch=1
    )
    value = to_json(with_absolute_paths(replace(exp, evaluation=same_for_all)))
    data = value["data"]
    if not isinstance(exp.data, Folder):  # an official data set is the same in every location, a folder is not
        data = {name: setting for name, setting in data.items() if name != "root"}
    noise = value["noise"] if exp.evaluation.noisy else None
    return {"data": data, "evaluation": value["evaluation"], "way": exp.tested_way, "noise": noise}


def _over_seeds(first: Cell, second: Cell, shots: int, column: str) -> PairedDifference | None:
    """The difference paired over seeds, if both have the same seeds, at least two."""
    seeds = first.experiment.seeds
    if seeds != second.experiment.seeds or len(seeds) < 2:
        return None
    ours, theirs = (cell.scores(shots, column) for cell in (first, second))
    return None if ours is None or theirs is None else paired_difference(ours.per_seed, theirs.per_seed)


def _failed(cell: Cell, shots: int, column: str) -> int:
    scores = cell.scores(shots, column)
    return scores.failed if scores else 0


def _result_file(folder: Path) -> Path:
    file = folder / "result.json"
    if not file.exists():
        raise RunError(f"there is no finished run in {folder}: it has no result.json")
    return file
