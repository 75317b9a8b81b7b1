"""Contenders take turns; a figure is the median over the turns, a ratio is taken within each turn.

Contenders live in processes of their own, so that what one asks of the machine, as kept memory, helps no other. But by
luck a process is some per cent faster than the next, for all its life: what may differ by less, as methods of this
library do, shares one.
"""

import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
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
    home: str = ""
    """Entries of the same home share a process; without one an entry has its own."""


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
        with _warmed_up(entries) as timers:
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
def _warmed_up(entries: Mapping[str, Entry]) -> Iterator[Mapping[str, Callable[[float], float]]]:
    """Each contender as a function from seconds to calls per second."""
    homes: dict[str, dict[str, Entry]] = {}
    for name, entry in entries.items():
        homes.setdefault(entry.home or name, {})[name] = entry
    with ExitStack() as stack:
        processes = {home: stack.enter_context(_in_process(shared)) for home, shared in homes.items()}
        timers = {name: partial(processes[entry.home or name], name) for name, entry in entries.items()}
        for per_second in timers.values():
            per_second(0.0)  # answers when all of its process are warm
        yield timers


@contextmanager
def _in_process(entries: Mapping[str, Entry]) -> Iterator[Callable[[str, float], float]]:
    """Contenders that share one, as a function from name and seconds to calls per second; they are made meanwhile."""
    context = get_context("spawn")
    mail, its_end = context.Pipe()
    process = context.Process(target=_serve, args=(entries, its_end), daemon=True)
    process.start()
    its_end.close()  # so that its death is heard

    def per_second(name: str, seconds: float) -> float:
        try:
            mail.send((name, seconds))
            measured: float = mail.recv()
        except (EOFError, ConnectionError):
            raise RunError(f"the process of {name} died; what it said stands above") from None
        return measured

    try:
        yield per_second
    finally:
        process.terminate()
        process.join()


def _serve(entries: Mapping[str, Entry], mail: Connection) -> None:
    contenders = {name: entry.make() for name, entry in entries.items()}
    for contender in contenders.values():
        for _ in range(3):  # compiles, while others do the same
            contender()
    while True:
        name, seconds = mail.recv()
        mail.send(calls_per_second(contenders[name], seconds))


def calls_per_second(contender: Contender, seconds: float) -> float:
    """Over at least one call and this much time."""
    start, done = time.perf_counter(), 0
    while done < 1 or time.perf_counter() - start < seconds:
        contender()
        done += 1
    return done / (time.perf_counter() - start)
