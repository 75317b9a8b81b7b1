"""Figures of benchmarks."""

from pathlib import Path

import numpy as np

from eigen_reptile.report.benchmark import BenchmarkTable
from eigen_reptile.report.figures.canvas import label_axes, new_figure, save_figure

OWN_CONTENDERS = ("reptile", "eigen-reptile", "main_direction", "two workers", "transductive")
"""How the names of this library's contenders in a benchmark begin."""


def plot_throughput(measured: BenchmarkTable, path: Path) -> None:
    """Median throughput of each contender, with its slowest and fastest turn; one panel for each group.

    If every group has a single contender, as in the benchmark of all methods, all share one panel.
    """
    names = [str(row[0]) for row in measured.rows]
    alone = len(set(names)) == len(names)
    groups = (
        {"": measured.rows} if alone else {name: [row for row in measured.rows if row[0] == name] for name in names}
    )
    heights = [0.5 + 0.24 * len(rows) for rows in groups.values()]
    figure = new_figure(7.0, 0.6 + sum(heights))
    panels = figure.subplots(len(groups), 1, squeeze=False, height_ratios=heights)[:, 0]
    for axes, (group, rows) in zip(panels, groups.items(), strict=True):
        medians, slowest, fastest = (np.array([float(row[place]) for row in rows]) for place in (2, 3, 4))
        colours = ["tab:blue" if alone or str(row[1]).startswith(OWN_CONTENDERS) else "0.7" for row in rows]
        axes.barh(range(len(rows)), medians, xerr=[medians - slowest, fastest - medians], color=colours, capsize=2)
        axes.set_yticks(range(len(rows)), [str(row[1]) for row in rows], fontsize="small")
        axes.invert_yaxis()
        axes.set_title(group, fontsize="small", loc="left")
        axes.grid(alpha=0.3, axis="x")
    panels[-1].set_xlabel("per second: median, slowest and fastest turn")
    save_figure(figure, path)


def plot_scaling(measured: BenchmarkTable, path: Path) -> None:
    """Duration of an iteration against each quantity that it depends on, and the overhead of Eigen-Reptile."""
    quantities = dict.fromkeys(str(row[0]) for row in measured.rows)
    figure = new_figure(4.0 * len(quantities), 4.8)
    panels = figure.subplots(2, len(quantities), squeeze=False, sharex="col", height_ratios=(3, 1))
    for cost, overhead, quantity in zip(*panels, quantities, strict=True):
        rows = [row for row in measured.rows if row[0] == quantity]
        values = [float(row[1]) for row in rows]
        for place, name in ((2, "Reptile"), (3, "Eigen-Reptile")):
            cost.plot(values, [float(row[place]) for row in rows], marker="o", ms=4, label=name)
        cost.set_xlim(left=0)
        cost.set_ylim(bottom=0)
        label_axes(cost, "", "ms per iteration")
        overhead.axhline(0, color="black", lw=0.5)
        percent = [float(row[4]) for row in rows]
        overhead.plot(values, percent, "o-", ms=4, color="tab:orange", label="overhead of Eigen-Reptile")
        label_axes(overhead, quantity, "%")
    save_figure(figure, path)
