"""Lines of progress where standard error is not a terminal, by a clock that the tests set."""

import itertools
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from command_line import SMALL, Cli
from eigen_reptile.cli import output
from eigen_reptile.cli.progress_lines import ProgressLines, duration, progress_lines
from eigen_reptile.data import DATASETS
from eigen_reptile.runtime.progress import ReportProgress, phase
from patterns import Patterns


class Clock:
    """Seconds since the start, and what was written when."""

    def __init__(self) -> None:
        self.now = 0.0
        self.written: list[tuple[float, str]] = []
        self.lines = ProgressLines(lambda line: self.written.append((self.now, line)), lambda: self.now)

    def wait(self, until: float, each_second: Callable[[], object] = lambda: None) -> None:
        while self.now < until:
            self.now += 1
            each_second()
            self.lines.show_if_due()


def test_lines_come_after_5_seconds_then_every_30_and_then_every_minute() -> None:
    clock = Clock()
    report = clock.lines.start("reptile", 1000)
    clock.wait(500, lambda: report(int(clock.now), {}))
    assert [moment for moment, _ in clock.written] == [5, *range(35, 306, 30), 365, 425, 485]


def test_a_line_has_the_iteration_the_total_the_time_left_and_the_validation_score() -> None:
    clock = Clock()
    report = clock.lines.start("reptile", 400)
    report(100, {})  # where a resumed run begins
    clock.wait(
        34, lambda: report(100 + 2 * int(clock.now), {"score": 0.41234, "ci95": 0.0123} if clock.now < 9 else {})
    )
    clock.wait(35)
    assert [line for _, line in clock.written] == [
        "reptile: 110 of 400 (27 %), 2 min 25 s left, validation 0.412 ± 0.012",
        "reptile: 168 of 400 (42 %), 1 min 56 s left, validation 0.412 ± 0.012",
    ]


def test_what_happens_before_the_first_iteration_is_named_with_the_time_it_has_taken() -> None:
    clock = Clock()
    with phase(clock.lines.start, "loading data"):
        clock.wait(50)
        reading = clock.lines.start("reading folder", 70)
        clock.wait(70, lambda: reading(int(clock.now), {}))
    clock.lines.start("reptile", 3000)
    with phase(clock.lines.start, "validation before the first iteration"):
        clock.wait(100)
    clock.wait(130)
    assert clock.written == [
        (5, "loading data: 5 s so far"),
        (35, "loading data: 35 s so far"),
        (65, "reading folder: 65 of 70 (92 %), 5 s left"),
        (95, "validation before the first iteration: 25 s so far"),
        (125, "reptile: 0 of 3000 (0 %), 55 s so far"),
    ]


def test_work_that_advances_at_the_same_time_has_a_line_each_and_finished_work_none() -> None:
    clock = Clock()
    reports = [clock.lines.start(name, total) for name, total in (("first", 3), ("second", 300), ("third", 300))]
    clock.wait(35, lambda: [report(int(clock.now), {}) for report in reports])
    assert [line.partition(":")[0] for _, line in clock.written] == ["second", "third"] * 2


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.2, "0 s"), (59.7, "1 min 0 s"), (125.0, "2 min 5 s"), (3600.0, "1 h 0 min"), (90061.0, "25 h 1 min")],
)
def test_durations_have_their_two_largest_units(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@contextmanager
def all_at_once(write: Callable[[str], object]) -> Iterator[ProgressLines]:
    """Lines at the start of each piece of work, instead of now and then."""
    clock = itertools.count(0.0, 1000.0)
    lines = ProgressLines(write, lambda: next(clock))

    class Eager:
        def start(self, name: str, total: int) -> ReportProgress:
            report = lines.start(name, total)
            lines.show_if_due()
            return report

    yield Eager()  # type: ignore[misc]


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (
            ("train", "reptile", "sine", *SMALL, "--out", "run"),
            ["loading data", "run", "validation before the first iteration", "validation tasks", "test tasks, 10-shot"],
        ),
        (("report", "finished"), ["writing the report"]),
        (("eval", "finished", "--evaluation.tasks", "3", "--out", "again"), ["loading data", "validation tasks"]),
        (
            ("data", "noise", "patterns", "--noise.kind", "symmetric", "--noise.rate", "0.3", "--out", "noise.png"),
            ["loading data", "measuring the noise"],
        ),
    ],
    ids=["train", "report", "eval", "data"],
)
def test_commands_name_what_they_do_unless_they_are_to_be_quiet(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...], expected: list[str]
) -> None:
    monkeypatch.setitem(DATASETS, "patterns", Patterns())
    assert cli("train", "reptile", "sine", *SMALL, "--out", "finished", "--quiet").code == 0
    monkeypatch.setattr(output, "progress_lines", all_at_once)
    code, _, err = cli(*command)
    assert code == 0
    assert "\x1b" not in err
    named = [line.partition(":")[0] for line in err.splitlines()]
    assert [name for name in named if name in expected] == expected
    for path in (Path("run"), Path("again")):
        shutil.rmtree(path, ignore_errors=True)
    for switch in ("--quiet", "--json"):
        assert cli(*command, switch)[::2] == (0, "")


def test_a_thread_writes_the_lines_until_the_work_ends_or_nobody_reads_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ProgressLines, "_pause", lambda self: 0.0)
    written, closed = threading.Event(), threading.Event()

    def write(line: str) -> None:
        if written.is_set():
            closed.set()
            raise BrokenPipeError
        written.set()

    with progress_lines(write) as lines:
        lines.start("slow", 10)
        assert written.wait(30)
        assert closed.wait(30)
        lines.start("still working", 10)
    assert "progress" not in [thread.name for thread in threading.enumerate()]
