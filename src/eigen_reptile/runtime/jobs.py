"""Independent jobs that run in other processes, and the messages that they send."""

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, Protocol, TypeVar, final, runtime_checkable

from eigen_reptile.errors import ConfigError, DataError, RunError
from eigen_reptile.runtime.progress import ReportProgress, StartProgress

log = logging.getLogger(__name__)

SECONDS_BETWEEN_MESSAGES = 0.2

FAILURES = (ConfigError, DataError, RunError, OSError)
"""Errors that make one job fail and do not affect the others; anything else is a bug."""

R = TypeVar("R")


@runtime_checkable  # because the tests check types at run time
class Job(Protocol[R]):
    """A named piece of work that can be sent to another process."""

    @property
    def name(self) -> str: ...

    def run(self, start_progress: StartProgress) -> R: ...

    def save(self, result: R) -> None:
        """Store a result that was computed on another machine."""


@final
@dataclass(frozen=True)
class Outcome(Generic[R]):
    """The results and errors of jobs, by the names of the jobs."""

    results: dict[str, R]
    failed: dict[str, Exception]

    @staticmethod
    def of(jobs: Sequence[Job[R]], ended: Mapping[str, "R | RunError"]) -> "Outcome[R]":
        """Sort results and errors into the order of the jobs."""
        outcome: Outcome[R] = Outcome({}, {})
        for job in jobs:
            end = ended[job.name]
            if isinstance(end, RunError):
                outcome.failed[job.name] = end
            else:
                outcome.results[job.name] = end
        return outcome


class ProgressStarted(NamedTuple):
    """Message: a progress bar starts."""

    bar: str
    total: int


class ProgressAdvanced(NamedTuple):
    """Message: a progress bar advances."""

    bar: str
    step: int
    metrics: dict[str, float]


class Logged(NamedTuple):
    """Message: something was logged."""

    level: int
    text: str


class JobEnded(NamedTuple):
    """Message: a job has ended, with a result or (then `result` is None) with a problem."""

    result: Any
    problem: str


Message = ProgressStarted | ProgressAdvanced | Logged | JobEnded
Send = Callable[[Message], None]


def handle_message(message: Message, bars: dict[str, ReportProgress], start_progress: StartProgress) -> Any:
    """Show the progress in a message, or log it; return the result or the error if the job has ended."""
    if isinstance(message, ProgressStarted):
        bars[message.bar] = start_progress(message.bar, message.total)
    elif isinstance(message, ProgressAdvanced):
        bars[message.bar](message.step, message.metrics)
    elif isinstance(message, Logged):
        log.log(message.level, "%s", message.text)
    else:
        return RunError(message.problem) if message.result is None else message.result
    return None


def run_job(job: Job[R], send: Send) -> JobEnded:
    """Run a job, send its progress and what it logs, and return how it ended."""
    try:
        with _log_messages(job.name, send):
            return JobEnded(job.run(_progress_messages(job.name, send)), "")
    except FAILURES as error:
        return JobEnded(None, str(error))


def _progress_messages(job: str, send: Send) -> StartProgress:
    """Send progress as messages; the name of every bar starts with that of the job."""

    def start_progress(name: str, total: int) -> ReportProgress:
        bar = name if name == job else f"{job}: {name}"
        send(ProgressStarted(bar, total))
        sent = 0.0

        def report(step: int, metrics: Mapping[str, float]) -> None:
            nonlocal sent
            if metrics or step == total or time.monotonic() - sent > SECONDS_BETWEEN_MESSAGES:
                send(ProgressAdvanced(bar, step, dict(metrics)))
                sent = time.monotonic()

        return report

    return start_progress


@contextmanager
def _log_messages(job: str, send: Send) -> Iterator[None]:
    """Send what the package logs, down to debugging messages: each of them is a sign of life."""
    logger, handler = logging.getLogger(__name__.partition(".")[0]), _LogMessages(job, send)
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


@final
class _LogMessages(logging.Handler):
    """Sends log records as messages that start with the name of the job."""

    def __init__(self, job: str, send: Send) -> None:
        super().__init__()
        self._job, self._send = job, send

    def emit(self, record: logging.LogRecord) -> None:
        self._send(Logged(record.levelno, f"{self._job}: {record.getMessage()}"))
