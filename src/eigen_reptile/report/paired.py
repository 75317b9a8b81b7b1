"""Paired comparisons: both sides saw the same tasks, so only their differences matter."""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.special import stdtr

from eigen_reptile.config import Experiment, to_json
from eigen_reptile.data import Folder
from eigen_reptile.evaluate import interval95
from eigen_reptile.files import RunError, differences
from eigen_reptile.report.collect import Cell, read_cell, shots_and_columns


class Paired(NamedTuple):
    """First minus second."""

    first: float
    second: float
    difference: float
    ci95: float
    p: float
    pairs: int


class Comparison(NamedTuple):
    """Two runs by one measure, over the test tasks (each averaged over the seeds) and over the seeds."""

    shots: int
    column: str
    over_tasks: Paired
    over_seeds: Paired | None


def paired(first: np.ndarray, second: np.ndarray) -> Paired:
    """The mean difference with its 95 % interval and the p-value of the paired t-test."""
    difference, half = interval95(first - second)
    if len(first) < 2:
        p = math.nan  # a single pair decides nothing
    elif (error := float((first - second).std(ddof=1)) / math.sqrt(len(first))) > 0:
        # Not `ttest_rel`, which warns where differences are nearly the same.
        p = 2 * float(stdtr(len(first) - 1, -abs(difference) / error))
    else:
        p = float(difference == 0)  # without spread there is no doubt
    return Paired(float(first.mean()), float(second.mean()), difference, half, p, len(first))


def compare_runs(first: Path, second: Path) -> tuple[str, list[Comparison]]:
    """The measure, and two finished runs by every way in which both were tested."""
    cells = [read_cell(_result_of(folder)) for folder in (first, second)]
    if reasons := why_not_comparable(*cells):
        raise RunError(f"{first} and {second} were not tested on the same tasks: {'; '.join(reasons)}")
    found = comparisons(*cells)
    if not found:
        raise RunError(f"{first} and {second} share no measure on test tasks: were both tested?")
    return str(cells[0].result["measure"]), found


def comparisons(first: Cell, second: Cell) -> list[Comparison]:
    """Two cells by every way in which both were tested and their tasks' scores kept."""
    found = []
    for shots, column in shots_and_columns([first]):
        tasks = [cell.task_scores(shots, column) for cell in (first, second)]
        if tasks[0] is not None and tasks[1] is not None:
            found.append(
                Comparison(shots, column, paired(tasks[0], tasks[1]), _over_seeds(first, second, shots, column))
            )
    return found


def why_not_comparable(first: Cell, second: Cell) -> list[str]:
    """What sets the test tasks of two cells apart; nothing if they are the same."""
    kinds = [type(cell.experiment.data).__name__ for cell in (first, second)]
    if kinds[0] != kinds[1]:
        return [f"the data set is {kinds[1]} there and {kinds[0]} here"]  # and all that comes with it
    seen, other = (_tasks_of(cell.experiment) for cell in (first, second))
    return differences(seen, other)


def _tasks_of(exp: Experiment) -> dict[str, Any]:
    """The part of an experiment on which its test tasks depend.

    Where an official set lies is none of it; nor is how a method adapts to a task, because that is drawn afterwards.
    """
    same_for_all = replace(exp.evaluation, every=1, monitor_tasks=1, pictures=(), way=None, after=(1,), batch=1)
    value = to_json(replace(exp, evaluation=same_for_all))
    data = value["data"]
    if not isinstance(exp.data, Folder):  # elsewhere there may be other pictures, but an official set is the same
        data = {name: setting for name, setting in data.items() if name != "root"}
    noise = value["noise"] if exp.evaluation.noisy else None
    return {"data": data, "evaluation": value["evaluation"], "way": exp.tested_way, "noise": noise}


def _over_seeds(first: Cell, second: Cell, shots: int, column: str) -> Paired | None:
    """Paired over the seeds, if both have the same two or more."""
    seeds = first.experiment.seeds
    if seeds != second.experiment.seeds or len(seeds) < 2:
        return None
    scores = [_per_seed(cell.tests, shots, column) for cell in (first, second)]
    return paired(*scores)


def _per_seed(tests: Sequence[dict[str, Any]], shots: int, column: str) -> np.ndarray:
    test = next(test for test in tests if test["shots"] == shots)
    return np.array([row[test["columns"].index(column)] for row in test["per_seed"]])


def _result_of(folder: Path) -> Path:
    file = folder / "result.json"
    if not file.exists():
        raise RunError(f"there is no finished run in {folder}: it has no result.json")
    return file
