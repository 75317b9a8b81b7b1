"""The table that a benchmark writes and the report reads."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from eigen_reptile.errors import RunError
from eigen_reptile.runtime.files import read_json
from eigen_reptile.runtime.strict_json import strict_converter, structured

PROVENANCE = ("command", "threads", "machine", "torch", "version", "commit")
"""What a page says about where a table was measured."""
MOST_ROWS = 200
LONGEST_NAME = 200
"""Longer names do not fit into a figure."""


class BenchmarkTable(NamedTuple):
    """The measurements of a benchmark, and the environment they were made in."""

    title: str
    about: str
    columns: tuple[str, ...]
    rows: list[list[str | float]]
    repeats: int
    environment: dict[str, str | float | None]


def read_benchmark(file: Path) -> BenchmarkTable:
    """The table in a benchmark file; RunError if it is not one."""
    try:
        table: BenchmarkTable = structured(_CONVERTER, read_json(file), BenchmarkTable)
    except ValueError as error:
        raise RunError(f"{file} is not a benchmark file of this version: {error}. Run the benchmark again") from error
    if any(len(row) != len(table.columns) for row in table.rows):
        raise RunError(f"{file} has rows that do not match its columns: run the benchmark again")
    return table


def check_showable(file: Path, table: BenchmarkTable) -> None:
    """Raise RunError if a table lacks what its page or its figure needs."""
    if problem := next(_problems(table), None):
        raise RunError(f"{file} {problem}: run the benchmark again")


def _problems(table: BenchmarkTable) -> Iterator[str]:
    if missing := [name for name in PROVENANCE if name not in table.environment]:
        yield f"does not say where it was measured: its environment has no {', '.join(missing)}"
    texts = [text for row in (table.columns, *table.rows) for text in row if isinstance(text, str)]
    if not 0 < len(table.rows) <= MOST_ROWS or any(len(text) > LONGEST_NAME for text in texts):
        yield f"must have from 1 to {MOST_ROWS} rows, and names of at most {LONGEST_NAME} characters"
    if "per second" in table.columns:
        turns = [row[2:5] for row in table.rows]  # median, slowest and fastest
        if table.columns.index("per second") != 2 or not all(map(_are_ordered, turns)):
            yield "must have the slowest and the fastest turn after each median"
    elif "number" in table.columns:
        numbers = [row[1:5] for row in table.rows]
        if table.columns.index("number") != 1 or not all(len(row) == 4 and _are_numbers(row) for row in numbers):
            yield "must have three measurements after each number"


def _are_ordered(turns: list[Any]) -> bool:
    if len(turns) != 3 or not _are_numbers(turns):
        return False
    median, slowest, fastest = map(float, turns)
    return slowest <= median <= fastest


def _are_numbers(row: list[Any]) -> bool:
    return not any(isinstance(value, str) for value in row)


_CONVERTER = strict_converter()
