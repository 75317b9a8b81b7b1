"""Commands that read results and data sets: `report`, `compare` and `data`."""

import json
import math
from collections.abc import Sequence

from eigen_reptile.cli.arguments import UsageError, asks_for_help, parse, take_name
from eigen_reptile.cli.options import CompareOptions, NoiseOptions, ReportOptions
from eigen_reptile.cli.output import (
    comparison_table,
    logging_to_stderr,
    noise_table,
    progress_bars,
    show_table,
)
from eigen_reptile.data import DATASETS, TaskShape
from eigen_reptile.noise import class_names, measure_noise
from eigen_reptile.report.paired import PairedDifference, compare_runs
from eigen_reptile.runtime.progress import phase
from eigen_reptile.runtime.text import printable
from eigen_reptile.training.config import check_sizes

MOST_LABELS = 100_000_000
"""More would not fit into memory."""


def report_command(args: Sequence[str]) -> None:
    # Importing matplotlib takes longer than many commands, so only the commands that draw import it.
    from eigen_reptile.report.pages import write_report
    from eigen_reptile.report.performance import write_performance

    options = parse(ReportOptions, args, "report")
    out = options.out or options.results / "report"
    with progress_bars(options.output) as progress, phase(progress.start, "writing the report"):
        written = write_report(options.results, out, options.insert, options.benchmarks)
        if options.benchmarks is not None:
            written += write_performance(options.benchmarks, out)
    if options.output.json:
        print(json.dumps([str(path) for path in written]))
    elif not options.output.quiet:
        for path in written:
            print(f"wrote {printable(str(path))}")


def compare_command(args: Sequence[str]) -> None:
    options = parse(CompareOptions, args, "compare")
    measure, found = compare_runs(options.first, options.second)
    if options.output.json:
        rows = [
            row._asdict()
            | {"over_tasks": _as_json(row.over_tasks), "over_seeds": row.over_seeds and _as_json(row.over_seeds)}
            for row in found
        ]
        print(json.dumps({"measure": measure, "comparisons": rows}))
    elif not options.output.quiet:
        show_table(comparison_table(str(options.first), str(options.second), measure, found))


def _as_json(found: PairedDifference) -> dict[str, float | None]:
    """As a JSON object. JSON has no NaN, which is the interval of a single pair."""
    return {name: value if math.isfinite(value) else None for name, value in found._asdict().items()}


def data_command(args: Sequence[str]) -> None:
    from eigen_reptile.report.figures import plot_transition_matrix

    _, rest = take_name(
        args, {"noise": "the effect of label noise"}, "view of the data", "noise" if asks_for_help(args) else None
    )
    data, rest = take_name(rest, DATASETS, "data set", default="glyphs")
    about = f"{NoiseOptions.__doc__}\n\ndata noise DATASET: data sets are {', '.join(DATASETS)}."
    options = parse(NoiseOptions, rest, f"data noise {data}", NoiseOptions(data=DATASETS[data]), about)
    if not 1 <= options.labels <= MOST_LABELS:
        raise UsageError(f"--labels must be from 1 to {MOST_LABELS}, not {options.labels}")
    check_sizes(options.data, "data")
    check_sizes(options.task, "task")
    if options.out.is_dir() or not options.out.name:
        raise UsageError(f"--out must name a file for the figure, not the folder {options.out}")
    if options.noise.kind == "none":
        raise UsageError("choose a kind of noise: --noise.kind symmetric, asymmetric, matrix, labels or mixed")
    with logging_to_stderr(options.output), progress_bars(options.output) as progress:
        with phase(progress.start, "loading data"):
            banks = options.data.load(progress.start)
        if not class_names(banks):
            raise UsageError(f"{data} has no class labels: choose a data set of images")
        task = banks.train.feasible_shape(TaskShape(options.task.way, options.task.shots, 0))
        with phase(progress.start, "measuring the noise"):
            found = measure_noise(banks.train, options.noise, class_names(banks), task, options.labels)
    try:
        options.out.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"cannot create the folder {options.out.parent}: {error.strerror}; choose another --out"
        ) from error
    plot_transition_matrix(found.names, found.counts, options.out)
    if options.output.json:
        counts = found.counts.tolist()
        print(json.dumps({"rate": found.rate, "names": found.names, "counts": counts, "figure": str(options.out)}))
    elif not options.output.quiet:
        print(f"{int(found.counts.sum()):,} labels, {100 * found.rate:.2f} % of them wrong")
        show_table(noise_table(found))
        print(f"wrote {printable(str(options.out))}")
