"""Contenders take turns; a figure is the median over the turns, a ratio is taken within each turn.

Contenders live in processes of their own, so that what one asks of the machine, as kept memory, helps no other. But by
luck a process is some per cent faster than the next, for all its life, and a machine's speed drifts: what may differ by
less, as methods of this library do, shares a process, and takes turns there call by call.
"""

import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import torch

from eigen_reptile.environment import environment
from eigen_reptile.files import RunError
from eigen_reptile.progress import Announce

SECONDS_PER_TURN = 0.7

Contender = Callable[[], None]
"""Does one iteration."""
Home = Callable[[float], Mapping[str, float]]
"""From seconds to the calls per second of each contender that lives there."""


class Entry(NamedTuple):
    make: Callable[[], Contender]
    """Makes the contender, in its own process: a function of a module, or a partial of one."""
    does: float = 1
    """Iterations that count for each call, as those of seeds side by side."""
    home: str = ""
    """Entries of the same home share a process and its turns; without one an entry has its own."""


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
        with _warmed_up(entries) as homes:
            for _ in range(repeats):
                for measured in homes:
                    for name, per_second in measured(SECONDS_PER_TURN).items():
                        speeds[name].append(entries[name].does * per_second)
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
def _warmed_up(entries: Mapping[str, Entry]) -> Iterator[Sequence[Home]]:
    """The homes of these contenders."""
    homes: dict[str, dict[str, Entry]] = {}
    for name, entry in entries.items():
        homes.setdefault(entry.home or name, {})[name] = entry
    with ExitStack() as stack:
        processes = [stack.enter_context(_in_process(shared)) for shared in homes.values()]
        for measured in processes:
            measured(0.0)  # answers when all that live there are warm
        yield processes


@contextmanager
def _in_process(entries: Mapping[str, Entry]) -> Iterator[Home]:
    """A process for these contenders, which are made meanwhile."""
    context = get_context("spawn")
    mail, its_end = context.Pipe()
    process = context.Process(target=_serve, args=(entries, its_end), daemon=True)
    process.start()
    its_end.close()  # so that its death is heard

    def measured(seconds: float) -> dict[str, float]:
        try:
            mail.send(seconds)
            found: dict[str, float] = mail.recv()
        except (EOFError, ConnectionError):
            raise RunError(f"the process of {' and '.join(entries)} died; what it said stands above") from None
        return found

    try:
        yield measured
    finally:
        process.terminate()
        process.join()


def _serve(entries: Mapping[str, Entry], mail: Connection) -> None:
    contenders = {name: entry.make() for name, entry in entries.items()}
    for contender in contenders.values():
        for _ in range(3):  # compiles, while others do the same
            contender()
    while True:
        mail.send(calls_per_second(contenders, mail.recv()))


def calls_per_second(contenders: Mapping[str, Contender], seconds: float) -> dict[str, float]:
    """Over at least one call of each, and this much time for each on average."""
    taken, done = dict.fromkeys(contenders, 0.0), 0
    while done < 1 or sum(taken.values()) < seconds * len(contenders):
        for name, contender in contenders.items():
            start = time.perf_counter()
            contender()
            taken[name] += time.perf_counter() - start
        done += 1
    return {name: done / total for name, total in taken.items()}
