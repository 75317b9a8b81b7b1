"""The commands: each takes the words after its name."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from eigen_reptile import bench as benchmarks
from eigen_reptile.cli.arguments import UsageError, asks_for_help, check_positive, named, no_such, parse
from eigen_reptile.cli.options import (
    BenchOptions,
    ListOptions,
    QuickstartOptions,
    ReportOptions,
    RunOptions,
    TrainOptions,
)
from eigen_reptile.cli.output import bench_table, logging_to_stderr, progress_bars, show_results
from eigen_reptile.config import Experiment, MetaConfig
from eigen_reptile.data import DATASETS
from eigen_reptile.evaluate import EvalConfig
from eigen_reptile.experiment import run_experiment
from eigen_reptile.learner import MODELS
from eigen_reptile.methods import METHODS, Method
from eigen_reptile.recipes import RECIPES
from eigen_reptile.report import write_report
from eigen_reptile.runs import FolderError, RunError

BENCHMARKS = {"sine": benchmarks.sine}


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
    method, rest = named(args, METHODS, "method", default="eigen-reptile")
    default = TrainOptions(experiment=Experiment(method=METHODS[method]))
    about = f"{TrainOptions.__doc__}\n\nMethods: {', '.join(METHODS)}. Without a name: eigen-reptile."
    options = parse(TrainOptions, rest, f"train {method}", default, about)
    if options.out is None:
        raise UsageError("name the folder of the run: --out PATH")
    check_positive("--checkpoint-every", options.checkpoint_every)
    with logging_to_stderr(options.output), progress_bars(options.output) as progress:
        result = run_experiment(
            options.experiment,
            options.out,
            progress.task(method, options.experiment.meta.steps),
            options.checkpoint_every,
        )
    show_results({method: result}, options.output, {"out": str(options.out)})
    if result["test"] is None:
        raise RunError(f"{_why_no_test(result)}: try a smaller --meta.lr or --inner.lr")


def run_command(args: Sequence[str]) -> None:
    name, rest = named(args, RECIPES, "recipe", default="RECIPE" if asks_for_help(args) else None)
    about = f"{RunOptions.__doc__}\n\nRecipes: {', '.join(RECIPES)}."
    options = parse(RunOptions, rest, f"run {name}", RunOptions(out=Path("runs") / name), about)
    check_positive("--checkpoint-every", options.checkpoint_every)
    cells = _cells(name, options)
    results: dict[str, dict[str, Any]] = {}
    failed: dict[str, RunError] = {}
    with logging_to_stderr(options.output), progress_bars(options.output) as progress:
        for cell, experiment in cells.items():
            report = progress.task(cell, experiment.meta.steps)
            try:
                results[cell] = run_experiment(experiment, options.out / cell, report, options.checkpoint_every)
            except RunError as error:
                failed[cell] = error
    if results:
        show_results(results, options.output, {"out": str(options.out)})
    if failed:
        kind = FolderError if all(isinstance(error, FolderError) for error in failed.values()) else RunError
        reasons = "; ".join(f"{cell}: {error}" for cell, error in failed.items())
        raise kind(f"{len(failed)} of {len(cells)} cells failed. {reasons}")


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
    name, rest = named(args, BENCHMARKS, "benchmark", default="sine")
    options = parse(BenchOptions, rest, f"bench {name}")
    check_positive("--repeats", options.repeats)
    with progress_bars(options.output) as progress:
        figures = BENCHMARKS[name](options.repeats, progress.task(f"bench {name}", options.repeats))
    if options.output.json:
        print(json.dumps(figures))
    elif not options.output.quiet:
        Console().print(bench_table(figures))
    if options.out is not None:
        benchmarks.save(figures, options.out)


def quickstart_command(args: Sequence[str]) -> None:
    options = parse(QuickstartOptions, args, "quickstart")
    check_positive("--steps", options.steps)
    steps = options.steps
    pictures = tuple(sorted({1, steps // 4, steps // 2, 3 * steps // 4, steps} - {0}))
    results = {}
    with logging_to_stderr(options.output), progress_bars(options.output) as progress:
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
    show_results(results, options.output, {"out": str(options.out), "report": str(page)})
    if not (options.output.quiet or options.output.json):
        for path in written:
            print(f"wrote {path}")
        print(f"\nOpen {page.resolve()} in a browser.")


def _cells(name: str, options: RunOptions) -> dict[str, Experiment]:
    cells = RECIPES[name]()
    for cell in options.only:
        if cell not in cells:
            raise UsageError(no_such("cell", cell, list(cells)))
    chosen = {cell: cells[cell] for cell in options.only or cells}
    try:
        if options.steps is not None:
            chosen = {n: replace(exp, meta=replace(exp.meta, steps=options.steps)) for n, exp in chosen.items()}
        if options.seeds:
            chosen = {n: replace(exp, seeds=options.seeds) for n, exp in chosen.items()}
    except ValueError as error:
        raise UsageError(str(error)) from error
    return chosen


def _why_no_test(result: Mapping[str, Any]) -> str:
    iterations = [lane["diverged_at"] for lane in result["lanes"] if lane["diverged_at"] is not None]
    return f"training diverged at iteration {min(iterations)}" if iterations else "the validation error is not finite"


def _settings(method: Method) -> str:
    """The fields that a method has, as Python would write them."""
    return f" ({', '.join(f'{name}={value!r}' for name, value in vars(method).items())})" if vars(method) else ""


def _first_line(thing: Any) -> str:
    return (thing.__doc__ or "").strip().splitlines()[0]
