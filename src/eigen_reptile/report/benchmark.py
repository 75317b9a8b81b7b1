"""The table that a benchmark writes and the report reads."""

from pathlib import Path
from typing import Any, NamedTuple

from eigen_reptile.errors import RunError
from eigen_reptile.runtime.files import read_json


class BenchmarkTable(NamedTuple):
    """The measurements of a benchmark, and the environment they were made in."""

    title: str
    about: str
    columns: tuple[str, ...]
    rows: list[list[str | float]]
    repeats: int
    environment: dict[str, Any]


def read_benchmark(file: Path) -> BenchmarkTable:
    """The table in a benchmark file; RunError if it is not one."""
    value = read_json(file)
    if not isinstance(value, dict) or set(value) != set(BenchmarkTable._fields):
        raise RunError(f"{file} is not a benchmark file of this version: run the benchmark again")
    table = BenchmarkTable(**value)
    if any(len(row) != len(table.columns) for row in table.rows):
        raise RunError(f"{file} has rows that do not match its columns: run the benchmark again")
    return table._replace(columns=tuple(table.columns))
