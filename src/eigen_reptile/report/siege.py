"""The summary that a siege of the software writes and the report reads."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import final

from eigen_reptile.errors import RunError
from eigen_reptile.report.table import Table
from eigen_reptile.runtime.environment import Environment
from eigen_reptile.runtime.files import read_json
from eigen_reptile.runtime.strict_json import strict_converter, structured

SIEGES = "siege*.json"
"""Their files, beside those of the benchmarks: one siege may be in several parts."""


@final
@dataclass(frozen=True)
class SiegeFailure:
    """A case in which a promise was broken."""

    case: int
    kind: str
    problem: str
    command: str
    """The command that repeats the case."""


@final
@dataclass(frozen=True)
class SiegePart:
    """The outcome of the first `cases` cases of a part."""

    cases: int = 0
    seconds: float = 0.0
    outcomes: dict[str, dict[str, int]] = field(default_factory=dict)
    """For each kind of case, how often each outcome occurred."""
    failures: tuple[SiegeFailure, ...] = ()


@final
@dataclass(frozen=True)
class Siege:
    """The summary of a siege; its cases are determined by the seed."""

    seed: int
    environment: Environment
    parts: dict[str, SiegePart]


def read_siege(file: Path) -> Siege:
    """The summary in a file; RunError if it is not one."""
    try:
        siege: Siege = structured(strict_converter(), read_json(file), Siege)
    except ValueError as error:
        raise RunError(f"{file} is not the summary of a siege: {error}") from error
    return siege


def siege_table(sieges: Sequence[Siege]) -> Table:
    """How the cases of every kind ended."""
    rows = [
        [name, kind, f"{sum(counts.values()):,}", _shares(counts), f"{_failures(part, kind):,}"]
        for siege in sieges
        for name, part in siege.parts.items()
        for kind, counts in sorted(part.outcomes.items())
    ]
    return Table.of(("part", "what", "cases", "how they ended", "failures"), rows)


def _failures(part: SiegePart, kind: str) -> int:
    return sum(failure.kind == kind for failure in part.failures)


def _shares(counts: dict[str, int]) -> str:
    return ", ".join(f"{outcome} {count:,}" for outcome, count in sorted(counts.items()) if outcome != "failed")
