"""`python -m benchmarks NAME`: run a benchmark, show its table, and write it to a file on request."""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.table import Table

from benchmarks import BENCHMARKS
from eigen_reptile.cli.arguments import UsageError, check_positive, unknown_name_message
from eigen_reptile.cli.output import progress_bars, show_table
from eigen_reptile.cli.output_options import Output
from eigen_reptile.errors import RunError
from eigen_reptile.report.benchmark import BenchmarkTable
from eigen_reptile.runtime.files import write_json

PROGRAM = "python -m benchmarks"
FLAGS = ("--repeats", "--out", "--json", "--quiet", "--help")


@dataclass(frozen=True)
class Options:
    """What the command line asks for."""

    name: str
    repeats: int
    out: Path | None
    output: Output


def main(args: Sequence[str]) -> int:
    """Run one command line; returns the exit code: 2 for a wrong argument, 1 for a failure, 130 for Ctrl-C."""
    try:
        if not args:
            _parser().print_help()
            return 0
        options = parse(args)
        with progress_bars(options.output) as progress:
            table = BENCHMARKS[options.name](options.repeats, progress.start)
        if options.out is not None:
            write_json(options.out, table._asdict())
        if options.output.json:
            print(json.dumps(table._asdict()))
        elif not options.output.quiet:
            show_table(benchmark_table(table))
    except UsageError as error:
        return _fail(f"{error} (see {PROGRAM} --help)", 2)
    except (RunError, OSError) as error:
        return _fail(str(error), 1)
    except KeyboardInterrupt:
        return _fail("interrupted: nothing was written", 130)
    return 0


def parse(args: Sequence[str]) -> Options:
    """The options on the command line; UsageError if one of them is wrong."""
    try:
        found, unknown = _parser().parse_known_args(args)
    except argparse.ArgumentError as error:
        raise UsageError(str(error)) from error
    if unknown and unknown[0].startswith("-"):
        raise UsageError(unknown_name_message("option", unknown[0].partition("=")[0], FLAGS))
    if unknown:
        raise UsageError(f"unexpected argument {unknown[0]}")
    if found.name is None:
        raise UsageError(f"name a benchmark: {', '.join(BENCHMARKS)}")
    if found.name not in BENCHMARKS:
        raise UsageError(unknown_name_message("benchmark", found.name, list(BENCHMARKS)))
    check_positive("--repeats", found.repeats)
    if found.out is not None and not found.out.parent.is_dir():
        raise UsageError(f"--out: there is no folder {found.out.parent}")
    return Options(found.name, found.repeats, found.out, Output(found.quiet, found.json))


def _parser() -> argparse.ArgumentParser:
    abouts = {name: (run.__doc__ or "").partition("\n")[0] for name, run in BENCHMARKS.items()}
    listing = "\n".join(f"  {name:<12}{about}" for name, about in abouts.items())
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        description="Measure speed or memory. The contenders are measured in turns within one run.",
        epilog=f"benchmarks:\n{listing}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        exit_on_error=False,
        allow_abbrev=False,
    )
    parser.add_argument("name", metavar="NAME", nargs="?", help="the benchmark, one of those below")
    parser.add_argument("--repeats", type=int, default=11, help="turns of each contender (default: 11)")
    parser.add_argument("--out", type=Path, metavar="FILE", help="JSON file for the table")
    parser.add_argument("--json", action="store_true", help="print the table as one JSON object, and no progress")
    parser.add_argument("--quiet", action="store_true", help="print nothing but errors")
    return parser


def benchmark_table(measured: BenchmarkTable) -> Table:
    table = Table(title=measured.title, title_justify="left")
    for heading in measured.columns:
        table.add_column(heading)
    for row in measured.rows:
        table.add_row(*(cell if isinstance(cell, str) else f"{cell:.4g}" for cell in row))
    return table


def _fail(problem: str, code: int) -> int:
    print(f"{PROGRAM}: {' '.join(problem.split())}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
