"""Plain text in two columns, wrapped to the width of the terminal."""

import shutil
import textwrap

NO_BREAK = "\N{NO-BREAK SPACE}"
"""A space at which a text is not wrapped; an ordinary one when it is printed."""


def wrapped(text: str, later: str = "", first: str = "") -> str:
    """Wrap a text; `first` and `later` are the indentations of the first line and of the others."""
    lines = textwrap.fill(text, _width(), initial_indent=first, subsequent_indent=later, break_on_hyphens=False)
    return lines.replace(NO_BREAK, " ")


def one_line(left: str, right: str, column: int) -> str:
    """A term and as many words of its description as fit on the line."""
    return f"  {left}".ljust(column) + textwrap.shorten(right, _width() - column, placeholder=" ...")


def row(left: str, right: str, column: int) -> list[str]:
    """A term and its description, which starts on the next line if the term does not fit before the column."""
    lines = wrapped(right, " " * column, " " * column).splitlines()
    if len(left) + 4 <= column:
        return [f"  {left}".ljust(column) + "".join(lines[:1])[column:], *lines[1:]]
    return [f"  {left}", *lines]


def _width() -> int:
    return max(60, min(shutil.get_terminal_size().columns, 120))
