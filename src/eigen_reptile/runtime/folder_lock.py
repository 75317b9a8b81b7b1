"""The right of one process at a time to write to a folder."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import final

from filelock import FileLock, Timeout

from eigen_reptile.errors import ConfigError


@final
@dataclass(frozen=True)
class FolderLock:
    """A lock on a folder that this process holds."""

    folder: Path
    identity: tuple[int, int] | None
    """Device and number of the lock file; while it is held, no other file can get them."""

    @classmethod
    @contextmanager
    def hold(cls, folder: Path) -> Iterator["FolderLock"]:
        """Hold the lock; ConfigError if another process does."""
        lock = FileLock(_lock_file(folder))
        try:
            lock.acquire(timeout=0)
        except Timeout:
            raise ConfigError(f"another process is using {folder}: wait for it, or choose another folder") from None
        try:
            yield cls(folder, _identity(folder))
        finally:
            lock.release()

    def check(self) -> None:
        """Raise ConfigError if the folder was removed, or if another process has it now."""
        if _identity(self.folder) != self.identity:
            raise ConfigError(
                f"{self.folder} was removed or taken over by another process while this one was using it: stopped "
                "without writing to it"
            )


def _lock_file(folder: Path) -> Path:
    return folder / ".lock"


def _identity(folder: Path) -> tuple[int, int] | None:
    try:
        found = _lock_file(folder).stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
