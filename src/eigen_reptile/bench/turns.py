"""Contenders take turns; a figure is the median over the turns, a ratio is taken within each turn."""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch

from eigen_reptile.experiment import environment
from eigen_reptile.progress import Announce

SECONDS_PER_TURN = 0.7

Contender = Callable[[], None]
"""Does one iteration."""


class Entry(NamedTuple):
    contender: Contender
    does: int = 1
    """Iterations that count for each call, as those of seeds side by side."""


class Figures(NamedTuple):
    """What a benchmark found: a table, and what it depends on."""

    title: str
    columns: tuple[str, ...]
    rows: list[list[str | float]]
    repeats: int
    environment: dict[str, Any]


def race(
    title: str,
    groups: Mapping[str, Mapping[str, Entry]],
    against: Sequence[str],
    repeats: int,
    announce: Announce,
) -> Figures:
    """Each group's contenders in turns, their speeds, and how many times as fast they are as some of them."""
    report = announce(title, repeats)
    for entries in groups.values():
        for entry in entries.values():
            _per_second(entry, seconds=0.0)  # compiles and warms up
    speeds: dict[tuple[str, str], list[float]] = {}
    for turn in range(repeats):
        for group, entries in groups.items():
            for name, entry in entries.items():
                speeds.setdefault((group, name), []).append(_per_second(entry, SECONDS_PER_TURN))
        report(turn + 1, {})
    rows: list[list[str | float]] = []
    for (group, name), own in speeds.items():
        ratios = [_ratio(own, speeds[group, other]) if (group, other) in speeds else "" for other in against]
        rows.append([group, name, statistics.median(own), min(own), max(own), *ratios])
    columns = ("", "contender", "per second", "slowest", "fastest", *(f"times {other}" for other in against))
    return Figures(title, columns, rows, repeats, environment(torch.device("cpu")))


def _ratio(own: Sequence[float], other: Sequence[float]) -> float:
    return statistics.median(mine / theirs for mine, theirs in zip(own, other, strict=True))


def _per_second(entry: Entry, seconds: float) -> float:
    """Iterations per second over at least three calls and this much time."""
    start, done = time.perf_counter(), 0
    while done < 3 or time.perf_counter() - start < seconds:
        entry.contender()
        done += 1
    return entry.does * done / (time.perf_counter() - start)
