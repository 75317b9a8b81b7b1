"""Progress as a line of plain text now and then, where standard error is not a terminal."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import final

from eigen_reptile.runtime.progress import ReportProgress

VALIDATION = {"score": "validation {:.3g}", "ci95": "± {:.2g}"}
"""How the newest validation is shown."""


@final
@dataclass(eq=False)
class Unfinished:
    """A piece of work that is under way."""

    name: str
    total: int
    started: float
    done: int = 0
    first: tuple[float, int] | None = None
    """When the first report came and how much was done then; the speed is measured from there."""
    latest: float | None = None
    """When the newest report came."""
    notes: dict[str, str] = field(default_factory=dict)

    def advance(self, done: int, metrics: Mapping[str, float], now: float) -> None:
        self.done, self.latest = done, now
        self.first = self.first or (now, done)
        self.notes |= {name: form.format(metrics[name]) for name, form in VALIDATION.items() if name in metrics}

    def line(self, now: float) -> str:
        if self.total == 1:
            return f"{self.name}: {duration(now - self.started)} so far"
        parts = [f"{self.name}: {self.done} of {self.total} ({100 * self.done // max(self.total, 1)} %)"]
        if self.first is None or self.latest is None or self.done <= self.first[1]:
            parts.append(f"{duration(now - self.started)} so far")
        else:
            each = (self.latest - self.first[0]) / (self.done - self.first[1])
            parts.append(f"{duration(each * (self.total - self.done))} left")
        return ", ".join((*parts, *filter(None, [" ".join(self.notes.values())])))


@final
class ProgressLines:
    """Shows the work that is under way when it is time for the next line.

    The first line comes after 5 s, the next ones every 30 s, and after five minutes one comes every minute.
    """

    def __init__(self, write: Callable[[str], object], now: Callable[[], float] = time.monotonic) -> None:
        self._write, self._now = write, now
        self._began = self._shown = now()
        self._unfinished: list[Unfinished] = []
        self._lock = threading.Lock()

    def start(self, name: str, total: int) -> ReportProgress:
        work = Unfinished(name, total, self._now())
        with self._lock:
            self._unfinished.append(work)

        def report(done: int, metrics: Mapping[str, float]) -> None:
            with self._lock:
                work.advance(done, metrics, self._now())
                if done >= total and work in self._unfinished:
                    self._unfinished.remove(work)

        return report

    def show_if_due(self) -> None:
        """Write a line about each piece of work that has advanced since the last line, or else about the newest."""
        now = self._now()
        if now < self._shown + self._pause():
            return
        with self._lock:
            advanced = [work for work in self._unfinished if work.latest and work.latest > self._shown]
            lines = [work.line(now) for work in advanced or self._unfinished[-1:]]
        self._shown = now
        for line in lines:
            self._write(line)

    def _pause(self) -> float:
        since = self._shown - self._began
        return 5.0 if since == 0 else 30.0 if since < 300 else 60.0


@contextlib.contextmanager
def progress_lines(write: Callable[[str], object]) -> Iterator[ProgressLines]:
    """Lines that a thread of their own writes, because a single step of the work may take minutes."""
    lines, ended = ProgressLines(write), threading.Event()

    def show() -> None:
        with contextlib.suppress(OSError, ValueError):  # nobody reads them any more
            while not ended.wait(0.5):
                lines.show_if_due()

    thread = threading.Thread(target=show, name="progress", daemon=True)
    thread.start()
    try:
        yield lines
    finally:
        ended.set()
        thread.join(timeout=1)


def duration(seconds: float) -> str:
    """A length of time in its two largest units."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
