"""The cases of a part, one after the other, from where an earlier siege stopped until time is over."""

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from eigen_reptile.report.siege import SiegeFailure, SiegePart
from siege.batch import Attacks, Verdict, run_cases
from siege.case import Part


class Budget(NamedTuple):
    """How long a part may go on; at least one case is run."""

    seconds: float
    cases: int | None = None

    def is_spent(self, started: float, cases: int) -> bool:
        return time.monotonic() - started >= self.seconds or (self.cases is not None and cases >= self.cases)


Report = Callable[[SiegePart, Verdict, float], None]
"""Is told what is known after each case, and how many seconds are left."""


def besiege(name: str, part: Part, seed: int, found: SiegePart, budget: Budget, report: Report) -> SiegePart:
    """What is known after more cases of a part."""
    before, started = found, time.monotonic()
    with _folder(name) as folder:
        attacks = Attacks(part, folder / "prepared")
        while not budget.is_spent(started, found.cases - before.cases):
            batch = part.batch if budget.cases is None else min(part.batch, budget.cases - found.cases + before.cases)
            numbers = range(found.cases, found.cases + batch)
            for verdict in run_cases(name, part, attacks, seed, numbers, folder):
                found = _with(found, name, seed, verdict)
                found = replace(found, seconds=round(before.seconds + time.monotonic() - started, 1))
                report(found, verdict, budget.seconds - (time.monotonic() - started))
                if budget.is_spent(started, found.cases - before.cases):
                    break
    return found


def repeat_case(name: str, part: Part, seed: int, number: int) -> tuple[Verdict, Path]:
    """The verdict on one case, and the folder with its files, which is kept if it fails."""
    with _folder(name, keep=True) as folder:
        attacks = Attacks(part, folder / "prepared")
        (verdict,) = run_cases(name, part, attacks, seed, range(number, number + 1), folder)
        return verdict, folder / f"{name}-{number}"


def command_for(name: str, seed: int, number: int) -> str:
    """The command that repeats a case."""
    return f"python -m siege {name} --case {number} --seed {seed}"


def _with(found: SiegePart, name: str, seed: int, verdict: Verdict) -> SiegePart:
    """What is known after one more case."""
    outcomes = {kind: dict(counts) for kind, counts in found.outcomes.items()}
    counts = outcomes.setdefault(verdict.kind, {})
    counts[verdict.outcome] = counts.get(verdict.outcome, 0) + 1
    failures = found.failures
    if verdict.problem:
        command = command_for(name, seed, verdict.number)
        failures = (*failures, SiegeFailure(verdict.number, verdict.kind, verdict.problem, command))
    return SiegePart(verdict.number + 1, found.seconds, outcomes, failures)


@contextmanager
def _folder(name: str, keep: bool = False) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix=f"siege-{name}-")).resolve()
    try:
        yield folder
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)
