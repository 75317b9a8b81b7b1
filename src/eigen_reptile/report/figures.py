"""Figures, as files. matplotlib is used without its global state, so nothing needs a screen."""

import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from scipy import stats

from eigen_reptile.report.collect import Cell
from eigen_reptile.runs import write_atomically

STYLES = ("-", "-", "-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)))


def loss_of_directions(cells: Sequence[Cell], path: Path) -> None:
    """Validation error over the iterations, one line for each direction, with the 95 % interval over seeds."""
    figure = _figure(8.0, 5.0)
    axes = figure.subplots()
    for number, cell in enumerate(cells):
        steps, errors = cell.learning_curve()
        mean, half = errors.mean(1), _half_width(errors)
        label = f"{cell.name} (outer step {cell.result['choice']['lr']:g})"
        axes.plot(steps, mean, color=f"C{number}", linestyle=STYLES[number % len(STYLES)], label=label)
        axes.fill_between(steps, np.maximum(mean - half, 1e-3), mean + half, color=f"C{number}", alpha=0.2, lw=0)
    axes.set_title("Validation error of each update direction: mean and 95 % interval over seeds")
    _label_errors(axes, "outer iteration", "squared error after the last inner step")
    _save(figure, path)


def fitted_curves(cells: Sequence[Cell], path: Path) -> None:
    """Curves fitted to one task after 0 to 32 inner steps, at several outer iterations; one row for each cell."""
    columns = [picture["step"] for picture in cells[0].result["pictures"]]
    figure = _figure(3.1 * len(columns), 2.5 * len(cells) + 0.6)
    grid = figure.subplots(len(cells), len(columns), sharex=True, sharey=True, squeeze=False)
    for cell, row in zip(cells, grid, strict=True):
        after = cell.experiment.evaluation.after
        for picture, axes in zip(cell.result["pictures"], row, strict=True):
            axes.set_title(f"{cell.name}, iteration {picture['step']:,}", fontsize="small")
            if picture["curves"][0] is None:
                continue
            for number, (steps, curve) in enumerate(zip(after, picture["curves"][0], strict=True)):
                shade = "tab:blue" if number == 0 else str(0.75 * (1 - number / (len(after) - 1)))
                axes.plot(picture["x"], curve, color=shade, lw=1.2, label=f"after {steps} steps")
            axes.plot(picture["x"], picture["truth"], color="tab:green", lw=1.5, ls="--", label="true curve")
            axes.plot(*picture["support"], "x", color="tab:red", ms=5, label="shots")
    low = min(min(picture["truth"]) for cell in cells for picture in cell.result["pictures"])
    high = max(max(picture["truth"]) for cell in cells for picture in cell.result["pictures"])
    grid[0][0].set_ylim(low - 0.4 * (high - low), high + 0.4 * (high - low))
    handles, labels = grid[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), fontsize="small")
    _save(figure, path)


def step_sizes(cells: Sequence[Cell], path: Path) -> None:
    """Final validation error against the outer step size; a step size with which a seed diverged has no point.

    What lies far above the error before training is cut off: how bad a failure is says nothing.
    """
    figure = _figure(8.0, 5.0)
    axes = figure.subplots()
    for number, cell in enumerate(cells):
        found = {lr: cell.validation(lr) for lr in cell.experiment.meta.lr}
        whole = {lr: np.array(errors) for lr, (errors, diverged) in sorted(found.items()) if not diverged}
        means = [errors.mean() for errors in whole.values()]
        axes.plot(
            list(whole),
            means,
            marker="o",
            ms=4,
            color=f"C{number}",
            ls=STYLES[number % len(STYLES)],
            label=cell.name,
        )
    axes.set_xscale("log")
    axes.set_title("The same grid of outer step sizes for every direction")
    _label_errors(axes, "outer step size", "validation error after training")
    axes.set_ylim(top=10 * max(cell.learning_curve()[1][0].mean() for cell in cells if cell.converged))
    _save(figure, path)


def _label_errors(axes: Axes, x: str, y: str) -> None:
    """Errors on a logarithmic scale, with a grid to read them by."""
    axes.set_yscale("log")
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.grid(alpha=0.3, which="both")
    axes.legend(fontsize="small")


def _half_width(errors: np.ndarray) -> np.ndarray:
    """Half of the 95 % interval over the seeds, the columns; zero for a single seed."""
    seeds = errors.shape[1]
    if seeds < 2:
        return np.zeros(errors.shape[0])
    spread: np.ndarray = float(stats.t.ppf(0.975, seeds - 1)) * errors.std(1, ddof=1) / np.sqrt(seeds)
    return spread


def _figure(width: float, height: float) -> Figure:
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def _save(figure: Figure, path: Path) -> None:
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=110, metadata={"Software": None})
    write_atomically(path, picture.getvalue())
