"""What a person sees: progress, what the library logs, tables; or JSON for scripts."""

import contextlib
import json
import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from rich.console import Console
from rich.logging import RichHandler
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from eigen_reptile.cli.options import Output


class Bars:
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
def progress_bars(output: Output) -> Iterator[Bars]:
    if output.quiet or output.json:
        yield Bars(None)
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
        kept = ("choice", "test", "seconds")
        print(json.dumps({**extra, "results": {n: {k: r[k] for k in kept} for n, r in results.items()}}))
    elif not output.quiet:
        table = Table(title="squared error on test tasks, mean and 95 % interval over seeds", title_justify="left")
        columns: list[int] = next((r["test"]["after"] for r in results.values() if r["test"]), [])
        table.add_column("method", no_wrap=True)
        for heading in ("outer step", *(f"{after} steps" for after in columns)):
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


def bench_table(figures: Mapping[str, Any]) -> Table:
    table = Table(title=figures["title"], title_justify="left")
    for heading in ("what", *figures["columns"]):
        table.add_column(heading)
    for row in figures["rows"]:
        table.add_row(*(cell if isinstance(cell, str) else f"{cell:.4g}" for cell in row))
    return table
