"""Audit hooks of a process: what it writes where, and faults at any of these points.

Python reports an operation on a file to its audit hooks before it is done. So a hook can count them, kill the process
there, or make one of them fail as a broken disk would.
"""

import mmap
import os
import signal
import sys
from collections.abc import Callable
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from siege.case import BrokenPromiseError

AuditHook = Callable[[str, tuple[Any, ...]], None]

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
CHANGES = {
    "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.link", "os.symlink", "os.truncate", "os.chmod", "os.chown",
}  # fmt: skip
FOREIGN_CODE = {"os.system", "os.exec", "os.posix_spawn", "os.spawn", "subprocess.Popen", "pickle.find_class"}
HARMLESS = ("/dev/null", "/dev/tty", "/dev/shm/pym-", "/proc/self/")
"""Devices, and memory that Python shares between processes."""


def changed_path(event: str, args: tuple[Any, ...]) -> str | None:
    """The path that an event is about to write, create, rename or remove; None for other events."""
    if event == "open":
        path, _, flags = args
        if not (isinstance(flags, int) and flags & WRITING):
            return None
    elif event in CHANGES:
        path = args[0]
    else:
        return None
    if isinstance(path, int) or path is None:
        return None
    text = os.fsdecode(path)
    return None if text.startswith(HARMLESS) else os.path.abspath(text)  # noqa: PTH100 (links are not to be followed)


def forbid_elsewhere(folder: Path, programs: tuple[str, ...]) -> AuditHook:
    """BrokenPromiseError on a change outside of a folder, or if other code is started than that of these patterns."""
    inside = f"{folder}{os.sep}"

    def hook(event: str, args: tuple[Any, ...]) -> None:
        path = changed_path(event, args)
        if path is not None and not f"{path}{os.sep}".startswith(inside):
            raise BrokenPromiseError(f"{event} of {path}, which is outside of {folder}")
        if event in FOREIGN_CODE and not any(fnmatch(Path(os.fsdecode(args[0])).name, known) for known in programs):
            raise BrokenPromiseError(f"{event} of {args[0]!r:.80}")

    return hook


def at_change(count: int, act: Callable[[], None], folder: Path) -> AuditHook:
    """Calls `act` before the change of this number in a folder, counted from 1, and before all that follow."""
    inside, seen = f"{folder}{os.sep}", 0

    def hook(event: str, args: tuple[Any, ...]) -> None:
        nonlocal seen
        path = changed_path(event, args)
        if path is not None and path.startswith(inside):
            seen += 1
            if seen >= count:
                act()

    return hook


def count_changes(counter: mmap.mmap, folder: Path) -> AuditHook:
    """Counts the changes in a folder, in memory that is shared with the parent process."""

    def count() -> None:
        counter[:8] = (int.from_bytes(counter[:8], "little") + 1).to_bytes(8, "little")

    return at_change(1, count, folder)


def send_to_self(number: signal.Signals) -> Callable[[], None]:
    """Sends a signal to this process, once."""
    sent = False

    def act() -> None:
        nonlocal sent
        if not sent:
            sent = True
            os.kill(os.getpid(), number)

    return act


def fail_with(number: int, times: int) -> Callable[[], None]:
    """Fails with this error of the operating system so many times."""
    left = times

    def act() -> None:
        nonlocal left
        if left > 0:
            left -= 1
            raise OSError(number, os.strerror(number))

    return act


def install(*hooks: AuditHook) -> None:
    """Add hooks to this process, which cannot be removed again: to be called in a child process."""
    for hook in hooks:
        sys.addaudithook(hook)
