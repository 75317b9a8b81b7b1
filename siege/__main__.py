"""`python -m siege [PART ...]`: besiege the software, and write a summary from which the next siege goes on."""

import argparse
import gc
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import final

import torch

# Imported here, the commands do not have to import them in each case.
import eigen_reptile.cli.auditing
import eigen_reptile.cli.classifying
import eigen_reptile.cli.experiments
import eigen_reptile.cli.inspect
import eigen_reptile.cli.listing
import eigen_reptile.report.pages
import eigen_reptile.report.performance  # noqa: F401
from eigen_reptile.cli.arguments import UsageError, unknown_name_message
from eigen_reptile.errors import RunError
from eigen_reptile.report.siege import Siege, SiegePart, read_siege
from eigen_reptile.runtime.environment import current_environment
from eigen_reptile.runtime.files import write_json
from eigen_reptile.training.config import Experiment
from eigen_reptile.training.serialise import to_json
from siege import PARTS
from siege.batch import Verdict
from siege.campaign import Budget, besiege, repeat_case

PROGRAM = "python -m siege"
FLAGS = ("--minutes", "--cases", "--seed", "--case", "--out", "--help")
SAVE_SECONDS = 10
"""Between two updates of the summary and of the progress."""


@final
@dataclass(frozen=True)
class Options:
    """What the command line asks for."""

    parts: tuple[str, ...]
    minutes: float
    cases: int | None
    seed: int
    case: int | None
    out: Path | None


def main(args: Sequence[str]) -> int:
    """Run one command line; returns the exit code: 2 for a wrong argument, 1 for a broken promise, 130 for Ctrl-C."""
    _warm_up()
    try:
        options = parse(args)
        return _repeat(options) if options.case is not None else _besiege(options)
    except UsageError as error:
        return _fail(f"{error} (see {PROGRAM} --help)", 2)
    except (RunError, OSError) as error:
        return _fail(str(error), 1)
    except KeyboardInterrupt:
        return _fail("interrupted: the same command goes on from here", 130)


def parse(args: Sequence[str]) -> Options:
    """The options on the command line; UsageError if one of them is wrong."""
    try:
        found, unknown = _parser().parse_known_args(args)
    except argparse.ArgumentError as error:
        raise UsageError(str(error)) from error
    if unknown:
        raise UsageError(unknown_name_message("option", unknown[0].partition("=")[0], FLAGS))
    for name in found.parts:
        if name not in PARTS:
            raise UsageError(unknown_name_message("part", name, list(PARTS)))
    if not 0 < found.minutes < 1e6:
        raise UsageError(f"--minutes must be above 0, not {found.minutes:g}")
    if found.case is not None and (len(found.parts) != 1 or found.case < 0):
        raise UsageError(f"--case needs one part and a number from 0 on: {PROGRAM} readers --case 17")
    if found.cases is not None and found.cases < 1:
        raise UsageError(f"--cases must be at least 1, not {found.cases}")
    if found.out is not None and not found.out.parent.is_dir():
        raise UsageError(f"--out: there is no folder {found.out.parent}")
    return Options(tuple(found.parts) or tuple(PARTS), found.minutes, found.cases, found.seed, found.case, found.out)


def _parser() -> argparse.ArgumentParser:
    listing = "\n".join(f"  {name:<12}{part.about}" for name, part in PARTS.items())
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        description="Besiege the software: kill it, damage its files, give it hostile ones.",
        epilog=f"parts:\n{listing}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        exit_on_error=False,
        allow_abbrev=False,
    )
    parser.add_argument("parts", metavar="PART", nargs="*", help="parts of the siege, of those below (default: all)")
    parser.add_argument("--minutes", type=float, default=7, help="duration, of all parts together (default: 7)")
    parser.add_argument("--cases", type=int, help="at most so many cases of each part")
    parser.add_argument("--seed", type=int, default=0, help="seed of everything random (default: 0)")
    parser.add_argument("--case", type=int, metavar="NUMBER", help="repeat one case of a part, and keep its files")
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="JSON file for the summary, from which the next siege goes on"
    )
    return parser


def _besiege(options: Options) -> int:
    siege = _begin(options)
    before = _failures(siege)
    for name in options.parts:
        progress = _Progress(name, siege, options.out)
        budget = Budget(60 * options.minutes / len(options.parts), options.cases)
        begun = siege.parts.get(name, SiegePart())
        try:
            besiege(name, PARTS[name], options.seed, begun, budget, progress.report)
        finally:
            siege = progress.end()
    return int(_failures(siege) > before)


def _failures(siege: Siege) -> int:
    return sum(len(part.failures) for part in siege.parts.values())


def _begin(options: Options) -> Siege:
    """An empty summary, or that of the file if it was written by the same version with the same seed."""
    now = current_environment(torch.device("cpu"))
    if options.out is None or not options.out.exists():
        return Siege(options.seed, now, {})
    before = read_siege(options.out)
    if before.seed != options.seed:
        raise RunError(f"{options.out} is about the seed {before.seed}, not {options.seed}: choose another file")
    if (before.environment.version, before.environment.commit) != (now.version, now.commit):
        print(f"{options.out} is about another version of the software: starting anew", file=sys.stderr)
        return Siege(options.seed, now, {})
    return replace(before, environment=now)


def _repeat(options: Options) -> int:
    (name,), number = options.parts, options.case
    assert number is not None  # `parse` has checked this
    verdict, folder = repeat_case(name, PARTS[name], options.seed, number)
    if verdict.problem:
        print(f"{name} {number} ({verdict.kind}) failed: {verdict.problem}\nits files are in {folder}")
        return 1
    print(f"{name} {number} ({verdict.kind}): {verdict.outcome}")
    return 0


@final
class _Progress:
    """Shows failures at once and progress now and then, and writes the summary as often."""

    def __init__(self, name: str, siege: Siege, out: Path | None) -> None:
        self._name, self._siege, self._out = name, siege, out
        self._shown = time.monotonic()

    def report(self, found: SiegePart, verdict: Verdict, left: float) -> None:
        self._siege = replace(self._siege, parts={**self._siege.parts, self._name: found})
        if verdict.problem:
            print(f"{self._name} {verdict.number} ({verdict.kind}) failed: {verdict.problem}")
            print(f"  {found.failures[-1].command}", flush=True)
        if time.monotonic() - self._shown >= SAVE_SECONDS:
            self._shown = time.monotonic()
            minutes, seconds = divmod(max(0, int(left)), 60)
            print(f"{self._name}: {_counts(found)}, {minutes}:{seconds:02d} left", file=sys.stderr, flush=True)
            self._save()

    def end(self) -> Siege:
        """The summary with this part."""
        if found := self._siege.parts.get(self._name):
            print(f"{self._name}: {_counts(found)} in {found.seconds:.0f} s", flush=True)
            self._save()
        return self._siege

    def _save(self) -> None:
        if self._out is not None:
            write_json(self._out, asdict(self._siege))


def _counts(found: SiegePart) -> str:
    return f"{found.cases:,} cases, {len(found.failures):,} failures"


def _warm_up() -> None:
    """Prepare this process for being forked in every case."""
    torch.set_num_threads(1)  # a process with threads cannot be forked
    for name in ("EIGEN_REPTILE_DATA", "FORCE_COLOR"):
        os.environ.pop(name, None)
    to_json(Experiment())  # makes a converter, which takes longer than many a case
    gc.collect()
    gc.freeze()  # or each case would look through all that was imported


def _fail(problem: str, code: int) -> int:
    print(f"{PROGRAM}: {' '.join(problem.split())}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
