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
CHANGES = dict.fromkeys(("os.mkdir", "os.remove", "os.rmdir", "os.truncate", "os.chmod", "os.chown"), (0,)) | {
    "os.rename": (0, 1),
    "os.link": (0, 1),
    "os.symlink": (1,),
}
"""Events, and which of their arguments are paths that change."""
FOREIGN_CODE = {"os.system", "os.exec", "os.posix_spawn", "os.spawn", "subprocess.Popen", "pickle.find_class"}
HARMLESS = ("/dev/null", "/dev/tty", "/dev/shm/pym-", "/proc/self/")
"""Devices, and memory that Python shares between processes."""


def changed_paths(event: str, args: tuple[Any, ...]) -> list[str]:
    """The paths that an event is about to write, create, rename or remove; none for other events."""
    if event == "open":
        path, _, flags = args
        paths = [path] if isinstance(flags, int) and flags & WRITING else []
    elif event in CHANGES:
        paths = [args[place] for place in CHANGES[event]]
    else:
        return []
    texts = [os.fsdecode(path) for path in paths if not isinstance(path, int) and path is not None]
    # Links are not to be followed.
    return [os.path.abspath(text) for text in texts if not text.startswith(HARMLESS)]  # noqa: PTH100


def forbid_elsewhere(folder: Path, programs: tuple[str, ...]) -> AuditHook:
    """BrokenPromiseError on a change outside of a folder, or if other code is started than that of these patterns."""
    inside = f"{folder}{os.sep}"

    def hook(event: str, args: tuple[Any, ...]) -> None:
        for path in changed_paths(event, args):
            if not f"{path}{os.sep}".startswith(inside):
                raise BrokenPromiseError(f"{event} of {path}, which is outside of {folder}")
        if event in FOREIGN_CODE and not any(fnmatch(Path(os.fsdecode(args[0])).name, known) for known in programs):
            raise BrokenPromiseError(f"{event} of {args[0]!r:.80}")

    return hook


def at_change(count: int, act: Callable[[], None], folder: Path) -> AuditHook:
    """Calls `act` before the change of this number in a folder, counted from 1, and before all that follow."""
    inside, seen = f"{folder}{os.sep}", 0

    def hook(event: str, args: tuple[Any, ...]) -> None:
        nonlocal seen
        if any(path.startswith(inside) for path in changed_paths(event, args)):
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
