"""The tables of the report on experiments."""

import math
from collections.abc import Mapping, Sequence

from eigen_reptile.data import Sine
from eigen_reptile.recipes import PublishedAccuracy
from eigen_reptile.report.collect import Cell, Group, shots_and_columns
from eigen_reptile.report.table import Table
from eigen_reptile.training.result import MeasureScores

MAX_PLAIN_SCORE = 1000
"""Scores from here on are shown in scientific notation."""


def format_score(measure: str, mean: float | None, half_width: float | None) -> str:
    """A score with its interval: accuracies in per cent, errors as they are."""
    if mean is None or math.isnan(mean):
        return "not finite"
    scale, digits = (100, 2) if measure == "accuracy" else (1, 4)
    return f"{scale * mean:.{digits}f}" + ("" if half_width is None else f" ± {scale * half_width:.{digits}f}")


def format_failed(scores: MeasureScores | None) -> str:
    """What follows a score if tasks failed."""
    return f", {scores.failed} of {scores.tasks} tasks failed" if scores is not None and scores.failed else ""


def format_outer_step_size(cell: Cell) -> str:
    """The chosen step size, or that all diverged."""
    return f"{cell.chosen_lr:g}" if cell.converged else "all diverge"


def format_accuracy(cell: Cell, shots: int, column: str) -> str:
    """The mean on test tasks with its interval over tasks, and over seeds if there are several."""
    scores = cell.scores(shots, column)
    if scores is None:
        return ""
    shown = format_score("accuracy", scores.mean, scores.ci95_tasks)
    seeds = "" if scores.ci95_seeds is None else f" (seeds ± {100 * scores.ci95_seeds:.2f})"
    return shown + seeds + format_failed(scores)


def format_range(values: Sequence[int]) -> str:
    """The smallest and the largest value, or the only one."""
    return " to ".join(f"{value:,}" for value in dict.fromkeys((min(values), max(values))))


def error_table(cells: Sequence[Cell]) -> Table:
    """Squared error on the test tasks after each number of inner steps, with the step size chosen on validation."""
    columns = shots_and_columns(cells)
    one_shots = len({shots for shots, _ in columns}) == 1
    measured = [column if one_shots else f"{shots}-shot, {column}" for shots, column in columns]
    headings = ["direction", "outer step size", "position in the grid", *measured, "integral after the last step"]
    return Table.of(headings, [_error_row(cell, columns) for cell in cells])


def accuracy_table(cells: Sequence[Cell], published: Mapping[tuple[str, int], PublishedAccuracy]) -> Table:
    """Accuracy on the test tasks, next to the accuracy that the paper reports."""
    columns = shots_and_columns(cells)
    published_shots = sorted({shots for shots, _ in columns if any((cell.name, shots) in published for cell in cells)})
    rows = []
    for cell in cells:
        row = [cell.name, f"{cell.experiment.inner.lr:g}", format_outer_step_size(cell)]
        row += [format_accuracy(cell, shots, column) for shots, column in columns]
        for shots in published_shots:
            paper = published.get((cell.name, shots))
            row.append(format_score("accuracy", paper.mean / 100, paper.ci95 and paper.ci95 / 100) if paper else "")
        rows.append(row)
    measured = [f"{shots}-shot, {column}" for shots, column in columns]
    in_paper = [f"paper, {shots}-shot" for shots in published_shots]
    return Table.of(["method", "inner rate", "outer step size", *measured, *in_paper], rows)


def step_size_table(cells: Sequence[Cell], heading: str = "cell") -> Table:
    """Validation score for every outer step size that was tried."""
    grid = sorted({lr for cell in cells for lr in cell.experiment.meta.lr})
    rows = []
    for cell in cells:
        tried = set(cell.experiment.meta.lr)
        inner = f"{cell.experiment.inner.lr:g}"
        rows.append([cell.name, inner, *(_validation(cell, lr) if lr in tried else "" for lr in grid)])
    return Table.of([heading, "inner rate", *(f"outer step size {lr:g}" for lr in grid)], rows)


def provenance_table(groups: Sequence[Group], heading: str = "cell") -> Table:
    """The command, the version and the environment that produced each result."""
    rows = []
    for cell in [cell for group in groups for cell in group.cells]:
        environment, exp = cell.result.environment, cell.experiment
        rows.append(
            [
                cell.name,
                f"{cell.result.steps:,}",
                " ".join(str(seed) for seed in exp.seeds),
                f"`{environment.command}`",
                f"{environment.version} ({environment.commit})",
                f"{environment.python}, {environment.torch}",
                f"{cell.result.seconds:g} s",
            ]
        )
    headings = [heading, "iterations", "seeds", "command", "version", "Python, torch", "duration of the last start"]
    return Table.of(headings, rows)


def _error_row(cell: Cell, columns: Sequence[tuple[int, str]]) -> list[str]:
    choice = cell.result.choice
    if choice is None:
        return [cell.name, "", "all diverge", *("" for _ in columns), ""]
    errors = {
        (test.shots, column): format_score("squared error", mean, half) + format_failed(test.column(column))
        for test in cell.tests
        for column, mean, half in zip(test.columns, test.mean, test.ci95_seeds, strict=True)
    }
    end, half = cell.tests[0].mean[-1], cell.tests[0].ci95_seeds[-1]
    width = cell.experiment.data.high - cell.experiment.data.low if isinstance(cell.experiment.data, Sine) else 1.0
    # The paper's integral is the mean over the grid times the width of the interval.
    integral = format_score(
        "squared error", None if end is None else width * end, None if half is None else width * half
    )
    return [cell.name, f"{choice.lr:g}", choice.position, *(errors.get(key, "") for key in columns), integral]


def _validation(cell: Cell, lr: float) -> str:
    scores, diverged = cell.final_validation(lr)
    if not scores:
        return "diverges"
    mean = sum(scores) / len(scores)
    shown = format_score(cell.result.measure, mean, None) if mean < MAX_PLAIN_SCORE else f"{mean:.1e}"
    return f"{shown} ({diverged} of {len(scores) + diverged} diverge)" if diverged else shown
