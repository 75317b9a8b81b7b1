"""The command line. The only place that prints."""

import contextlib
import difflib
import io
import json
import logging
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import dropwhile, takewhile
from pathlib import Path
from typing import Annotated, Any, NoReturn, TypeVar

import tyro
from rich.console import Console
from rich.logging import RichHandler
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table

from eigen_reptile import bench as benchmarks
from eigen_reptile.config import Experiment, MetaConfig
from eigen_reptile.data import DATASETS
from eigen_reptile.evaluate import EvalConfig
from eigen_reptile.experiment import run_experiment
from eigen_reptile.learner import MODELS
from eigen_reptile.methods import METHODS, Method
from eigen_reptile.recipes import RECIPES
from eigen_reptile.report import write_report
from eigen_reptile.runs import FolderError, RunError

T = TypeVar("T")
Quiet = Annotated[bool, tyro.conf.FlagCreatePairsOff]


class UsageError(Exception):
    """The command line asks for something that there is not."""


@dataclass(frozen=True)
class Output:
    """What is printed."""

    quiet: Quiet = False
    """Print nothing but errors."""
    json: Quiet = False
    """Print one JSON object in place of tables, and no progress."""


@dataclass(frozen=True)
class TrainOptions:
    """Train one experiment in a folder; the same command continues it after an interruption."""

    out: Annotated[Path | None, tyro.conf.arg(metavar="PATH", help_behavior_hint="(required)")] = None
    """Folder of the run. It is made if need be."""
    experiment: Annotated[Experiment, tyro.conf.arg(name="")] = field(default_factory=Experiment)
    """The experiment."""
    checkpoint_every: int = 1000
    """Outer iterations between two checkpoints."""
    output: Annotated[Output, tyro.conf.arg(name="")] = Output()
    """What is printed."""


@dataclass(frozen=True)
class RunOptions:
    """Run all cells of a recipe; finished cells are skipped, interrupted ones continue."""

    out: Path
    """Folder that gets one run folder for each cell."""
    only: tuple[str, ...] = ()
    """Cells to run; all if none is named."""
    steps: int | None = None
    """Outer iterations in place of the recipe's: a smaller experiment, recorded as such."""
    seeds: tuple[int, ...] = ()
    """Seeds in place of the recipe's."""
    checkpoint_every: int = 1000
    """Outer iterations between two checkpoints."""
    output: Annotated[Output, tyro.conf.arg(name="")] = Output()
    """What is printed."""


@dataclass(frozen=True)
class ReportOptions:
    """Make tables, figures, the claims' verdicts and an HTML page from result files."""

    results: tyro.conf.Positional[Path]
    """Folder below which the result files lie."""
    out: Path | None = None
    """Folder for the report; default: `report` inside the results' folder."""
    insert: tuple[Path, ...] = ()
    """Markdown files in which each part between `<!-- report:NAME -->` and `<!-- end -->` is renewed."""
    output: Annotated[Output, tyro.conf.arg(name="")] = Output()
    """What is printed."""


@dataclass(frozen=True)
class BenchOptions:
    """Measure speed against a plain PyTorch loop, interleaved in one run."""

    repeats: int = 7
    """Times that each contender is measured, in turn."""
    out: Path | None = None
    """JSON file for the figures."""
    output: Annotated[Output, tyro.conf.arg(name="")] = Output()
    """What is printed."""


@dataclass(frozen=True)
class QuickstartOptions:
    """Train Reptile and Eigen-Reptile on the sine wave and write a report: about two minutes."""

    out: Path = Path("runs/quickstart")
    """Folder for the runs and the report."""
    steps: int = 6000
    """Outer iterations of each method, the paper has 30,000."""
    output: Annotated[Output, tyro.conf.arg(name="")] = Output()
    """What is printed."""


@dataclass(frozen=True)
class ListOptions:
    """Show the methods, data sets, models, recipes and benchmarks there are."""

    output: Annotated[Output, tyro.conf.arg(name="")] = Output()
    """What is printed."""


# Commands


def list_command(args: Sequence[str]) -> None:
    options = parse(ListOptions, args, "list")
    things = {
        "methods": {name: _first_line(method) + _settings(method) for name, method in METHODS.items()},
        "datasets": {name: _first_line(dataset) for name, dataset in DATASETS.items()},
        "models": {name: _first_line(model) for name, model in MODELS.items()},
        "recipes": {name: _first_line(recipe) for name, recipe in RECIPES.items()},
        "benchmarks": {name: _first_line(benchmark) for name, benchmark in BENCHMARKS.items()},
    }
    if options.output.json:
        print(json.dumps(things))
    elif not options.output.quiet:
        for kind, entries in things.items():
            table = Table(title=kind, title_justify="left", show_header=False, box=None, padding=(0, 2))
            for name, meaning in entries.items():
                table.add_row(name, meaning)
            Console().print(table)


def train_command(args: Sequence[str]) -> None:
    method, rest = _named(args, METHODS, "method", default="eigen-reptile")
    default = TrainOptions(experiment=Experiment(method=METHODS[method]))
    about = f"{TrainOptions.__doc__}\n\nMethods: {', '.join(METHODS)}. Without a name: eigen-reptile."
    options = parse(TrainOptions, rest, f"train {method}", default, about)
    if options.out is None:
        raise UsageError("name the folder of the run: --out PATH")
    _check_positive("--checkpoint-every", options.checkpoint_every)
    with _logging(options.output), _progress(options.output) as progress:
        result = run_experiment(
            options.experiment,
            options.out,
            progress.task(method, options.experiment.meta.steps),
            options.checkpoint_every,
        )
    _show_results({method: result}, options.output, {"out": str(options.out)})
    if result["test"] is None:
        raise RunError(f"{_why_no_test(result)}: try a smaller --meta.lr or --inner.lr")


def run_command(args: Sequence[str]) -> None:
    name, rest = _named(args, RECIPES, "recipe", default="RECIPE" if _asks_for_help(args) else None)
    about = f"{RunOptions.__doc__}\n\nRecipes: {', '.join(RECIPES)}."
    options = parse(RunOptions, rest, f"run {name}", RunOptions(out=Path("runs") / name), about)
    _check_positive("--checkpoint-every", options.checkpoint_every)
    cells = _cells(name, options)
    results, failed = {}, {}
    with _logging(options.output), _progress(options.output) as progress:
        for cell, experiment in cells.items():
            report = progress.task(cell, experiment.meta.steps)
            try:
                results[cell] = run_experiment(experiment, options.out / cell, report, options.checkpoint_every)
            except RunError as error:
                failed[cell] = str(error)
                logging.getLogger(__name__).error("cell %s failed: %s", cell, error)
    _show_results(results, options.output, {"out": str(options.out)})
    if failed:
        raise RunError(f"{len(failed)} of {len(cells)} cells failed: " + "; ".join(failed.values()))


def report_command(args: Sequence[str]) -> None:
    options = parse(ReportOptions, args, "report")
    out = options.out or options.results / "report"
    written = write_report(options.results, out, options.insert)
    if options.output.json:
        print(json.dumps([str(path) for path in written]))
    elif not options.output.quiet:
        for path in written:
            print(f"wrote {path}")


def bench_command(args: Sequence[str]) -> None:
    name, rest = _named(args, BENCHMARKS, "benchmark", default="sine")
    options = parse(BenchOptions, rest, f"bench {name}")
    _check_positive("--repeats", options.repeats)
    with _progress(options.output) as progress:
        figures = BENCHMARKS[name](options.repeats, progress.task(f"bench {name}", options.repeats))
    if options.out is not None:
        benchmarks.save(figures, options.out)
    if options.output.json:
        print(json.dumps(figures))
    elif not options.output.quiet:
        Console().print(_bench_table(figures))


def quickstart_command(args: Sequence[str]) -> None:
    options = parse(QuickstartOptions, args, "quickstart")
    _check_positive("--steps", options.steps)
    steps = options.steps
    pictures = tuple(sorted({1, steps // 4, steps // 2, 3 * steps // 4, steps} - {0}))
    results = {}
    with _logging(options.output), _progress(options.output) as progress:
        for name in ("reptile", "eigen-reptile"):
            experiment = Experiment(
                method=METHODS[name],
                meta=MetaConfig(steps=steps, lr=(0.5, 1.0, 2.0)),
                evaluation=EvalConfig(every=max(1, steps // 12), pictures=pictures),
                seeds=tuple(range(5)),
            )
            results[name] = run_experiment(experiment, options.out / name, progress.task(name, steps))
    written = write_report(options.out, options.out / "report", ())
    page = next(path for path in written if path.suffix == ".html")
    _show_results(results, options.output, {"out": str(options.out), "report": str(page)})
    if not (options.output.quiet or options.output.json):
        for path in written:
            print(f"wrote {path}")
        print(f"\nOpen {page.resolve()} in a browser.")


BENCHMARKS = {"sine": benchmarks.sine}

COMMANDS: dict[str, tuple[Callable[[Sequence[str]], None], str]] = {
    "quickstart": (quickstart_command, "train Reptile and Eigen-Reptile on the sine wave, write a report"),
    "train": (train_command, "train one experiment: train METHOD --out FOLDER"),
    "run": (run_command, "run all cells of a recipe: run RECIPE"),
    "report": (report_command, "tables, figures and an HTML page from result files"),
    "bench": (bench_command, "measure speed against plain PyTorch"),
    "list": (list_command, "show what there is: methods, data sets, models, recipes"),
}

USAGE = "usage: eigen-reptile COMMAND ...\n\n" + "\n".join(
    f"  {name:<12}{about}" for name, (_, about) in COMMANDS.items()
)


def main() -> NoReturn:
    """Run the command line; exit with 2 for a wrong argument, 1 for a failure, 130 for Ctrl-C."""
    sys.exit(run(sys.argv[1:]))


def run(args: Sequence[str]) -> int:
    """One command line, as `main` would run it; returns the exit code."""
    try:
        if not args or _asks_for_help(args[:1]):
            print(USAGE + "\n\nEach command explains itself: eigen-reptile COMMAND --help")
            return 0
        name, rest = _named(args, COMMANDS, "command")
        COMMANDS[name][0](rest)
    except (UsageError, FolderError) as error:
        return _fail(error, 2)
    except (RunError, OSError) as error:
        return _fail(error, 1)
    except KeyboardInterrupt:
        return _fail("interrupted: repeat the command to continue from the last checkpoint", 130)
    return 0


# Arguments


def parse(kind: type[T], args: Sequence[str], command: str, default: T | None = None, about: str | None = None) -> T:
    """Options from the command line, by tyro; whatever is wrong with them becomes one line."""
    program = f"eigen-reptile {command}"

    def ask(args: Sequence[str]) -> tuple[T, list[str]]:
        return tyro.cli(
            kind,
            args=args,
            default=tyro.MISSING_NONPROP if default is None else default,
            prog=program,
            description=about or kind.__doc__,
            return_unknown_args=True,
        )

    complaint = io.StringIO()
    try:
        with contextlib.redirect_stderr(complaint):
            options, unknown = ask(args)
    except SystemExit as stop:
        if not stop.code:
            raise
        raise UsageError(f"{_one_line(complaint.getvalue())} (see {program} --help)") from None
    except ValueError as error:  # tyro reports those of nested configs only
        raise UsageError(f"{error} (see {program} --help)") from error
    if unknown and not unknown[0].startswith("-"):
        raise UsageError(f"unexpected argument {unknown[0]} (see {program} --help)")
    if unknown:
        helptext = io.StringIO()
        with contextlib.redirect_stdout(helptext), contextlib.suppress(SystemExit):
            ask(["--help"])
        flags = sorted(set(re.findall(r"--[a-z][a-z0-9.-]*", helptext.getvalue())))
        raise UsageError(_no_such("option", unknown[0].partition("=")[0], flags) + f" (see {program} --help)")
    return options


def _one_line(complaint: str) -> str:
    """The message out of the box that tyro draws around it, without the help that it repeats below a rule."""
    lines = [line.strip("│╭╮╰╯ ") for line in complaint.splitlines()]
    below_title = dropwhile(_is_rule, lines[1:] or lines)
    return " ".join(part for part in takewhile(lambda line: not _is_rule(line), below_title) if part)


def _is_rule(line: str) -> bool:
    return bool(line) and not line.strip("─-")  # dashes where standard output is not UTF-8


def _named(
    args: Sequence[str], known: Mapping[str, Any], kind: str, default: str | None = None
) -> tuple[str, Sequence[str]]:
    """The first argument as one of the known names, and the arguments after it."""
    if args and not args[0].startswith("-"):
        if args[0] not in known:
            raise UsageError(_no_such(kind, args[0], list(known)))
        return args[0], args[1:]
    if default is not None:
        return default, args
    raise UsageError(f"name a {kind}: {', '.join(known)}")


def _asks_for_help(args: Sequence[str]) -> bool:
    return "-h" in args or "--help" in args


def _check_positive(option: str, value: int) -> None:
    if value < 1:
        raise UsageError(f"{option} must be at least 1, not {value}")


def _no_such(kind: str, name: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(known)}"
    return f"no {kind} named {name}: {hint}"


def _cells(name: str, options: RunOptions) -> dict[str, Experiment]:
    cells = RECIPES[name]()
    for cell in options.only:
        if cell not in cells:
            raise UsageError(_no_such("cell", cell, list(cells)))
    chosen = {cell: cells[cell] for cell in options.only or cells}
    try:
        if options.steps is not None:
            chosen = {n: replace(exp, meta=replace(exp.meta, steps=options.steps)) for n, exp in chosen.items()}
        if options.seeds:
            chosen = {n: replace(exp, seeds=options.seeds) for n, exp in chosen.items()}
    except ValueError as error:
        raise UsageError(str(error)) from error
    return chosen


# Output


class _Bars:
    """Progress bars, one for each named task; or none."""

    def __init__(self, bars: Progress | None) -> None:
        self._bars = bars

    def task(self, name: str, total: int) -> Callable[[int, Mapping[str, float]], None]:
        if self._bars is None:
            return lambda step, metrics: None
        bars, task = self._bars, self._bars.add_task(name, total=total, note="starting")

        def report(step: int, metrics: Mapping[str, float]) -> None:
            bars.update(task, completed=step)
            if metrics:
                shown = [f"{key} {metrics[key]:.3g}" for key in ("share", "length") if key in metrics]
                bars.update(task, note="  ".join(shown))

        return report


@contextlib.contextmanager
def _progress(output: Output) -> Iterator[_Bars]:
    if output.quiet or output.json:
        yield _Bars(None)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
    )
    with Progress(*columns, console=Console(stderr=True)) as bars:
        yield _Bars(bars)


@contextlib.contextmanager
def _logging(output: Output) -> Iterator[None]:
    """What the library logs goes to standard error: all of it, or only warnings where little is to be printed."""
    logger = logging.getLogger("eigen_reptile")
    handler = RichHandler(console=Console(stderr=True), show_path=False, show_time=False)
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.WARNING if output.quiet or output.json else logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


def _show_results(results: Mapping[str, dict[str, Any]], output: Output, extra: Mapping[str, str]) -> None:
    if output.json:
        kept = ("choice", "test", "seconds")
        print(json.dumps({**extra, "results": {n: {k: r[k] for k in kept} for n, r in results.items()}}))
    elif not output.quiet:
        table = Table(title="squared error on test tasks, mean and 95 % interval over seeds", title_justify="left")
        columns: list[int] = next((r["test"]["after"] for r in results.values() if r["test"]), [])
        for heading in ("method", "outer step", *(f"{after} steps" for after in columns)):
            table.add_column(heading)
        for name, result in results.items():
            table.add_row(name, *_result_row(result))
        Console().print(table)


def _result_row(result: Mapping[str, Any]) -> list[str]:
    if result["test"] is None:
        return ["diverged"]
    pairs = zip(result["test"]["mean"], result["test"]["ci95"], strict=True)
    cells = [f"{mean:.4f}" + (f" ± {half:.4f}" if half is not None else "") for mean, half in pairs]
    return [f"{result['choice']['lr']:g}", *cells]


def _why_no_test(result: Mapping[str, Any]) -> str:
    iterations = [lane["diverged_at"] for lane in result["lanes"] if lane["diverged_at"] is not None]
    return f"training diverged at iteration {min(iterations)}" if iterations else "the validation error is not finite"


def _bench_table(figures: Mapping[str, Any]) -> Table:
    table = Table(title=figures["title"], title_justify="left")
    for heading in ("what", *figures["columns"]):
        table.add_column(heading)
    for row in figures["rows"]:
        table.add_row(*(cell if isinstance(cell, str) else f"{cell:.4g}" for cell in row))
    return table


def _settings(method: Method) -> str:
    """The fields that a method has, as Python would write them."""
    return f" ({', '.join(f'{name}={value!r}' for name, value in vars(method).items())})" if vars(method) else ""


def _first_line(thing: Any) -> str:
    return (thing.__doc__ or "").strip().splitlines()[0]


def _fail(problem: object, code: int) -> int:
    print(f"eigen-reptile: {' '.join(str(problem).split())}", file=sys.stderr)
    return code
