"""A table of text, independent of how it is rendered."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import final


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
    escaped = (cell.replace("|", r"\|").replace("\n", " ") for cell in cells)
    return f"| {' | '.join(escaped)} |"
