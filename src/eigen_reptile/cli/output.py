"""What a person sees: progress, what the library logs, tables; or JSON for scripts."""

import contextlib
import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

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

from eigen_reptile.bench import Figures
from eigen_reptile.cli.options import Output
from eigen_reptile.noise import Realised
from eigen_reptile.report.paired import Comparison
from eigen_reptile.report.tables import score

FEW_CLASSES = 12
"""Up to so many, a table of all of them can be read."""


class Bars:
    """Progress bars, one for each named task; or none."""

    def __init__(self, bars: Progress | None) -> None:
        self._bars = bars

    def task(self, name: str, total: int) -> Callable[[int, Mapping[str, float]], None]:
        if self._bars is None:
            return lambda step, metrics: None
        bars, task = self._bars, self._bars.add_task(name, total=total, note="")
        shown = {
            "score": "validation {:.3g}",
            "ci95": "± {:.2g}",
            "share": "share {:.2f}",
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
    """How far, and how much longer, whatever the width: what is left of it is for the notes."""
    return (
        TextColumn("{task.description}"),
        BarColumn(bar_width=16),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}", table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis")),
    )


@contextlib.contextmanager
def progress_bars(output: Output) -> Iterator[Bars]:
    if output.quiet or output.json:
        yield Bars(None)
        return
    with Progress(*progress_columns(), console=Console(stderr=True), expand=True) as bars:
        yield Bars(bars)


@contextlib.contextmanager
def logging_to_stderr(output: Output) -> Iterator[None]:
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


def show_results(results: Mapping[str, dict[str, Any]], output: Output, extra: Mapping[str, str]) -> None:
    if output.json:
        kept = ("measure", "choice", "test", "seconds")
        shown = {name: {key: result[key] for key in kept} for name, result in results.items()}
        for result in shown.values():
            result["test"] = result["test"] and [_without_tasks(test) for test in result["test"]]
        print(json.dumps({**extra, "results": shown}))
    elif not output.quiet:
        for measure in sorted({result["measure"] for result in results.values()}):
            chosen = {name: result for name, result in results.items() if result["measure"] == measure}
            show_table(_result_table(measure, chosen))


def show_table(table: Table) -> None:
    """Whole, even if the terminal is narrower: a number that is cut short is worth nothing."""
    needed = Console(width=1000).measure(table).maximum
    Console(width=max(needed, Console().width)).print(table)


def _without_tasks(test: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in test.items() if key != "per_task"}


def _result_table(measure: str, results: Mapping[str, dict[str, Any]]) -> Table:
    """One row for each method and number of shots."""
    tests = [test for result in results.values() for test in result["test"] or []]
    title = f"{measure} on test tasks, with 95 % intervals over seeds; over tasks for a single seed"
    table = Table(title=title if tests else "the test tasks were not touched", title_justify="left")
    table.add_column("method", no_wrap=True)
    columns = list(dict.fromkeys(column for test in tests for column in test["columns"]))
    for heading in ("outer step", "shots", *columns):
        table.add_column(heading)
    for name, result in results.items():
        lr = f"{result['choice']['lr']:g}" if result["choice"] else "diverged"
        for test in result["test"] or []:
            halves = test["ci95_seeds"] if len(test["per_seed"]) > 1 else test["ci95_tasks"]
            scores = [score(measure, *pair) for pair in zip(test["mean"], halves, strict=True)]
            shown = dict(zip(test["columns"], scores, strict=True))
            table.add_row(name, lr, str(test["shots"]), *(shown.get(column, "") for column in columns))
        if not result["test"]:
            table.add_row(name, lr)
    return table


def comparison_table(first: str, second: str, measure: str, comparisons: Sequence[Comparison]) -> Table:
    table = Table(title=f"{measure} on the same test tasks: {first} minus {second}", title_justify="left")
    for heading in ("", "first", "second", "difference over tasks", "p", "difference over seeds", "p"):
        table.add_column(heading)
    for comparison in comparisons:
        tasks, seeds = comparison.over_tasks, comparison.over_seeds
        table.add_row(
            f"{comparison.shots}-shot, {comparison.column}",
            score(measure, tasks.first, None),
            score(measure, tasks.second, None),
            score(measure, tasks.difference, tasks.ci95),
            f"{tasks.p:.2g}",
            score(measure, seeds.difference, seeds.ci95) if seeds else "needs two seeds",
            f"{seeds.p:.2g}" if seeds else "",
        )
    return table


def noise_table(found: Realised) -> Table:
    """The whole table of transitions; of many classes only those that are confused most."""
    shares = found.counts / np.maximum(found.counts.sum(1, keepdims=True), 1)
    if len(found.names) <= FEW_CLASSES:
        table = Table(title="share of each true class (row) told as each class (column), %", title_justify="left")
        for heading in ("", *found.names):
            table.add_column(heading)
        for name, row in zip(found.names, shares, strict=True):
            table.add_row(name, *(f"{100 * share:.2f}" for share in row))
        return table
    table = Table(title="what is confused most", title_justify="left")
    for heading in ("true class", "told as", "share of the true class, %"):
        table.add_column(heading)
    wrong = shares * (1 - np.eye(len(shares)))
    for true, told in zip(*np.unravel_index(np.argsort(-wrong, axis=None)[:FEW_CLASSES], wrong.shape), strict=True):
        if wrong[true, told] > 0:
            table.add_row(found.names[true], found.names[told], f"{100 * wrong[true, told]:.2f}")
    return table


def bench_table(figures: Figures) -> Table:
    table = Table(title=figures.title, title_justify="left")
    for heading in figures.columns:
        table.add_column(heading)
    for row in figures.rows:
        table.add_row(*(cell if isinstance(cell, str) else f"{cell:.4g}" for cell in row))
    return table
