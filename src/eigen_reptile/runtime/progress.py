"""Progress reports. The library prints nothing; the caller decides what to show."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

ReportProgress = Callable[[int, Mapping[str, float]], None]
"""Called with the number of units done so far, and with current metrics by name."""

StartProgress = Callable[[str, int], ReportProgress]
"""Called with the name of a piece of work and its number of units; returns the function to report progress to."""


def no_progress(name: str, total: int) -> ReportProgress:
    """Ignore all reports."""
    return lambda done, metrics: None


@contextmanager
def phase(start_progress: StartProgress, name: str) -> Iterator[None]:
    """Report work that cannot be divided, as a piece of one unit."""
    report = start_progress(name, 1)
    try:
        yield
    finally:
        report(1, {})
