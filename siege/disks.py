"""Disks that are full, broken or read-only: one line that says so, and nothing lost once the disk is mended."""

import errno
import os
import random
import resource
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from siege import command
from siege.case import Attack, BrokenPromiseError, Limits, Part, Prepare
from siege.file_events import at_change, fail_with, install
from siege.victims import Victim, Victims, by_folder

ALWAYS = 1 << 60
TMPFS_BYTES = (1 << 12, 1 << 19)
"""Space on a small file system beyond that of the files which are there at the beginning."""


def _prepare(folder: Path) -> Mapping[str, Prepare]:
    victims = Victims(folder)
    faults = {"full file": _full_file, "failing change": _failing_change, "read-only": _read_only}
    attacks: dict[str, Prepare] = {
        f"{name}, {kind}": partial(_with_fault, victims, name, fault)
        for kind, fault in faults.items()
        for name in Victims.NAMES
    }
    if _can_mount(folder):
        attacks |= {f"{name}, full disk": partial(_on_full_disk, victims, name) for name in Victims.NAMES}
    return attacks


Fault = Callable[[Victim, random.Random, Path], Callable[[], None]]
"""Draws a fault for a command in a folder; returns what makes it happen, in the process of the command."""


def _with_fault(victims: Victims, name: str, fault: Fault) -> Attack:
    return partial(_attack, _victim(victims, name), fault)


def _on_full_disk(victims: Victims, name: str) -> Attack:
    return partial(_full_disk, _victim(victims, name))


def _victim(victims: Victims, name: str) -> Victim:
    """The command. If one picture cannot be moved, the others are, and what they leave or take decides its new name."""
    victim = victims[name]
    if name != "move pictures":
        return victim
    return victim._replace(
        expected=by_folder(victim.expected), outcome=lambda folder: by_folder(victim.outcome(folder))
    )


def _attack(victim: Victim, fault: Fault, rng: random.Random, folder: Path) -> str:
    shutil.copytree(victim.before, folder, dirs_exist_ok=True)
    return _fail_and_repeat(victim, folder, fault(victim, rng, folder))


def _fail_and_repeat(
    victim: Victim, folder: Path, prepare: Callable[[], None], mend: Callable[[], None] = lambda: None
) -> str:
    printed = command.run(victim.args, folder, prepare=prepare)
    command.check_manners(printed)
    if printed.code not in (0, 1, 2):
        raise BrokenPromiseError(f"exit code {printed.code}: {printed.problem_line()}")
    mend()
    if printed.code == 0:
        victim.check(folder, cache_may_fail=True)
        return "went on"
    command.must_succeed(victim.args, folder)
    victim.check(folder)
    return "refused, same bits when repeated"


def _full_file(victim: Victim, rng: random.Random, folder: Path) -> Callable[[], None]:
    """No file can grow beyond a random size."""
    size = int(2 ** rng.uniform(0, 17))
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def _failing_change(victim: Victim, rng: random.Random, folder: Path) -> Callable[[], None]:
    """A file cannot be opened, renamed or removed, once or from then on."""
    number = rng.choice((errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EACCES))
    hook = at_change(rng.randint(1, victim.changes), fail_with(number, rng.choice((1, ALWAYS))), folder)
    return lambda: install(hook)


def _read_only(victim: Victim, rng: random.Random, folder: Path) -> Callable[[], None]:
    """Nothing can be changed, from the beginning or from some moment on."""
    hook = at_change(rng.choice((1, rng.randint(1, victim.changes))), fail_with(errno.EROFS, ALWAYS), folder)
    return lambda: install(hook)


def _full_disk(victim: Victim, rng: random.Random, folder: Path) -> str:
    """A small file system, which is made larger before the command is repeated."""
    used = sum(-(-file.stat().st_size // 4096) * 4096 + 4096 for file in victim.before.rglob("*"))
    disk = folder / "disk"
    with _tmpfs(disk, used + rng.randint(*TMPFS_BYTES)):
        shutil.copytree(victim.before, disk, dirs_exist_ok=True)
        return _fail_and_repeat(victim, disk, lambda: None, lambda: _mount("-o", "remount,size=64m", str(disk)))


@contextmanager
def _tmpfs(folder: Path, size: int) -> Iterator[None]:
    folder.mkdir()
    _mount("-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder))
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True, capture_output=True)


def _mount(*args: str) -> None:
    subprocess.run(["mount", *args], check=True, capture_output=True)


def _can_mount(folder: Path) -> bool:
    """Whether this user may mount file systems."""
    if os.geteuid() != 0:
        return False
    try:
        with _tmpfs(folder / "mounted", 1 << 20):
            return True
    except (OSError, subprocess.CalledProcessError):
        return False


DISKS = Part(
    "full disks, disks that fail at a random operation, read-only disks; then the command is repeated on a good one",
    _prepare,
    Limits(seconds=600),
    programs=("git", "mount", "umount"),
)
