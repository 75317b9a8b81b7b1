"""Ctrl-C, and the signals with which a system asks a process to end.

They interrupt whatever is being computed, at once: an iteration that is half done is done again by the next start. To
finish it instead would be wrong while compiling, because Ctrl-C also ends the compiler, and what is then computed
without it differs in its last bits.
"""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, final

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@final
class Interrupted(KeyboardInterrupt):
    """The process was asked to end; the message says from where the next start will continue."""

    def __init__(self, where: str = "", number: int = signal.SIGINT) -> None:
        super().__init__(f"interrupted {where}".strip())
        self.where = where
        self.number = number
        """The signal."""


def interrupted_at(where: str, cause: KeyboardInterrupt) -> Interrupted:
    """The same interruption, with the place from which the next start will continue."""
    return Interrupted(where, cause.number if isinstance(cause, Interrupted) else signal.SIGINT)


@contextmanager
def signals_as_interruptions() -> Iterator[None]:
    """Raise `Interrupted` in the main thread when a signal arrives; one that is ignored, as by nohup, stays so."""
    with _handled_by(_interrupt):
        yield


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Ignore all signals for the moment that it takes to save what must not be lost."""
    with _handled_by(signal.SIG_IGN):
        yield


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise Interrupted(number=number)


@contextmanager
def _handled_by(handler: Callable[[int, FrameType | None], Any] | signal.Handlers) -> Iterator[None]:
    """Exchange the handlers of the signals, which only the main thread can do; elsewhere nothing changes."""
    main = threading.current_thread() is threading.main_thread()
    # None is a handler that is not Python's, and could not be restored.
    exchanged = [number for number in SIGNALS if main and signal.getsignal(number) not in (signal.SIG_IGN, None)]
    before = {number: signal.signal(number, handler) for number in exchanged}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)
