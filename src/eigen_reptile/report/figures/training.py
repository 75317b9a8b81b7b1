"""Figures of training: learning curves, step sizes, and curves fitted to a regression task."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from scipy.special import stdtrit

from eigen_reptile.report.collect import Cell, Group
from eigen_reptile.report.figures.canvas import (
    distinct_style,
    label_axes,
    legend_outside,
    line_style,
    new_figure,
    save_figure,
)

MIN_SEEDS = 3
"""With fewer seeds, an interval is so wide that it hides everything else; each seed is drawn instead."""
MAX_LINES_INSIDE = 10
"""With more lines, the legend is beside the axes."""


def plot_learning_curves(group: Group, path: Path) -> None:
    """Validation score against the outer iteration: one line for each cell, with its interval or its seeds."""
    many = len(group.converged) > MAX_LINES_INSIDE
    figure = new_figure(11.0, 7.0) if many else new_figure(8.0, 5.0)
    axes = figure.subplots()
    in_per_cent = group.measure == "accuracy"
    for number, cell in enumerate(group.converged):
        steps, scores = cell.learning_curve()
        scores = 100 * scores if in_per_cent else scores
        mean = scores.mean(1)
        label = f"{cell.name} (outer step size {cell.chosen_lr:g})"
        style = distinct_style(number) if many else line_style(number)
        axes.plot(steps, mean, label=label, **style)
        if scores.shape[1] < MIN_SEEDS:
            axes.plot(steps, scores, color=f"C{number}", lw=0.6, alpha=0.6)
            continue
        half = _half_width(scores)
        # The axis of errors is logarithmic, so the interval must stay above zero.
        low = mean - half if in_per_cent else np.maximum(mean - half, 1e-3)
        axes.fill_between(steps, low, mean + half, color=f"C{number}", alpha=0.2, lw=0)
    axes.set_title("Validation during training: mean over seeds with 95 % interval, or each seed if there are few")
    if not in_per_cent:
        axes.set_yscale("log")
    label_axes(axes, "outer iteration", "accuracy, %" if in_per_cent else "squared error after the last inner step")
    if many:
        legend_outside(axes)
    save_figure(figure, path)


def plot_accuracy_over_time(cells: Sequence[Cell], path: Path) -> None:
    """Validation accuracy against training time: one line for each cell, the best final accuracy first."""
    figure = new_figure(9.0, 6.0)
    axes = figure.subplots()
    ranked = sorted(cells, key=lambda cell: cell.learning_curve()[1][-1].mean(), reverse=True)
    for number, cell in enumerate(ranked):
        _, scores = cell.learning_curve()
        axes.plot(cell.training_seconds or [], 100 * scores.mean(1), label=cell.name, **distinct_style(number))
    axes.set_title("Validation during training, mean over seeds")
    label_axes(axes, "seconds of training", "accuracy, %")
    legend_outside(axes)
    save_figure(figure, path)


def plot_outer_step_sizes(cells: Sequence[Cell], path: Path) -> None:
    """Final validation error against the outer step size; no point where a seed diverged.

    Errors more than ten times the error before training are cut off, because the size of a failure tells nothing.
    """
    figure = new_figure(8.0, 5.0)
    axes = figure.subplots()
    for number, cell in enumerate(cells):
        scores = {lr: cell.final_validation(lr) for lr in sorted(cell.experiment.meta.lr)}
        means = {lr: np.mean(errors) for lr, (errors, diverged) in scores.items() if not diverged}
        axes.plot(list(means), list(means.values()), marker="o", ms=4, label=cell.name, **line_style(number))
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_title("Every direction with the same grid of outer step sizes")
    label_axes(axes, "outer step size", "validation error after training")
    axes.set_ylim(top=10 * max(cell.learning_curve()[1][0].mean() for cell in cells if cell.converged))
    save_figure(figure, path)


def plot_fitted_curves(cells: Sequence[Cell], path: Path) -> None:
    """Curves fitted to one task after each number of inner steps; rows are cells, columns are outer iterations."""
    columns = [snapshot.step for snapshot in cells[0].result.snapshots]
    figure = new_figure(3.1 * len(columns), 2.5 * len(cells) + 0.6)
    grid = figure.subplots(len(cells), len(columns), sharex=True, sharey=True, squeeze=False)
    for cell, row in zip(cells, grid, strict=True):
        inner_steps = cell.experiment.evaluation.inner_steps
        for snapshot, axes in zip(cell.result.snapshots, row, strict=True):
            axes.set_title(f"{cell.name}, iteration {snapshot.step:,}", fontsize="small")
            if snapshot.curves[0] is None:
                continue
            for number, (steps, curve) in enumerate(zip(inner_steps, snapshot.curves[0], strict=True)):
                shade = "tab:blue" if number == 0 else str(0.75 * (1 - number / (len(inner_steps) - 1)))
                axes.plot(snapshot.x, curve, color=shade, lw=1.2, label=f"after {steps} steps")
            axes.plot(snapshot.x, snapshot.truth, color="tab:green", lw=1.5, ls="--", label="true curve")
            axes.plot(*snapshot.support, "x", color="tab:red", ms=5, label="support")
    truths = [value for cell in cells for snapshot in cell.result.snapshots for value in snapshot.truth]
    low, high = min(truths), max(truths)
    grid[0][0].set_ylim(low - 0.4 * (high - low), high + 0.4 * (high - low))
    handles, labels = grid[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), fontsize="small")
    save_figure(figure, path)


def _half_width(errors: np.ndarray) -> np.ndarray:
    """Half-widths of the 95 % intervals over the seeds, which are the columns."""
    seeds = errors.shape[1]
    spread: np.ndarray = float(stdtrit(seeds - 1, 0.975)) * errors.std(1, ddof=1) / np.sqrt(seeds)
    return spread
