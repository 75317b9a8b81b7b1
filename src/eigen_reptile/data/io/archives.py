"""Read files from a folder or a zip in place: nothing is unpacked to disk, nothing is written."""

import hashlib
import os
import stat
import struct
import zipfile
import zlib
from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import NoReturn, final
from zipfile import BadZipFile

from eigen_reptile.errors import DataError

MAX_RATIO = 200
"""Limit for the compression ratio of a zip member; images hardly ever compress at all."""
LARGE_MEMBER = 1 << 20
"""Members up to this size may have any ratio."""
MAX_SHOWN = 300
"""Longer paths are cut in messages; a name in a zip may have 65,535 bytes."""
VIRTUAL = (Path("/proc"), Path("/sys"))
"""Folders whose files the system makes up while they are read."""

_ZIP_ERRORS = (
    OSError, EOFError, ValueError, ArithmeticError, MemoryError, RuntimeError, struct.error, BadZipFile, zlib.error,
)  # fmt: skip
"""What zipfile raises on damaged archives."""


@final
class UnreadableFileError(Exception):
    """One file of a source cannot be read; others may be readable.

    Users of this package never see it: data sets either skip the file or raise a DataError.
    """


def read_file(file: Path, limit: int) -> bytes:
    """The content of a file; ValueError if it is not a regular file of at most `limit` bytes, or OSError."""
    descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK)  # the other end of a pipe may never be opened
    try:
        about = os.fstat(descriptor)
        if not stat.S_ISREG(about.st_mode):
            raise ValueError("is not a file")
        if about.st_size > limit:
            raise ValueError(f"has {about.st_size} bytes, more than the {limit} allowed")
        if not about.st_size:  # files in /proc claim this too, and reading them may wait or never end
            return b""
        with os.fdopen(descriptor, "rb", closefd=False) as stream:
            data = stream.read(about.st_size + 1)
    finally:
        os.close(descriptor)
    if len(data) != about.st_size:
        raise ValueError(f"does not have the {about.st_size} bytes that it claims to have")
    return data


@dataclass(frozen=True, eq=False)
class Source(ABC):
    """The files below one location. Paths are relative and use forward slashes; that of a folder ends with a slash."""

    location: Path

    @abstractmethod
    def fingerprint(self) -> str:
        """A string that changes whenever a file is added, removed or modified."""

    @property
    @abstractmethod
    def paths(self) -> list[str]:
        """All files in sorted order, and also folders where the source records them."""

    @abstractmethod
    def read(self, path: str, limit: int) -> bytes:
        """The content of a file; UnreadableFileError if it cannot be read or has more bytes than `limit`."""

    def describe(self, path: str) -> str:
        """The full path of a file, for messages; undecodable characters are escaped."""
        shown = path if len(path) <= MAX_SHOWN else f"{path[:MAX_SHOWN]}..."
        return f"{self.location}/{shown}".encode(errors="backslashreplace").decode()

    def fail(self, path: str, reason: str) -> NoReturn:
        raise UnreadableFileError(f"{self.describe(path)} {reason}")


@final
@dataclass(frozen=True, eq=False)
class FolderSource(Source):
    """A folder down to a depth; at depth 1 only its direct entries. A folder at the greatest depth counts as a file."""

    depth: int

    def fingerprint(self) -> str:
        return hashlib.sha256(repr((str(self.location.resolve()), self._listing)).encode()).hexdigest()

    @property
    def paths(self) -> list[str]:
        return [path for path, *_ in self._listing]

    def read(self, path: str, limit: int) -> bytes:
        try:
            return read_file(self.location / path, limit)
        except OSError as error:
            raise UnreadableFileError(f"{self.describe(path)} cannot be read: {error.strerror}") from error
        except ValueError as error:
            raise UnreadableFileError(f"{self.describe(path)} {error}") from error

    @cached_property
    def _listing(self) -> list[tuple[str, int, int, int]]:
        """Path, size, mtime and ctime of every entry, in one traversal; the size is -1 if `stat` fails.

        The ctime is included because a copy can preserve the mtime, but not the ctime.
        """
        found: list[tuple[str, int, int, int]] = []
        linked: set[Path] = set()

        def walk(folder: str, prefix: str, depth: int) -> None:
            with os.scandir(folder) as entries:
                for entry in entries:
                    path, size, changed, touched = f"{prefix}{entry.name}", -1, 0, 0
                    with suppress(OSError):
                        if depth > 1 and entry.is_dir():
                            path += "/"
                        else:
                            about = entry.stat()
                            size, changed, touched = about.st_size, about.st_mtime_ns, about.st_ctime_ns
                    found.append((path, size, changed, touched))
                    if path.endswith("/"):
                        if entry.is_symlink():
                            self._check_link(Path(entry.path), linked)
                        walk(entry.path, path, depth - 1)

        try:
            self._check_virtual(self.location, self.location.resolve())
            walk(str(self.location), "", self.depth)
        except OSError as error:
            raise DataError(
                f"cannot read the folder {error.filename}: {error.strerror}; make it readable, or move it elsewhere"
            ) from error
        return sorted(found)

    def _check_link(self, link: Path, linked: set[Path]) -> None:
        """Reject a link to a folder through which some file would be visited twice."""
        target, here = link.resolve(), self.location.resolve()
        self._check_virtual(link, target)
        if target in linked or target.is_relative_to(here) or here.is_relative_to(target):
            raise DataError(f"{link} is a link to a folder that is already in the data set: remove it")
        linked.add(target)

    def _check_virtual(self, folder: Path, target: Path) -> None:
        """Reject a folder of files that do not exist on any disk, and of which there may be endlessly many."""
        if any(target.is_relative_to(virtual) for virtual in VIRTUAL):
            raise DataError(f"{folder} leads to {target}, which is no place for images: choose another folder")


@final
@dataclass(frozen=True, eq=False)
class ZipSource(Source):
    """A zip, or only its folder `inside`, at whatever depth that is. If the zip is named INSIDE.zip, the folder may be
    missing."""

    inside: str = ""

    def fingerprint(self) -> str:
        return fingerprint_file(self.location, self.inside)

    @property
    def paths(self) -> list[str]:
        return sorted(self._members)

    def read(self, path: str, limit: int) -> bytes:
        member = self._members.get(path)
        if member is None:  # an image suffix in the name of a folder
            self.fail(path, "is not a file")
        if member.file_size > limit:
            self.fail(path, f"claims to have {member.file_size} bytes, more than the {limit} allowed")
        if member.file_size > max(LARGE_MEMBER, MAX_RATIO * member.compress_size):
            self.fail(path, f"claims to unpack to {member.file_size} bytes from {member.compress_size}")
        try:
            return self._archive.read(member)  # reads at most the claimed size, and verifies the checksum
        except _ZIP_ERRORS as error:
            raise UnreadableFileError(f"{self.describe(path)} cannot be read: {error!s:.200}") from error

    @cached_property
    def _archive(self) -> zipfile.ZipFile:
        try:
            return zipfile.ZipFile(self.location)
        except _ZIP_ERRORS as error:
            raise DataError(f"{self.location} is not a complete zip file: {error!s:.200}") from error

    @cached_property
    def _members(self) -> dict[str, zipfile.ZipInfo]:
        """The files by their path, and also the folders, whose paths end with a slash."""
        found = self._archive.infolist()
        members: dict[str, zipfile.ZipInfo] = {}
        for member in found:
            name = normalise_member(self.location, member.filename, not stat.S_ISLNK(member.external_attr >> 16))
            if name in members:
                raise DataError(f"{self.location} contains two files with the same name")
            if member.flag_bits & 1 or member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise DataError(
                    f"{self.location} contains {name[:80]!r}, which is encrypted or uses an unsupported compression "
                    "method"
                )
            members[name] = member
        if sum(member.compress_size for member in found) > self.location.stat().st_size:
            raise DataError(f"{self.location} contains files that overlap: rejected as unsafe")
        members = {name + "/" * member.is_dir(): member for name, member in members.items() if name != "."}
        inside = {path: member for name, member in members.items() if (path := _path_inside(name, self.inside))}
        return members if not inside and self.location.stem == self.inside else inside


def fingerprint_file(file: Path, inside: str = "") -> str:
    try:
        about = file.stat()
    except OSError as error:
        raise DataError(f"cannot read {file}: {error.strerror}") from error
    known = (str(file.resolve()), inside, about.st_size, about.st_mtime_ns, about.st_ctime_ns)
    return hashlib.sha256(repr(known).encode()).hexdigest()


def normalise_member(archive: Path, name: str, is_regular: bool) -> str:
    """The path of a member without redundant dots and slashes, by which it is told from others.

    Members that would be dangerous to unpack are rejected. Nothing is unpacked here, but such an archive is not to be
    trusted in other respects either.
    """
    path = PurePosixPath(name.replace("\\", "/"))
    if not (name and is_regular) or path.is_absolute() or ".." in path.parts or ":" in "".join(path.parts[:1]):
        raise DataError(
            f"{archive} contains {name[:80]!r}, which is not a regular file or points outside: rejected as unsafe"
        )
    return str(path)


def _path_inside(path: str, folder: str) -> str:
    """The path relative to the last folder of this name in it; empty if there is none."""
    if not folder:
        return path
    _, found, rest = f"/{path}".rpartition(f"/{folder}/")
    return rest if found else ""
