"""Commands that train nothing: what there is, and what has been found."""

import json
import math
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from eigen_reptile.bench import BENCHMARKS
from eigen_reptile.cli.arguments import UsageError, asks_for_help, check_positive, named, parse
from eigen_reptile.cli.options import BenchOptions, CompareOptions, ListOptions, NoiseOptions, ReportOptions
from eigen_reptile.cli.output import (
    bench_table,
    comparison_table,
    logging_to_stderr,
    noise_table,
    progress_bars,
    show_table,
)
from eigen_reptile.data import DATASETS, TaskShape
from eigen_reptile.files import write_json
from eigen_reptile.methods import METHODS, Method
from eigen_reptile.models import MODELS, Model
from eigen_reptile.noise import class_names, realised
from eigen_reptile.recipes import RECIPES
from eigen_reptile.report.paired import Paired, compare_runs


def list_command(args: Sequence[str]) -> None:
    options = parse(ListOptions, args, "list")
    things = {
        "methods": {name: _first_line(method) + _settings(method) for name, method in METHODS.items()},
        "datasets": {name: _first_line(dataset) for name, dataset in DATASETS.items()},
        "models": {name: _first_line(model) + _settings(model) for name, model in MODELS.items()},
        "recipes": {name: recipe.about for name, recipe in RECIPES.items()}
        | {"theory": "The theorems of the appendices, put to the test."},
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


def _settings(thing: Method | Model) -> str:
    """The fields that a method or model has, as Python would write them."""
    return f" ({', '.join(f'{name}={value!r}' for name, value in vars(thing).items())})" if vars(thing) else ""


def _first_line(thing: Any) -> str:
    return (thing.__doc__ or "").strip().splitlines()[0]


def report_command(args: Sequence[str]) -> None:
    # matplotlib takes as long to import as many a command to run: only those that draw wait for it.
    from eigen_reptile.report.pages import write_report
    from eigen_reptile.report.performance import write_performance

    options = parse(ReportOptions, args, "report")
    out = options.out or options.results / "report"
    written = write_report(options.results, out, options.insert, options.benchmarks)
    if options.benchmarks is not None:
        written += write_performance(options.benchmarks, out)
    if options.output.json:
        print(json.dumps([str(path) for path in written]))
    elif not options.output.quiet:
        for path in written:
            print(f"wrote {path}")


def compare_command(args: Sequence[str]) -> None:
    options = parse(CompareOptions, args, "compare")
    measure, found = compare_runs(options.first, options.second)
    if options.output.json:
        rows = [
            row._asdict()
            | {"over_tasks": _finite(row.over_tasks), "over_seeds": row.over_seeds and _finite(row.over_seeds)}
            for row in found
        ]
        print(json.dumps({"measure": measure, "comparisons": rows}))
    elif not options.output.quiet:
        show_table(comparison_table(str(options.first), str(options.second), measure, found))


def _finite(found: Paired) -> dict[str, float | None]:
    """As JSON can have it: an interval of a single pair is not a number."""
    return {name: value if math.isfinite(value) else None for name, value in found._asdict().items()}


def data_command(args: Sequence[str]) -> None:
    from eigen_reptile.report.figures import transitions

    _, rest = named(
        args, {"noise": "what label noise does"}, "view of the data", "noise" if asks_for_help(args) else None
    )
    data, rest = named(rest, DATASETS, "data set", default="glyphs")
    about = f"{NoiseOptions.__doc__}\n\ndata noise DATASET: data sets are {', '.join(DATASETS)}."
    options = parse(NoiseOptions, rest, f"data noise {data}", NoiseOptions(data=DATASETS[data]), about)
    check_positive("--labels", options.labels)
    if options.noise.kind == "none":
        raise UsageError("say which noise to look at: --noise.kind symmetric, asymmetric, matrix or labels")
    with logging_to_stderr(options.output), progress_bars(options.output) as progress:
        banks = options.data.load(progress.task)
        if not class_names(banks):
            raise UsageError(f"{data} has no labels that could be wrong")
        task = banks.train.fitted(TaskShape(options.task.way, options.task.shots, 0))
        found = realised(banks.train, options.noise, class_names(banks), task, options.labels)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    transitions(found.names, found.counts, options.out)
    if options.output.json:
        counts = found.counts.tolist()
        print(json.dumps({"rate": found.rate, "names": found.names, "counts": counts, "picture": str(options.out)}))
    elif not options.output.quiet:
        print(f"{int(found.counts.sum()):,} labels, {100 * found.rate:.2f} % of them wrong")
        show_table(noise_table(found))
        print(f"wrote {options.out}")


def bench_command(args: Sequence[str]) -> None:
    name, rest = named(args, BENCHMARKS, "benchmark", default="sine")
    about = f"{BenchOptions.__doc__}\n\nBenchmarks: {', '.join(BENCHMARKS)}."
    options = parse(BenchOptions, rest, f"bench {name}", BenchOptions(), about)
    check_positive("--repeats", options.repeats)
    if options.out is not None and not options.out.parent.is_dir():
        raise UsageError(f"--out: there is no folder {options.out.parent}")
    with progress_bars(options.output) as progress:
        figures = BENCHMARKS[name](options.repeats, progress.task)
    if options.output.json:
        print(json.dumps(figures._asdict()))
    elif not options.output.quiet:
        show_table(bench_table(figures))
    if options.out is not None:
        write_json(options.out, figures._asdict())
