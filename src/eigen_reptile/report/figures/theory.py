"""Figures of studies."""

from collections.abc import Sequence
from pathlib import Path

from eigen_reptile.recipes.study import Panel
from eigen_reptile.report.figures.canvas import label_axes, new_figure, save_figure


def plot_study(panels: Sequence[Panel], path: Path) -> None:
    """The panels of a study, two in a row."""
    rows = -(-len(panels) // 2)
    figure = new_figure(10.0, 3.8 * rows)
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
        label_axes(axes, panel.x, panel.y)
    save_figure(figure, path)
