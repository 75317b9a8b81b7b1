"""How long things tell how far they are. The library prints nothing: whoever calls it may show this."""

from collections.abc import Callable, Mapping

Report = Callable[[int, Mapping[str, float]], None]
"""Told how much is done so far, and the newest numbers worth showing."""

Announce = Callable[[str, int], Report]
"""Told the name of a piece of work and how much it is; gives back where to report."""


def silent(name: str, total: int) -> Report:
    """An `Announce` for those who do not want to know."""
    return lambda done, numbers: None
