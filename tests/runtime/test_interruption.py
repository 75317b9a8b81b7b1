"""Signals that ask the process to end."""

import os
import signal
import sys
import threading
import time

import pytest

from eigen_reptile.runtime.interruption import (
    SIGNALS,
    Interrupted,
    held_back_from_children,
    interrupted_at,
    signals_as_interruptions,
    uninterrupted,
)


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_interrupts_unless_something_is_being_saved(number: int) -> None:
    before = signal.getsignal(number)
    with signals_as_interruptions():
        with uninterrupted():
            os.kill(os.getpid(), number)
        with pytest.raises(KeyboardInterrupt) as raised:
            os.kill(os.getpid(), number)
        with pytest.raises(Interrupted):  # the first one may have been swallowed
            os.kill(os.getpid(), number)
    assert signal.getsignal(number) is before
    assert isinstance(raised.value, Interrupted)
    assert (raised.value.number, str(raised.value)) == (number, "interrupted")
    found = interrupted_at("after iteration 3", raised.value)
    assert (found.number, str(found)) == (number, "interrupted after iteration 3")
    assert interrupted_at("here", KeyboardInterrupt()).number == signal.SIGINT


def test_a_signal_that_arrives_while_an_object_is_disposed_of_still_interrupts(
    capsys: pytest.CaptureFixture[str],
) -> None:
    class Disposed:
        def __del__(self) -> None:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(0)

    before = sys.unraisablehook
    with pytest.raises(Interrupted) as raised, signals_as_interruptions():  # noqa: PT012
        disposed = Disposed()
        del disposed
        time.sleep(20)
    assert raised.value.number == signal.SIGTERM
    assert sys.unraisablehook is before
    assert capsys.readouterr().err == ""


def test_a_signal_that_is_ignored_stays_so() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # what nohup does
    try:
        with signals_as_interruptions(), uninterrupted():
            pass
        with signals_as_interruptions():
            os.kill(os.getpid(), signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_threads_leave_the_signals_alone() -> None:
    problems = []

    def work() -> None:
        try:
            with signals_as_interruptions(), uninterrupted():
                pass
        except ValueError as error:
            problems.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert not problems


@pytest.mark.parametrize("blocked", [set(), {signal.SIGHUP}, set(SIGNALS)])
def test_signals_that_were_blocked_before_children_start_stay_blocked(blocked: set[int]) -> None:
    before = signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
    try:
        with held_back_from_children():
            assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) >= set(SIGNALS)
        assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == blocked
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
