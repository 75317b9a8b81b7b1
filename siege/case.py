"""What a part of the siege is made of: attacks, each of which tries to break a promise."""

import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple, final


@final
class BrokenPromiseError(BaseException):
    """Something happened that the software promises never happens. No `except Exception` on the way may hide it."""


Attack = Callable[[random.Random, Path], str]
"""Tries one thing in an empty folder, which is also the working directory.

It returns what happened, such as "refused". If a promise was broken, it raises BrokenPromiseError, or lets through the
exception that should not have occurred.
"""


Prepare = Callable[[], Attack]
"""Makes what all cases of an attack need, when the first of them comes."""


class Limits(NamedTuple):
    """What one case may take; more is a broken promise."""

    seconds: float
    """From start to end."""
    cpu_seconds: float | None = None
    growth: int | None = None
    """Bytes by which the address space may grow."""


class Part(NamedTuple):
    """A kind of siege."""

    about: str
    prepare: Callable[[Path], Mapping[str, Prepare]]
    """Given a folder for what cases share, its attacks by name. Cases take them in turns."""
    limits: Limits
    batch: int = 1
    """Cases that share a process: a new process for each would take longer than most readers do."""
    programs: tuple[str, ...] = ("git",)
    """Patterns of the programs that its commands may start; `git` describes the environment."""


def generator_of(seed: int, part: str, number: int) -> random.Random:
    """The generator of everything random in a case, so that the case can be repeated alone."""
    return random.Random(f"{seed} {part} {number}")
