"""Time contenders in turns: a figure is the median over the turns, and a ratio is computed within each turn.

Contenders run in separate processes, so that settings of one, such as keeping freed memory, do not help another. But
one process can by chance be a few per cent faster than the next for its whole life, and a machine's speed drifts. So
contenders whose speeds may differ by less, such as the methods of this library, share a process and alternate there
call by call.
"""

import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import NamedTuple

import torch

from eigen_reptile.errors import RunError
from eigen_reptile.report.benchmark import BenchmarkTable
from eigen_reptile.runtime.environment import current_environment
from eigen_reptile.runtime.progress import StartProgress

SECONDS_PER_TURN = 0.7
WARM_UP_CALLS = 3

Contender = Callable[[], None]
"""Does one iteration."""
TimedProcess = Callable[[float], Mapping[str, float]]
"""From the seconds of a turn to the calls per second of each contender in a process."""


class ContenderFactory(NamedTuple):
    """How to make a contender in the process that times it."""

    make: Callable[[], Contender]
    """Makes the contender in its process, so it must be a module-level function or a partial of one."""
    iterations: float = 1
    """Iterations that one call counts for, for example one for each seed that is trained side by side."""
    process: str = ""
    """Entries that name the same process share it; an entry that names none gets one of its own."""


def compare_speeds(
    title: str,
    about: str,
    groups: Mapping[str, Mapping[str, ContenderFactory]],
    against: Sequence[str],
    repeats: int,
    start_progress: StartProgress,
) -> BenchmarkTable:
    """Time the contenders of each group in turns; the table has their speeds and the ratios to those in `against`."""
    report = start_progress(title, repeats * len(groups))
    rows: list[list[str | float]] = []
    done = 0
    for group, entries in groups.items():
        speeds: dict[str, list[float]] = {name: [] for name in entries}
        with _warm_processes(entries) as processes:
            for _ in range(repeats):
                for timed in processes:
                    for name, per_second in timed(SECONDS_PER_TURN).items():
                        speeds[name].append(entries[name].iterations * per_second)
                done += 1
                report(done, {})
        for name, own in speeds.items():
            ratios = [_median_ratio(own, speeds[other]) if other in speeds else "" for other in against]
            rows.append([group, name, statistics.median(own), min(own), max(own), *ratios])
    return measured_table(title, about, speed_columns(against), rows, repeats)


def measured_table(
    title: str, about: str, columns: tuple[str, ...], rows: list[list[str | float]], repeats: int
) -> BenchmarkTable:
    """A table of what was measured now, in the present environment."""
    return BenchmarkTable(title, about, columns, rows, repeats, asdict(current_environment(torch.device("cpu"))))


def speed_columns(against: Sequence[str]) -> tuple[str, ...]:
    return ("", "contender", "per second", "slowest", "fastest", *(f"times {other}" for other in against))


def _median_ratio(own: Sequence[float], other: Sequence[float]) -> float:
    return statistics.median(mine / theirs for mine, theirs in zip(own, other, strict=True))


@contextmanager
def _warm_processes(entries: Mapping[str, ContenderFactory]) -> Iterator[Sequence[TimedProcess]]:
    """Processes with these contenders, which start and warm up side by side."""
    shared: dict[str, dict[str, ContenderFactory]] = {}
    for name, entry in entries.items():
        shared.setdefault(entry.process or name, {})[name] = entry
    with ExitStack() as stack:
        processes = [stack.enter_context(_started_process(its_entries)) for its_entries in shared.values()]
        for timed in processes:
            timed(0.0)  # returns when the contenders of the process are warm
        yield processes


@contextmanager
def _started_process(entries: Mapping[str, ContenderFactory]) -> Iterator[TimedProcess]:
    """A process that makes these contenders in the background."""
    context = get_context("spawn")
    connection, its_end = context.Pipe()
    process = context.Process(target=_serve, args=(entries, its_end), daemon=True)
    process.start()
    its_end.close()  # so that `recv` fails when the process dies

    def timed(seconds: float) -> dict[str, float]:
        try:
            connection.send(seconds)
            speeds: dict[str, float] = connection.recv()
        except (EOFError, ConnectionError):
            raise RunError(f"the process of {' and '.join(entries)} died; its error message is above") from None
        return speeds

    try:
        yield timed
    finally:
        process.terminate()
        process.join()


def _serve(entries: Mapping[str, ContenderFactory], connection: Connection) -> None:
    """The main function of a process."""
    contenders = {name: entry.make() for name, entry in entries.items()}
    for contender in contenders.values():
        for _ in range(WARM_UP_CALLS):  # the first one compiles
            contender()
    while True:
        connection.send(calls_per_second(contenders, connection.recv()))


def calls_per_second(contenders: Mapping[str, Callable[[], object]], seconds: float) -> dict[str, float]:
    """Speeds over at least one call of each contender, and on average this many seconds for each."""
    taken, calls = dict.fromkeys(contenders, 0.0), 0
    while calls < 1 or sum(taken.values()) < seconds * len(contenders):
        for name, contender in contenders.items():
            start = time.perf_counter()
            contender()
            taken[name] += time.perf_counter() - start
        calls += 1
    return {name: calls / total for name, total in taken.items()}
