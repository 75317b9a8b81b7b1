"""The command line in a child process, and what is promised about how it ends."""

import contextlib
import fcntl
import os
import re
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, final

from eigen_reptile.cli import main
from siege.case import BrokenPromiseError
from siege.forks import fork, receive_signals, wait

PIPE_BYTES = 1 << 20
CODES = (0, 1, 2, 129, 130, 143)
"""Success, failure, wrong argument, and the signals HUP, INT and TERM."""
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\x80-\x9f]")
LONGEST_ERROR = 4000
"""Characters; the message of an error is to be read."""


class Printed(NamedTuple):
    """How a command ended; the code is negative if a signal ended it."""

    code: int
    out: str
    err: str

    def problem_line(self) -> str:
        """The line that says what went wrong; empty if there is none."""
        return next((line for line in self.err.splitlines() if line.startswith("eigen-reptile: ")), "")


@final
class Running:
    """A command that was started."""

    def __init__(self, pid: int, out: int, err: int) -> None:
        self.pid = pid
        self._pipes = (out, err)
        self._code: int | None = None

    def ends_within(self, seconds: float) -> bool:
        """Whether it has ended, or does so in this time."""
        if self._code is None:
            self._code = wait(self.pid, seconds)
        return self._code is not None

    def send(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        if not self.ends_within(0):
            os.kill(self.pid, number)

    def finish(self, seconds: float) -> Printed:
        """Wait for its end; BrokenPromiseError if that takes too long."""
        if not self.ends_within(seconds):
            raise BrokenPromiseError(f"the command was still running after {seconds:g} s")
        assert self._code is not None
        return Printed(self._code, *(_drained(pipe) for pipe in self._pipes))


def start(args: Sequence[str], folder: Path, prepare: Callable[[], None] = lambda: None) -> Running:
    """Start a command in a folder; `prepare` is called in its process before."""
    (out, out_end), (err, err_end) = _pipe(), _pipe()

    def work() -> int:
        os.dup2(out_end, 1)
        os.dup2(err_end, 2)
        os.closerange(3, 256)  # the pipes of the siege must not stay open in what outlives it
        sys.stdout = open(1, "w", encoding="utf-8")  # noqa: SIM115
        sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace")  # noqa: SIM115
        return _main(args, folder, prepare)

    child = fork(work)
    os.close(out_end)
    os.close(err_end)
    return Running(child, out, err)


def run(args: Sequence[str], folder: Path, seconds: float = 120, prepare: Callable[[], None] = lambda: None) -> Printed:
    """Run a command in a folder to its end."""
    return start(args, folder, prepare).finish(seconds)


def must_succeed(args: Sequence[str], folder: Path) -> Printed:
    """Run a command that has no reason to fail."""
    printed = run(args, folder)
    check_manners(printed)
    if printed.code != 0:
        raise BrokenPromiseError(f"{' '.join(args[:3])} failed: {printed.problem_line() or printed.code}")
    return printed


def check_manners(printed: Printed, *others: int) -> None:
    """BrokenPromiseError unless it ended with a known exit code, or one of these, and with a line unless that is 0."""
    code, out, err = printed
    shown = " ".join(err[-300:].split())
    if "Traceback (most recent call last)" in out + err:
        raise BrokenPromiseError(f"a traceback: {' '.join(_last_line(err).split())[:300]}")
    if code in others and code < 0:
        return
    if code not in (*CODES, *others):
        raise BrokenPromiseError(f"exit code {code}: {shown}")
    lines = [line for line in err.splitlines() if line.startswith("eigen-reptile: ")]
    if len(lines) != (code != 0):
        raise BrokenPromiseError(f"{len(lines)} lines of problem with exit code {code}: {shown}")
    if lines and len(lines[0]) > LONGEST_ERROR:
        raise BrokenPromiseError(f"a message of {len(lines[0])} characters: {lines[0][:200]}")
    if found := CONTROL.search(err):
        raise BrokenPromiseError(f"the control character {found[0]!r} in its messages: {shown!r}")


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if re.match(r"\w[\w.]*(Error|Exception|Interrupt|Warning)\b", line)]
    return lines[-1] if lines else text[-300:]


def _main(args: Sequence[str], folder: Path, prepare: Callable[[], None]) -> int:
    """What the script `eigen-reptile` does, in a folder that stands for the user's home too."""
    os.chdir(folder)
    sys.argv = ["eigen-reptile", *args]
    os.environ |= {"HOME": str(folder), "TMPDIR": str(folder), "EIGEN_REPTILE_CACHE": str(folder / "cache")}
    tempfile.tempdir = None
    prepare()
    try:
        receive_signals()
        main()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except KeyboardInterrupt:  # before `main` could do anything about it, where Python has no better answer either
        print("eigen-reptile: interrupted", file=sys.stderr)
        return 130


def _pipe() -> tuple[int, int]:
    """A pipe that holds all that a command prints, so that nobody has to read it meanwhile."""
    receiver, sender = os.pipe()
    fcntl.fcntl(sender, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    os.set_blocking(receiver, False)
    return receiver, sender


def _drained(pipe: int) -> str:
    """What is in a pipe; what has been started by its writer may still hold its other end."""
    parts = []
    with contextlib.suppress(BlockingIOError):
        while part := os.read(pipe, PIPE_BYTES):
            parts.append(part)
    os.close(pipe)
    return b"".join(parts).decode(errors="replace")
