"""Figures of accuracy on test tasks, and of one task with its predictions."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import fill
from typing import NamedTuple

import numpy as np
from jaxtyping import Int, UInt8
from matplotlib.axes import Axes

from eigen_reptile.report.collect import Cell, shots_and_columns
from eigen_reptile.report.figures.canvas import (
    distinct_style,
    label_axes,
    legend_outside,
    new_figure,
    save_figure,
)


def plot_accuracy_over_noise(
    lines: Mapping[str, Sequence[tuple[float, Cell]]], where: str, shots: int, column: str, path: Path
) -> None:
    """Test accuracy against the noise rate: one line for each method, with 95 % intervals over tasks."""
    figure = new_figure(8.0, 4.5)
    axes = figure.subplots()
    for number, (name, points) in enumerate(lines.items()):
        scored = [(rate, scores) for rate, cell in points if (scores := cell.scores(shots, column)) is not None]
        axes.errorbar(
            # Shifted slightly, so that no interval hides another.
            [rate + 0.004 * number for rate, _ in scored],
            [100 * scores.mean for _, scores in scored],
            [100 * (scores.ci95_tasks or 0) for _, scores in scored],
            marker="o", capsize=3, label=name, **distinct_style(number),
        )  # fmt: skip
    highest = max(rate for points in lines.values() for rate, _ in points)
    axes.set_xlim(-0.02, highest + 0.05)  # starts at no noise even if only one rate was run
    axes.set_title(f"{shots}-shot, {column}")
    label_axes(axes, f"noise rate in {where}", "accuracy on test tasks, %")
    legend_outside(axes)
    save_figure(figure, path)


def plot_accuracy_over_inner_steps(cells: Sequence[Cell], path: Path) -> None:
    """Test accuracy against the number of inner steps in training, with 95 % intervals over tasks."""
    figure = new_figure(7.0, 4.5)
    axes = figure.subplots()
    for number, (shots, column) in enumerate(shots_and_columns(cells)):
        scored = [
            (cell.experiment.inner.steps, scores)
            for cell in cells
            if (scores := cell.scores(shots, column)) is not None
        ]
        steps = [number_of_steps for number_of_steps, _ in scored]
        means = [100 * scores.mean for _, scores in scored]
        halves = [100 * (scores.ci95_tasks or 0) for _, scores in scored]  # a single task has no interval
        style = "-" if column == "transductive" else "--"
        axes.errorbar(
            steps, means, halves, marker="o", capsize=3, ls=style, color=f"C{number}", label=f"{shots}-shot, {column}"
        )
    axes.set_title("Accuracy on test tasks against inner steps in training")
    label_axes(axes, "inner steps", "accuracy, %")
    save_figure(figure, path)


class ExampleTask(NamedTuple):
    """One task, and what one run predicted for its queries."""

    support: UInt8[np.ndarray, "way C H W"]
    """One image of each class."""
    query: UInt8[np.ndarray, "q C H W"]
    query_y: Int[np.ndarray, "q"]
    predicted: Int[np.ndarray, "q"]
    classes: Sequence[str]
    """The name of each class."""


def plot_example_task(examples: Mapping[str, ExampleTask], path: Path) -> None:
    """One task: a support image of each class, and the queries with the predictions of each run."""
    first = next(iter(examples.values()))
    way = len(first.support)
    rows = 1 + len(first.query) // way
    figure = new_figure(1.9 * way, (1.3 + 0.22 * len(examples)) * rows + 0.5)
    grid = figure.subplots(rows, way, squeeze=False)
    for axes in grid.flat:
        axes.set_axis_off()
    for axes, image, name in zip(grid[0], first.support, first.classes, strict=True):
        _show_image(axes, image)
        axes.set_title(f"{fill(_shorten(name, 40), 20)}\n(support)", fontsize="small", parse_math=False)
    for number, (image, truth) in enumerate(zip(first.query, first.query_y, strict=True)):
        axes = grid[1 + number % (rows - 1)][truth]
        _show_image(axes, image)
        for line, (run, example) in enumerate(examples.items()):
            predicted = int(example.predicted[number])
            correct = predicted == truth
            name = _shorten(example.classes[predicted], 20) if 0 <= predicted < way else "no answer"
            answer = f"{name}, {'correct' if correct else 'wrong'}"
            words = answer if len(examples) == 1 else f"{_shorten(run, 20)}: {answer}"
            height = 1.04 + 0.17 * (len(examples) - 1 - line)
            colour = "tab:green" if correct else "tab:red"
            axes.text(
                0.5, height, words, color=colour, fontsize=6, ha="center", transform=axes.transAxes, parse_math=False
            )
    save_figure(figure, path)


def _show_image(axes: Axes, image: np.ndarray) -> None:
    """Draw an image of bytes (C, H, W)."""
    shown = np.moveaxis(image, 0, -1)
    axes.imshow(shown if shown.shape[-1] == 3 else shown[..., 0], cmap="gray", vmin=0, vmax=255)


def _shorten(name: str, longest: int) -> str:
    """Without its middle if it is longer: names of similar classes often differ at the end."""
    half = longest // 2
    return name if len(name) <= longest else f"{name[: half - 1]}…{name[-half:]}"
