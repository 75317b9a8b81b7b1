"""Ctrl-C, and the signals with which a system asks a process to end.

They interrupt whatever is being computed, at once: an iteration that is half done is done again by the next start. To
finish it instead would be wrong while compiling, because Ctrl-C also ends the compiler, and what is then computed
without it differs in its last bits.
"""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker
from types import FrameType
from typing import Any, final

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
SECONDS = 0.01
"""After which a signal that had no effect is sent again."""


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
    with handled_by(_interrupt), _sent_again_if_lost():
        yield


@contextmanager
def _sent_again_if_lost() -> Iterator[None]:
    """Python ignores, and prints, what is raised while it disposes of an object: send that signal once more."""
    before = sys.unraisablehook

    def send_again(lost: "sys.UnraisableHookArgs") -> None:
        if isinstance(lost.exc_value, Interrupted):
            threading.Timer(SECONDS, os.kill, (os.getpid(), lost.exc_value.number)).start()
        else:
            before(lost)

    sys.unraisablehook = send_again
    try:
        yield
    finally:
        sys.unraisablehook = before


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Ignore all signals for the moment that it takes to save what must not be lost."""
    with handled_by(_ignore):
        yield


def _ignore(number: int, frame: FrameType | None) -> None:
    """Unlike SIG_IGN, of which Python complains if a signal has arrived a moment before."""


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise Interrupted(number=number)


@contextmanager
def held_back_from_children() -> Iterator[None]:
    """Processes that are started in this context receive signals only once they call a function below.

    They inherit the blocked signals of the thread that starts them, and so they cannot be hit while they import torch.
    Meanwhile this process receives its signals in another thread.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    resource_tracker.ensure_running()  # which unblocks signals
    done = threading.Event()
    threading.Thread(target=done.wait, daemon=True).start()
    try:
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        yield
    finally:
        done.set()
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def interrupt_once() -> None:
    """From now on, the first signal raises `Interrupted`; later ones have no effect.

    Signals that are ignored stay ignored. One that was held back raises here. For a process that gets each signal
    twice: from the terminal, and from the process that has started it.
    """

    received: list[int] = []

    def interrupt(number: int, frame: FrameType | None) -> None:
        received.append(number)
        if len(received) == 1:
            raise Interrupted(number=number)

    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, interrupt)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)


def ignore_signals() -> None:
    """From now on ignore all signals that ask the process to end."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)


@contextmanager
def handled_by(handler: Callable[[int, FrameType | None], Any] | signal.Handlers) -> Iterator[None]:
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
