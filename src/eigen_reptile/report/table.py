"""A table of text, independent of how it is rendered."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import final

from eigen_reptile.runtime.text import printable


@final
@dataclass(frozen=True)
class Table:
    """Headings, and rows with one cell for each heading. A cell between backquotes is code."""

    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.headings):
                raise ValueError(f"a row has {len(row)} cells for {len(self.headings)} headings: {row}")

    @staticmethod
    def of(headings: Iterable[str], rows: Iterable[Iterable[str]]) -> "Table":
        return Table(tuple(headings), tuple(tuple(row) for row in rows))

    def to_markdown(self) -> str:
        lines = [self.headings, ["---"] * len(self.headings), *self.rows]
        return "".join(f"{_markdown_line(line)}\n" for line in lines)


def _markdown_line(cells: Sequence[str]) -> str:
    """One line of a Markdown table, in which a vertical bar or a line break would end a cell."""
    escaped = (markdown_text(cell).replace("|", r"\|") for cell in cells)
    return f"| {' | '.join(escaped)} |"


def markdown_text(text: str) -> str:
    """Text on one line that Markdown shows as it is, unless it is code."""
    line = printable(" ".join(text.split("\n")))
    return line if re.fullmatch("`[^`]+`", line) else _MARKUP.sub(r"\\\g<0>", line)


_MARKUP = re.compile(
    r"[*`$~\[]"
    r"|(?<![^\W_])_|_(?![^\W_])"  # not between letters, where it means nothing
    r"|<(?=[a-zA-Z/!?])"  # of HTML
    r"|&(?=#?\w+;)"  # of an entity
    r"|\\(?=[^\w\s])"  # which would escape the next character
)
"""What Markdown does not show as it is."""
