"""What all figures share. matplotlib is used without its global state, so no display is needed."""

import io
import warnings
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from eigen_reptile.errors import RunError
from eigen_reptile.runtime.files import write_atomically
from eigen_reptile.runtime.text import printable

LINE_STYLES = ("-", "-", "-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)))


def new_figure(width: float, height: float) -> Figure:
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def save_figure(figure: Figure, path: Path) -> None:
    for axes in figure.axes:
        _show_names_verbatim(axes)
    image = io.BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph")  # names in scripts that the font lacks become boxes
        warnings.simplefilter("ignore", RuntimeWarning)  # overflow, which ends in an error
        try:
            figure.savefig(image, format="png", dpi=110, metadata={"Software": None})
        except (ValueError, OverflowError) as error:
            raise RunError(f"cannot draw {path.name}, because its numbers are too large: {error}") from error
    write_atomically(path, image.getvalue())


def _show_names_verbatim(axes: Axes) -> None:
    """Show names as they are: they come from files and folders, so they may contain formulas or control characters."""
    legend = axes.get_legend()
    for text in (axes.title, *axes.texts, *(legend.get_texts() if legend else ())):
        text.set_parse_math(False)
        text.set_text("\n".join(map(printable, text.get_text().split("\n"))))


def label_axes(axes: Axes, x: str, y: str) -> None:
    """Axis labels, a grid and a legend."""
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.grid(alpha=0.3, which="both")
    axes.legend(fontsize="small")


def line_style(number: int) -> dict[str, Any]:
    """The colour and the line style of one of a few lines."""
    return {"color": f"C{number}", "ls": LINE_STYLES[number % len(LINE_STYLES)]}


def distinct_style(number: int) -> dict[str, Any]:
    """A colour and a line style that are unique among thirty lines."""
    return {"color": f"C{number % 10}", "ls": ("-", "--", ":")[number // 10 % 3]}


def legend_outside(axes: Axes) -> None:
    """Move the legend beside the axes, where a long one hides no line."""
    axes.legend(fontsize="small", loc="upper left", bbox_to_anchor=(1, 1))
