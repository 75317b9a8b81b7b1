"""Output for people (progress bars, log messages, tables) and for scripts (JSON)."""

import contextlib
import json
import logging
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, final

import numpy as np
from rich.console import Console
from rich.logging import RichHandler
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Column, Table

from eigen_reptile.cli.output_options import Output
from eigen_reptile.cli.progress_lines import VALIDATION, ProgressLines, progress_lines
from eigen_reptile.noise import MeasuredNoise
from eigen_reptile.report.paired import Comparison
from eigen_reptile.report.tables import format_failed, format_score
from eigen_reptile.runtime.progress import ReportProgress, no_progress
from eigen_reptile.runtime.text import printable
from eigen_reptile.training.result import Result

FEW_CLASSES = 12
"""Up to this number of classes, the class-transition matrix is printed as a whole."""


@final
class ProgressBars:
    """One progress bar for each named piece of work; those that consist of one unit disappear when it is done."""

    def __init__(self, bars: Progress) -> None:
        self._bars = bars

    def start(self, name: str, total: int) -> ReportProgress:
        bars, task = self._bars, self._bars.add_task(name, total=total if total > 1 else None, note="")
        if total == 1:
            return lambda done, metrics: bars.update(task, visible=not done)
        shown = VALIDATION | {
            "explained_variance_ratio": "variance {:.2f}",
            "length": "length {:.2g}",
            "cosine_to_reptile": "cosine {:.2f}",
            "kept": "kept {:.2f}",
            "precision": "precision {:.2f}",
            "recall": "recall {:.2f}",
            "images_per_second": "{:.0f} images/s",
        }
        notes: dict[str, str] = {}

        def report(step: int, metrics: Mapping[str, float]) -> None:
            bars.update(task, completed=step)
            notes.update({key: form.format(metrics[key]) for key, form in shown.items() if key in metrics})
            bars.update(task, note="  ".join(notes[key] for key in shown if key in notes))

        return report


def progress_columns() -> tuple[ProgressColumn, ...]:
    """Progress and remaining time at any width of the terminal; the notes are cut off if there is no room."""
    return (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=16),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn(
            "{task.fields[note]}", markup=False, table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis")
        ),
    )


@final
class NoProgress:
    """Shows nothing."""

    def start(self, name: str, total: int) -> ReportProgress:
        return no_progress(name, total)


@contextlib.contextmanager
def progress_bars(output: Output) -> Iterator[ProgressBars | ProgressLines | NoProgress]:
    """Progress bars on a terminal, otherwise a line now and then."""
    console = Console(stderr=True)
    if output.quiet or output.json:
        yield NoProgress()
    elif console.is_interactive:
        with Progress(*progress_columns(), console=console, expand=True) as bars:
            yield ProgressBars(bars)
    else:
        with progress_lines(lambda line: print(line, file=sys.stderr, flush=True)) as lines:
            yield lines


@contextlib.contextmanager
def logging_to_stderr(output: Output) -> Iterator[None]:
    """Print the log messages of the library on standard error; only warnings with --quiet or --json."""
    logger = logging.getLogger("eigen_reptile")
    handler = RichHandler(console=Console(stderr=True), show_path=False, show_time=False)
    handler.addFilter(_make_printable)
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.WARNING if output.quiet or output.json else logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


def _make_printable(record: logging.LogRecord) -> bool:
    """Messages contain names of files and classes, which a terminal must not obey."""
    record.msg, record.args = printable(record.getMessage()), None
    return True


def show_results(results: Mapping[str, Result], output: Output, extra: Mapping[str, str]) -> None:
    """Print the test scores of runs: one table for each measure, or one JSON object."""
    if output.json:
        print(json.dumps({**extra, "results": {name: _as_json(result) for name, result in results.items()}}))
    elif not output.quiet:
        for measure in sorted({result.measure for result in results.values()}):
            chosen = {name: result for name, result in results.items() if result.measure == measure}
            show_table(_result_table(measure, chosen))


def _as_json(result: Result) -> dict[str, Any]:
    """The entries of a result that a script needs, without the scores of single tasks."""
    value = result.to_json()
    tests = value["test"] and [
        {name: part for name, part in scores.items() if name != "per_task"} for scores in value["test"]
    ]
    return {name: value[name] for name in ("measure", "choice", "seconds")} | {"test": tests}


def show_table(table: Table) -> None:
    """Print the whole table even if the terminal is narrower, because numbers must not be cut off."""
    wide = Console(width=1000, markup=False, emoji=False)  # a name may have brackets
    needed = wide.measure(table).maximum
    console = Console(width=max(needed, Console().width), markup=False, emoji=False)
    with console.capture() as rendered:  # on a broken pipe, Rich itself would end the process
        console.print(table)
    print(rendered.get(), end="")


def _result_table(measure: str, results: Mapping[str, Result]) -> Table:
    """One row for each method and number of shots."""
    tests = [scores for result in results.values() for scores in result.test or ()]
    title = f"{measure} on test tasks, with 95 % intervals over seeds, or over tasks for a single seed"
    table = Table(title=title if tests else "no test tasks were evaluated", title_justify="left")
    table.add_column("method", no_wrap=True)
    columns = list(dict.fromkeys(column for scores in tests for column in scores.columns))
    for heading in ("outer step", "shots", *columns):
        table.add_column(heading)
    for name, result in results.items():
        lr = f"{result.choice.lr:g}" if result.choice else "diverged"
        for scores in result.test or ():
            halves = scores.ci95_seeds if len(scores.per_seed) > 1 else scores.ci95_tasks
            shown = {
                column: format_score(measure, mean, half) + format_failed(scores.column(column))
                for column, mean, half in zip(scores.columns, scores.mean, halves, strict=True)
            }
            table.add_row(printable(name), lr, str(scores.shots), *(shown.get(column, "") for column in columns))
        if not result.test:
            table.add_row(printable(name), lr)
    return table


def comparison_table(first: str, second: str, measure: str, comparisons: Sequence[Comparison]) -> Table:
    """One row for each number of shots and measure."""
    table = Table(
        title=f"{measure} on the same test tasks: {printable(first)} minus {printable(second)}", title_justify="left"
    )
    for heading in ("", "first", "second", "difference over tasks", "p", "difference over seeds", "p"):
        table.add_column(heading)
    for comparison in comparisons:
        tasks, seeds = comparison.over_tasks, comparison.over_seeds
        table.add_row(
            f"{comparison.shots}-shot, {comparison.column}",
            *(
                format_score(measure, mean, None) + (f", {failed} tasks failed" if failed else "")
                for mean, failed in zip((tasks.first, tasks.second), comparison.failed, strict=True)
            ),
            format_score(measure, tasks.difference, tasks.ci95),
            f"{tasks.p:.2g}",
            format_score(measure, seeds.difference, seeds.ci95) if seeds else "needs at least two seeds",
            f"{seeds.p:.2g}" if seeds else "",
        )
    return table


def noise_table(found: MeasuredNoise) -> Table:
    """The class-transition matrix; for many classes only the most frequent confusions."""
    names = [printable(name) for name in found.names]
    rates = found.counts / np.maximum(found.counts.sum(1, keepdims=True), 1)
    if len(names) <= FEW_CLASSES:
        table = Table(title="class-transition matrix in %, with true classes as rows", title_justify="left")
        for heading in ("", *names):
            table.add_column(heading)
        for name, row in zip(names, rates, strict=True):
            table.add_row(name, *(f"{100 * rate:.2f}" for rate in row))
        return table
    table = Table(title="most frequent confusions", title_justify="left")
    for heading in ("true class", "given label", "% of the true class"):
        table.add_column(heading)
    wrong = rates * (1 - np.eye(len(rates)))
    for true, given in zip(*np.unravel_index(np.argsort(-wrong, axis=None)[:FEW_CLASSES], wrong.shape), strict=True):
        if wrong[true, given] > 0:
            table.add_row(names[true], names[given], f"{100 * wrong[true, given]:.2f}")
    return table
