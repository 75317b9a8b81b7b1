"""Progress reports. The library prints nothing; the caller decides what to show."""

from collections.abc import Callable, Mapping

ReportProgress = Callable[[int, Mapping[str, float]], None]
"""Called with the number of units done so far, and with current metrics by name."""

StartProgress = Callable[[str, int], ReportProgress]
"""Called with the name of a piece of work and its number of units; returns the function to report progress to."""


def no_progress(name: str, total: int) -> ReportProgress:
    """Ignore all reports."""
    return lambda done, metrics: None
