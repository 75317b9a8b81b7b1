"""Figures, as files. matplotlib is used without its global state, so nothing needs a screen."""

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from scipy.special import stdtrit

from eigen_reptile.bench import Figures
from eigen_reptile.files import write_atomically
from eigen_reptile.report.collect import Cell, Group, shots_and_columns
from eigen_reptile.theory import Panel

STYLES = ("-", "-", "-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)))

OURS = ("reptile", "eigen-reptile", "main_direction", "two workers", "transductive")
"""What the names of this library's contenders in a benchmark begin with."""

ENOUGH_SEEDS = 3
"""Of fewer, an interval is so wide that it hides everything else."""


def learning_curves(group: Group, path: Path) -> None:
    """Validation score over the iterations, one line for each cell, with the seeds behind it."""
    many = len(group.converged) > 10
    figure = _figure(11.0, 7.0) if many else _figure(8.0, 5.0)
    axes = figure.subplots()
    in_per_cent = group.measure == "accuracy"
    for number, cell in enumerate(group.converged):
        steps, scores = cell.learning_curve()
        scores = 100 * scores if in_per_cent else scores
        mean = scores.mean(1)
        label = f"{cell.name} (outer step {cell.result['choice']['lr']:g})"
        style = _one_of_many(number) if many else {"color": f"C{number}", "ls": STYLES[number % len(STYLES)]}
        axes.plot(steps, mean, label=label, **style)
        if scores.shape[1] < ENOUGH_SEEDS:
            axes.plot(steps, scores, color=f"C{number}", lw=0.6, alpha=0.6)
            continue
        half = _half_width(scores)
        # Errors have a logarithmic axis, on which an interval cannot reach zero.
        low = mean - half if in_per_cent else np.maximum(mean - half, 1e-3)
        axes.fill_between(steps, low, mean + half, color=f"C{number}", alpha=0.2, lw=0)
    axes.set_title("Validation while training: mean over seeds, with its 95 % interval or, if few, each seed")
    if not in_per_cent:
        axes.set_yscale("log")
    _label(axes, "outer iteration", "accuracy, %" if in_per_cent else "squared error after the last inner step")
    if many:
        _names_beside(axes)
    _save(figure, path)


def accuracy_over_time(cells: Sequence[Cell], path: Path) -> None:
    """Validation accuracy against the seconds of training, one line for each cell, the best at its end first."""
    figure = _figure(9.0, 6.0)
    axes = figure.subplots()
    ranked = sorted(cells, key=lambda cell: cell.learning_curve()[1][-1].mean(), reverse=True)
    for number, cell in enumerate(ranked):
        _, scores = cell.learning_curve()
        axes.plot(cell.training_seconds or [], 100 * scores.mean(1), label=cell.name, **_one_of_many(number))
    axes.set_title("Validation while training, mean over seeds")
    _label(axes, "seconds of training", "accuracy, %")
    _names_beside(axes)
    _save(figure, path)


def accuracy_over_noise(lines: Mapping[str, Sequence[tuple[float, Cell]]], shots: int, column: str, path: Path) -> None:
    """Test accuracy against the rate of wrong labels, one line for each method, with 95 % intervals over tasks."""
    figure = _figure(8.0, 4.5)
    axes = figure.subplots()
    for number, (name, points) in enumerate(lines.items()):
        tests = [(rate, next(test for test in cell.tests if test["shots"] == shots)) for rate, cell in points]
        place = tests[0][1]["columns"].index(column)
        axes.errorbar(
            # A little apart, so that no interval hides another.
            [rate + 0.004 * number for rate, _ in tests],
            [100 * test["mean"][place] for _, test in tests],
            [100 * test["ci95_tasks"][place] for _, test in tests],
            marker="o", capsize=3, label=name, **_one_of_many(number),
        )  # fmt: skip
    highest = max(rate for points in lines.values() for rate, _ in points)
    axes.set_xlim(-0.02, highest + 0.05)  # from no noise on, even if only one rate was run
    axes.set_title(f"{shots}-shot, {column}")
    _label(axes, "rate of wrong labels in training", "accuracy on test tasks, %")
    _names_beside(axes)
    _save(figure, path)


def study_panels(panels: Sequence[Panel], path: Path) -> None:
    """The panels of a study side by side, two in a row."""
    rows = -(-len(panels) // 2)
    figure = _figure(10.0, 3.8 * rows)
    places = figure.subplots(rows, 2, squeeze=False).flatten()
    for unused in places[len(panels) :]:
        unused.set_axis_off()
    for axes, panel in zip(places, panels, strict=False):
        for number, (name, x, y, half) in enumerate(panel.lines):
            axes.errorbar(x, y, half, color=f"C{number}", marker="o", capsize=3, label=name)
        if panel.logarithmic:
            axes.set_xscale("log")
            axes.set_xticks(panel.lines[0].x, [f"{x:g}" for x in panel.lines[0].x])
            axes.set_xticks([], minor=True)
        axes.set_title(panel.title)
        _label(axes, panel.x, panel.y)
    _save(figure, path)


def transitions(names: Sequence[str], counts: np.ndarray, path: Path) -> None:
    """How often each class was told as each: shares of the true class, in per cent."""
    side = min(max(3.5, 0.16 * len(names)), 14.0)
    figure = _figure(side + 1.5, side)
    axes = figure.subplots()
    shares = 100 * counts / np.maximum(counts.sum(1, keepdims=True), 1)
    image = axes.imshow(shares, cmap="viridis", vmin=0)
    figure.colorbar(image, ax=axes, label="% of the true class")
    axes.set_xticks(range(len(names)), names, rotation=90, fontsize=6)
    axes.set_yticks(range(len(names)), names, fontsize=6)
    axes.set_xlabel("told as")
    axes.set_ylabel("true class")
    _save(figure, path)


def accuracy_over_inner_steps(cells: Sequence[Cell], path: Path) -> None:
    """Test accuracy against the number of inner steps in training, with 95 % intervals over tasks."""
    figure = _figure(7.0, 4.5)
    axes = figure.subplots()
    for number, (shots, column) in enumerate(shots_and_columns(cells)):
        tested = [
            (cell.experiment.inner.steps, test) for cell in cells for test in cell.tests if test["shots"] == shots
        ]
        steps = [at for at, _ in tested]
        place = tested[0][1]["columns"].index(column)
        means = [100 * test["mean"][place] for _, test in tested]
        halves = [100 * (test["ci95_tasks"][place] or 0) for _, test in tested]  # a single task has none
        style = "-" if column == "transductive" else "--"
        axes.errorbar(
            steps, means, halves, marker="o", capsize=3, ls=style, color=f"C{number}", label=f"{shots}-shot, {column}"
        )
    axes.set_title("Inner steps in training, and accuracy on test tasks")
    _label(axes, "inner steps", "accuracy, %")
    _save(figure, path)


def example_task(examples: Mapping[str, Mapping[str, np.ndarray]], path: Path) -> None:
    """One task: a support picture of each class, and queries with what each method takes them for."""
    first = next(iter(examples.values()))
    way = len(first["support"])
    rows = 1 + len(first["query"]) // way
    figure = _figure(1.5 * way, (1.1 + 0.22 * len(examples)) * rows + 0.5)
    grid = figure.subplots(rows, way, squeeze=False)
    for axes in grid.flat:
        axes.set_axis_off()
    for label, (axes, picture) in enumerate(zip(grid[0], first["support"], strict=True)):
        _show(axes, picture)
        axes.set_title(f"class {label + 1}: support", fontsize="small")
    for number, (picture, truth) in enumerate(zip(first["query"], first["query_y"], strict=True)):
        axes = grid[1 + number % (rows - 1)][truth]
        _show(axes, picture)
        for line, (method, example) in enumerate(examples.items()):
            said = int(example["predicted"][number])
            right = said == truth
            words = f"{method}: {said + 1} {'right' if right else 'wrong'}"
            height = 1.04 + 0.17 * (len(examples) - 1 - line)
            colour = "tab:green" if right else "tab:red"
            axes.text(0.5, height, words, color=colour, fontsize=6, ha="center", transform=axes.transAxes)
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
    axes.set_yscale("log")
    axes.set_title("The same grid of outer step sizes for every direction")
    _label(axes, "outer step size", "validation error after training")
    axes.set_ylim(top=10 * max(cell.learning_curve()[1][0].mean() for cell in cells if cell.converged))
    _save(figure, path)


def speeds(measured: Figures, path: Path) -> None:
    """How fast each contender is, from its slowest turn to its fastest; one panel for each group.

    Where every group has one contender, as that of all methods, they are compared with each other, in one panel.
    """
    names = [str(row[0]) for row in measured.rows]
    alone = len(set(names)) == len(names)
    groups = (
        {"": measured.rows} if alone else {name: [row for row in measured.rows if row[0] == name] for name in names}
    )
    heights = [0.5 + 0.24 * len(rows) for rows in groups.values()]
    figure = _figure(7.0, 0.6 + sum(heights))
    panels = figure.subplots(len(groups), 1, squeeze=False, height_ratios=heights)[:, 0]
    for axes, (group, rows) in zip(panels, groups.items(), strict=True):
        medians, slowest, fastest = (np.array([float(row[place]) for row in rows]) for place in (2, 3, 4))
        colours = ["tab:blue" if alone or str(row[1]).startswith(OURS) else "0.7" for row in rows]
        axes.barh(range(len(rows)), medians, xerr=[medians - slowest, fastest - medians], color=colours, capsize=2)
        axes.set_yticks(range(len(rows)), [str(row[1]) for row in rows], fontsize="small")
        axes.invert_yaxis()
        axes.set_title(group, fontsize="small", loc="left")
        axes.grid(alpha=0.3, axis="x")
    panels[-1].set_xlabel("per second: median, slowest and fastest turn")
    _save(figure, path)


def scaling(measured: Figures, path: Path) -> None:
    """The cost of an iteration against each of the numbers that it depends on, and what Eigen-Reptile adds to it."""
    kinds = dict.fromkeys(str(row[0]) for row in measured.rows)
    figure = _figure(4.0 * len(kinds), 4.8)
    panels = figure.subplots(2, len(kinds), squeeze=False, sharex="col", height_ratios=(3, 1))
    for cost, added, kind in zip(*panels, kinds, strict=True):
        rows = [row for row in measured.rows if row[0] == kind]
        numbers = [float(row[1]) for row in rows]
        for place, name in ((2, "Reptile"), (3, "Eigen-Reptile")):
            cost.plot(numbers, [float(row[place]) for row in rows], marker="o", ms=4, label=name)
        cost.set_xlim(left=0)
        cost.set_ylim(bottom=0)
        _label(cost, "", "ms an iteration")
        added.axhline(0, color="black", lw=0.5)
        added.plot(numbers, [float(row[4]) for row in rows], "o-", ms=4, color="tab:orange", label="Eigen-Reptile adds")
        _label(added, kind, "%")
    _save(figure, path)


def _label(axes: Axes, x: str, y: str) -> None:
    """Names for the axes, and a grid to read them by."""
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.grid(alpha=0.3, which="both")
    axes.legend(fontsize="small")


def _one_of_many(number: int) -> dict[str, Any]:
    """A colour and a dash that no other of thirty lines has."""
    return {"color": f"C{number % 10}", "ls": ("-", "--", ":")[number // 10 % 3]}


def _names_beside(axes: Axes) -> None:
    """Where many of them hide no line."""
    axes.legend(fontsize="small", loc="upper left", bbox_to_anchor=(1, 1))


def _show(axes: Axes, picture: np.ndarray) -> None:
    """A picture (C, H, W) of bytes."""
    shown = np.moveaxis(picture, 0, -1)
    axes.imshow(shown if shown.shape[-1] == 3 else shown[..., 0], cmap="gray", vmin=0, vmax=255)


def _half_width(errors: np.ndarray) -> np.ndarray:
    """Half of the 95 % interval over the seeds, the columns."""
    seeds = errors.shape[1]
    spread: np.ndarray = float(stdtrit(seeds - 1, 0.975)) * errors.std(1, ddof=1) / np.sqrt(seeds)
    return spread


def _figure(width: float, height: float) -> Figure:
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def _save(figure: Figure, path: Path) -> None:
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=110, metadata={"Software": None})
    write_atomically(path, picture.getvalue())
