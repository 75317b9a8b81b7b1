"""Files that lie together, in a folder or an archive, read in place: nothing is unpacked, nothing is written."""

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
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import NoReturn, final

from eigen_reptile.data.bank import DataError

MAX_TAR = 1 << 29
"""Bytes that a compressed tar may unpack to."""
MAX_RATIO = 200
"""How many times its packed size a large member of a zip may be; pictures are hardly ever packed at all."""
LARGE = 1 << 20


class UnreadableError(DataError):
    """One file of a source cannot be read; the others may be."""


class Source(ABC):
    """Files under one place. Their paths are relative, with forward slashes; the path of a folder ends in one."""

    def __init__(self, place: Path) -> None:
        self.place = place

    @abstractmethod
    def stamp(self) -> str:
        """Another text whenever a file was added, removed or changed."""

    @property
    @abstractmethod
    def paths(self) -> list[str]:
        """All files, and folders as far as they are known, in order."""

    @abstractmethod
    def read(self, path: str, limit: int) -> bytes:
        """A file's content; UnreadableError if it cannot be had, or has more bytes than the limit."""

    def where(self, path: str) -> str:
        """The file's name for messages."""
        return f"{self.place}/{path}".encode(errors="backslashreplace").decode()

    def refuse(self, path: str, reason: str) -> NoReturn:
        raise UnreadableError(f"{self.where(path)} {reason}")


@final
class FolderSource(Source):
    """A folder, down to a depth: 1 is the files right in it. What is a folder at that depth counts as a file."""

    def __init__(self, place: Path, depth: int) -> None:
        super().__init__(place)
        self._depth = depth

    def stamp(self) -> str:
        return hashlib.sha256(repr((str(self.place.resolve()), self._listing)).encode()).hexdigest()

    @property
    def paths(self) -> list[str]:
        return [path for path, *_ in self._listing]

    def read(self, path: str, limit: int) -> bytes:
        file = self.place / path
        try:
            about = file.stat()
            if not stat.S_ISREG(about.st_mode):
                self.refuse(path, "is not a file")
            if about.st_size > limit:
                self.refuse(path, f"has {about.st_size} bytes, more than the {limit} allowed")
            return file.read_bytes()
        except OSError as error:
            raise UnreadableError(f"{self.where(path)} cannot be read: {error.strerror}") from error

    @cached_property
    def _listing(self) -> list[tuple[str, int, int, int]]:
        """Path, size and times of change of everything, found in one pass; those that cannot be asked are -1 long.

        The second time is that of the last change of any kind, which no copying with the first one kept can fake.
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
                            self._admit(Path(entry.path), linked)
                        walk(entry.path, path, depth - 1)

        try:
            walk(str(self.place), "", self._depth)
        except OSError as error:
            raise DataError(
                f"cannot read the folder {error.filename}: {error.strerror}; make it readable, or move it elsewhere"
            ) from error
        return sorted(found)

    def _admit(self, link: Path, linked: set[Path]) -> None:
        """Follow a link to a folder only if nothing is met twice that way."""
        target, here = link.resolve(), self.place.resolve()
        if target in linked or target.is_relative_to(here) or here.is_relative_to(target):
            raise DataError(f"{link} is a link to a folder that is in the data set already: remove it")
        linked.add(target)


@final
class ZipSource(Source):
    """A zip, or what lies in its folder `inside`, at any depth. A zip called INSIDE.zip need not have that folder."""

    def __init__(self, place: Path, inside: str = "") -> None:
        super().__init__(place)
        self._inside = inside

    def stamp(self) -> str:
        return _stamp_of_file(self.place, self._inside)

    @property
    def paths(self) -> list[str]:
        return sorted(self._members)

    def read(self, path: str, limit: int) -> bytes:
        member = self._members[path]
        if member.file_size > limit:
            self.refuse(path, f"claims to have {member.file_size} bytes, more than the {limit} allowed")
        if member.file_size > max(LARGE, MAX_RATIO * member.compress_size):
            self.refuse(path, f"claims to unpack to {member.file_size} bytes from {member.compress_size}")
        try:
            return self._archive.read(member)  # never more than it claims, and compared with its checksum
        except (OSError, EOFError, ValueError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
            raise UnreadableError(f"{self.where(path)} cannot be read: {error}") from error

    @cached_property
    def _archive(self) -> zipfile.ZipFile:
        try:
            return zipfile.ZipFile(self.place)
        except (OSError, ValueError, NotImplementedError, zipfile.BadZipFile) as error:
            raise DataError(f"{self.place} is not a whole zip file: {error}") from error

    @cached_property
    def _members(self) -> dict[str, zipfile.ZipInfo]:
        members = {member.filename: member for member in self._archive.infolist()}
        if len(members) < len(self._archive.infolist()):
            raise DataError(f"{self.place} holds two files of one name")
        for name, member in members.items():
            _check_member(self.place, name, ordinary=not stat.S_ISLNK(member.external_attr >> 16))
            if member.flag_bits & 1 or member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise DataError(f"{self.place} holds {name!r}, which is encrypted or packed in an unusual way")
        inside = {path: member for name, member in members.items() if (path := _after(name, self._inside))}
        return members if not inside and self.place.stem == self._inside else inside


@final
class TarSource(Source):
    """A compressed tar of a few files, which are all read at once: going back in it is to begin again."""

    def stamp(self) -> str:
        return _stamp_of_file(self.place)

    @property
    def paths(self) -> list[str]:
        return sorted(self._files)

    def read(self, path: str, limit: int) -> bytes:
        if len(self._files[path]) > limit:
            self.refuse(path, f"has {len(self._files[path])} bytes, more than the {limit} allowed")
        return self._files[path]

    @cached_property
    def _files(self) -> dict[str, bytes]:
        files = {}
        try:
            with gzip.open(self.place) as stream:
                unpacked = stream.read(MAX_TAR + 1)  # to the end, where the checksum is
            if len(unpacked) > MAX_TAR:
                raise DataError(f"{self.place} unpacks to more than the {MAX_TAR} bytes allowed")
            with tarfile.open(fileobj=io.BytesIO(unpacked), mode="r:") as archive:
                for member in archive:
                    ordinary = member.isdir() or (member.isreg() and not member.issparse())
                    _check_member(self.place, member.name, ordinary)
                    if content := archive.extractfile(member):
                        files[member.name] = content.read()
        except (OSError, EOFError, ValueError, zlib.error, tarfile.TarError) as error:
            raise DataError(f"{self.place} is not a whole compressed tar: {error}") from error
        return files


def _stamp_of_file(file: Path, inside: str = "") -> str:
    try:
        about = file.stat()
    except OSError as error:
        raise DataError(f"cannot read {file}: {error.strerror}") from error
    known = (str(file.resolve()), inside, about.st_size, about.st_mtime_ns, about.st_ctime_ns)
    return hashlib.sha256(repr(known).encode()).hexdigest()


def _check_member(archive: Path, name: str, ordinary: bool) -> None:
    """Refuse what would be dangerous to unpack, though nothing is: who packs such things may have done worse."""
    path = PurePosixPath(name.replace("\\", "/"))
    if not (name and ordinary) or path.is_absolute() or ".." in path.parts or ":" in "".join(path.parts[:1]):
        raise DataError(f"{archive} holds {name!r}, which is no ordinary file or points outside: refused as unsafe")


def _after(path: str, folder: str) -> str:
    """The path from within the last folder of this name on; nothing if there is none."""
    if not folder:
        return path
    _, found, rest = f"/{path}".rpartition(f"/{folder}/")
    return rest if found else ""
