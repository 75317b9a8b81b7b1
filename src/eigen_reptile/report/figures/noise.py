"""Figures of label noise."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from eigen_reptile.report.figures.canvas import new_figure, save_figure
from eigen_reptile.runtime.text import printable

LONGEST = 40
"""Characters of a class name that fit beside a figure."""


def plot_transition_matrix(names: Sequence[str], counts: np.ndarray, path: Path) -> None:
    """The class-transition matrix: how often each true class has each given label, in per cent of the true class."""
    side = min(max(3.5, 0.16 * len(names)), 14.0)
    figure = new_figure(side + 1.5, side)
    axes = figure.subplots()
    shares = 100 * counts / np.maximum(counts.sum(1, keepdims=True), 1)
    image = axes.imshow(shares, cmap="viridis", vmin=0)
    figure.colorbar(image, ax=axes, label="% of the true class")
    labels = [printable(f"{name[:LONGEST]}..." if len(name) > LONGEST else name) for name in names]
    axes.set_xticks(range(len(names)), labels, rotation=90, fontsize=6, parse_math=False)
    axes.set_yticks(range(len(names)), labels, fontsize=6, parse_math=False)
    axes.set_xlabel("given label")
    axes.set_ylabel("true class")
    save_figure(figure, path)
