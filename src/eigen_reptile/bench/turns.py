"""Contenders take turns; a figure is the median over the turns, a ratio is taken within each turn.

Each contender lives in a process of its own, so that what one asks of the machine, as kept memory, helps no other.
"""

import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import torch

from eigen_reptile.experiment import environment
from eigen_reptile.files import RunError
from eigen_reptile.progress import Announce

SECONDS_PER_TURN = 0.7

Contender = Callable[[], None]
"""Does one iteration."""


class Entry(NamedTuple):
    make: Callable[[], Contender]
    """Makes the contender, in its own process: a function of a module, or a partial of one."""
    does: float = 1
    """Iterations that count for each call, as those of seeds side by side."""


class Figures(NamedTuple):
    """What a benchmark found: a table, and what it depends on."""

    title: str
    about: str
    columns: tuple[str, ...]
    rows: list[list[str | float]]
    repeats: int
    environment: dict[str, Any]


def race(
    title: str,
    about: str,
    groups: Mapping[str, Mapping[str, Entry]],
    against: Sequence[str],
    repeats: int,
    announce: Announce,
) -> Figures:
    """Each group's contenders in turns, their speeds, and how many times as fast they are as some of them."""
    report = announce(title, repeats * len(groups))
    rows: list[list[str | float]] = []
    done = 0
    for group, entries in groups.items():
        speeds: dict[str, list[float]] = {name: [] for name in entries}
        with ExitStack() as stack:
            timers = {name: stack.enter_context(_in_own_process(name, entry.make)) for name, entry in entries.items()}
            for warmed_up in timers.values():
                warmed_up(0.0)
            for _ in range(repeats):
                for name, per_second in timers.items():
                    speeds[name].append(entries[name].does * per_second(SECONDS_PER_TURN))
                done += 1
                report(done, {})
        for name, own in speeds.items():
            ratios = [_ratio(own, speeds[other]) if other in speeds else "" for other in against]
            rows.append([group, name, statistics.median(own), min(own), max(own), *ratios])
    return Figures(title, about, race_columns(against), rows, repeats, environment(torch.device("cpu")))


def race_columns(against: Sequence[str]) -> tuple[str, ...]:
    return ("", "contender", "per second", "slowest", "fastest", *(f"times {other}" for other in against))


def _ratio(own: Sequence[float], other: Sequence[float]) -> float:
    return statistics.median(mine / theirs for mine, theirs in zip(own, other, strict=True))


@contextmanager
def _in_own_process(name: str, make: Callable[[], Contender]) -> Iterator[Callable[[float], float]]:
    """A contender as a function from seconds to calls per second; meanwhile it is made, and does its first calls."""
    context = get_context("spawn")
    mail, its_end = context.Pipe()
    process = context.Process(target=_serve, args=(make, its_end), daemon=True)
    process.start()
    its_end.close()  # so that its death is heard

    def per_second(seconds: float) -> float:
        try:
            mail.send(seconds)
            measured: float = mail.recv()
        except (EOFError, ConnectionError):
            raise RunError(f"the process of {name} died; what it said stands above") from None
        return measured

    try:
        yield per_second
    finally:
        process.terminate()
        process.join()


def _serve(make: Callable[[], Contender], mail: Connection) -> None:
    contender = make()
    for _ in range(3):  # compiles, while others do the same
        contender()
    while True:
        mail.send(calls_per_second(contender, mail.recv()))


def calls_per_second(contender: Contender, seconds: float) -> float:
    """Over at least one call and this much time."""
    start, done = time.perf_counter(), 0
    while done < 1 or time.perf_counter() - start < seconds:
        contender()
        done += 1
    return done / (time.perf_counter() - start)
