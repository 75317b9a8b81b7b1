"""Child processes that start at once, because they are copies of a process that has imported everything."""

import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def fork(work: Callable[[], int], leads_group: bool = False) -> int:
    """Run `work` in a child process, which exits with the code that it returns; the id of the process.

    Signals that ask it to end are held back until it calls `receive_signals`: until then it is a copy of this process.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    if child := os.fork():
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        if leads_group:
            with suppress(OSError):  # it may have done so itself, or have ended
                os.setpgid(child, child)
        return child
    code = 1
    try:
        if leads_group:
            os.setpgid(0, 0)
        for name in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(name, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        code = work()
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(OSError, ValueError, KeyboardInterrupt):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def receive_signals() -> None:
    """From now on this child process is interrupted or ended by signals, also by those that were held back."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)


def wait(child: int, seconds: float) -> int | None:
    """The exit code of a child, negative if a signal ended it; None if it is still running after so many seconds."""
    deadline = time.monotonic() + seconds
    pause = 0.0005
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        if (left := deadline - time.monotonic()) <= 0:
            return None
        time.sleep(min(pause, left))
        pause = min(2 * pause, 0.02)


def end_group(leader: int) -> int:
    """Wait for a child that is about to end, or end it, and then everything that it has started; its exit code."""
    code = wait(leader, 1.0)
    with suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(leader, 0)[1]) if code is None else code
