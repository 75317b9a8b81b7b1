"""Read files from a folder or an archive in place: nothing is unpacked to disk, nothing is written."""

import gzip
import hashlib
import io
import os
import stat
import tarfile
import zipfile
import zlib
from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import NoReturn, final

from eigen_reptile.errors import DataError

MAX_TAR_BYTES = 1 << 29
"""Limit for the uncompressed size of a tar.gz."""
MAX_RATIO = 200
"""Limit for the compression ratio of a zip member; images hardly ever compress at all."""
LARGE_MEMBER = 1 << 20
"""Members up to this size may have any ratio."""


@final
class UnreadableFileError(Exception):
    """One file of a source cannot be read; others may be readable.

    Users of this package never see it: data sets either skip the file or raise a DataError.
    """


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
        return f"{self.location}/{path}".encode(errors="backslashreplace").decode()

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
        file = self.location / path
        try:
            about = file.stat()
            if not stat.S_ISREG(about.st_mode):
                self.fail(path, "is not a file")
            if about.st_size > limit:
                self.fail(path, f"has {about.st_size} bytes, more than the {limit} allowed")
            return file.read_bytes()
        except OSError as error:
            raise UnreadableFileError(f"{self.describe(path)} cannot be read: {error.strerror}") from error

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
            walk(str(self.location), "", self.depth)
        except OSError as error:
            raise DataError(
                f"cannot read the folder {error.filename}: {error.strerror}; make it readable, or move it elsewhere"
            ) from error
        return sorted(found)

    def _check_link(self, link: Path, linked: set[Path]) -> None:
        """Reject a link to a folder through which some file would be visited twice."""
        target, here = link.resolve(), self.location.resolve()
        if target in linked or target.is_relative_to(here) or here.is_relative_to(target):
            raise DataError(f"{link} is a link to a folder that is already in the data set: remove it")
        linked.add(target)


@final
@dataclass(frozen=True, eq=False)
class ZipSource(Source):
    """A zip, or only its folder `inside`, at whatever depth that is. If the zip is named INSIDE.zip, the folder may be
    missing."""

    inside: str = ""

    def fingerprint(self) -> str:
        return _fingerprint_file(self.location, self.inside)

    @property
    def paths(self) -> list[str]:
        return sorted(self._members)

    def read(self, path: str, limit: int) -> bytes:
        member = self._members[path]
        if member.file_size > limit:
            self.fail(path, f"claims to have {member.file_size} bytes, more than the {limit} allowed")
        if member.file_size > max(LARGE_MEMBER, MAX_RATIO * member.compress_size):
            self.fail(path, f"claims to unpack to {member.file_size} bytes from {member.compress_size}")
        try:
            return self._archive.read(member)  # reads at most the claimed size, and verifies the checksum
        except (OSError, EOFError, ValueError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
            raise UnreadableFileError(f"{self.describe(path)} cannot be read: {error}") from error

    @cached_property
    def _archive(self) -> zipfile.ZipFile:
        try:
            return zipfile.ZipFile(self.location)
        except (OSError, ValueError, NotImplementedError, zipfile.BadZipFile) as error:
            raise DataError(f"{self.location} is not a complete zip file: {error}") from error

    @cached_property
    def _members(self) -> dict[str, zipfile.ZipInfo]:
        members = {member.filename: member for member in self._archive.infolist()}
        if len(members) < len(self._archive.infolist()):
            raise DataError(f"{self.location} contains two files with the same name")
        for name, member in members.items():
            _check_member(self.location, name, is_regular=not stat.S_ISLNK(member.external_attr >> 16))
            if member.flag_bits & 1 or member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise DataError(
                    f"{self.location} contains {name!r}, which is encrypted or uses an unsupported compression method"
                )
        inside = {path: member for name, member in members.items() if (path := _path_inside(name, self.inside))}
        return members if not inside and self.location.stem == self.inside else inside


@final
@dataclass(frozen=True, eq=False)
class TarSource(Source):
    """A tar.gz of a few files, which are all read into memory at once, because seeking back would mean decompressing
    it again from the start."""

    def fingerprint(self) -> str:
        return _fingerprint_file(self.location)

    @property
    def paths(self) -> list[str]:
        return sorted(self._files)

    def read(self, path: str, limit: int) -> bytes:
        if len(self._files[path]) > limit:
            self.fail(path, f"has {len(self._files[path])} bytes, more than the {limit} allowed")
        return self._files[path]

    @cached_property
    def _files(self) -> dict[str, bytes]:
        files = {}
        try:
            with gzip.open(self.location) as stream:
                unpacked = stream.read(MAX_TAR_BYTES + 1)  # to the end, so that the checksum is verified
            if len(unpacked) > MAX_TAR_BYTES:
                raise DataError(f"{self.location} unpacks to more than the {MAX_TAR_BYTES} bytes allowed")
            with tarfile.open(fileobj=io.BytesIO(unpacked), mode="r:") as archive:
                for member in archive:
                    is_regular = member.isdir() or (member.isreg() and not member.issparse())
                    _check_member(self.location, member.name, is_regular)
                    if content := archive.extractfile(member):
                        files[member.name] = content.read()
        except (OSError, EOFError, ValueError, zlib.error, tarfile.TarError) as error:
            raise DataError(f"{self.location} is not a complete tar.gz: {error}") from error
        return files


def _fingerprint_file(file: Path, inside: str = "") -> str:
    try:
        about = file.stat()
    except OSError as error:
        raise DataError(f"cannot read {file}: {error.strerror}") from error
    known = (str(file.resolve()), inside, about.st_size, about.st_mtime_ns, about.st_ctime_ns)
    return hashlib.sha256(repr(known).encode()).hexdigest()


def _check_member(archive: Path, name: str, is_regular: bool) -> None:
    """Reject members that would be dangerous to unpack. Nothing is unpacked here, but such an archive is not to be
    trusted in other respects either."""
    path = PurePosixPath(name.replace("\\", "/"))
    if not (name and is_regular) or path.is_absolute() or ".." in path.parts or ":" in "".join(path.parts[:1]):
        raise DataError(
            f"{archive} contains {name!r}, which is not a regular file or points outside: rejected as unsafe"
        )


def _path_inside(path: str, folder: str) -> str:
    """The path relative to the last folder of this name in it; empty if there is none."""
    if not folder:
        return path
    _, found, rest = f"/{path}".rpartition(f"/{folder}/")
    return rest if found else ""
