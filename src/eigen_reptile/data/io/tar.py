"""Read a tar.gz as a stream, without trusting the sizes and names in its headers."""

import gzip
import re
import tarfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, final

from eigen_reptile.data.io.archives import Source, fingerprint_file, normalise_member
from eigen_reptile.errors import DataError

MAX_TAR_BYTES = 200 << 20
"""Limit for the uncompressed size of a tar.gz; that of CIFAR-100 has 186 million bytes."""
MAX_MEMBERS = 10_000
MAX_NAME_BYTES = 1 << 16
"""Limit for an extended header, which contains the name of the next member if it is long."""
BLOCK = 512
FILES = (tarfile.REGTYPE, tarfile.AREGTYPE)
EXTENDED = (tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE, tarfile.XGLTYPE)


@final
@dataclass(frozen=True, eq=False)
class TarSource(Source):
    """A tar.gz of a few files, which are all read into memory at once, because seeking back would mean decompressing
    it again from the start."""

    def fingerprint(self) -> str:
        return fingerprint_file(self.location)

    @property
    def paths(self) -> list[str]:
        return sorted(self._files)

    def read(self, path: str, limit: int) -> bytes:
        if len(self._files[path]) > limit:
            self.fail(path, f"has {len(self._files[path])} bytes, more than the {limit} allowed")
        return self._files[path]

    @cached_property
    def _files(self) -> dict[str, bytes]:
        files: dict[str, bytes] = {}
        folders: set[str] = set()
        try:
            with gzip.open(self.location) as stream:
                for member in read_members(_BoundedStream(stream, MAX_TAR_BYTES)):
                    name = normalise_member(self.location, member.name, member.kind in (*FILES, tarfile.DIRTYPE))
                    if name in files or (member.kind in FILES and name in folders):
                        raise DataError(f"{self.location} contains two files with the same name")
                    if member.kind in FILES:
                        files[name] = member.content
                    else:
                        folders.add(name)
        except (OSError, EOFError, ValueError, zlib.error, tarfile.TarError) as error:
            raise DataError(f"{self.location} is not a complete tar.gz: {error}") from error
        return files


class TarMember(NamedTuple):
    """One entry of a tar."""

    name: str
    kind: bytes
    """The type flag of its header."""
    content: bytes


@final
class _BoundedStream:
    """Reads exactly what is asked for, up to a total; ValueError beyond that, EOFError at the end of the file."""

    def __init__(self, stream: gzip.GzipFile, total: int) -> None:
        self._stream, self._left = stream, total

    def read(self, size: int) -> bytes:
        if not 0 <= size <= self._left:
            raise ValueError(f"a member claims {size} bytes, but the archive may unpack to at most {MAX_TAR_BYTES}")
        data = self._stream.read(size)
        if len(data) < size:
            raise EOFError("it ends too early")
        self._left -= size
        return data

    def read_rest(self) -> None:
        """Read to the end, so that the checksum of the compressed data is verified."""
        while chunk := self._stream.read(1 << 16):
            self._left -= len(chunk)
            if self._left < 0:
                raise ValueError(f"it unpacks to more than the {MAX_TAR_BYTES} bytes allowed")


def read_members(stream: _BoundedStream) -> Iterator[TarMember]:
    """The members up to the block of zeros at the end; ValueError, EOFError or TarError if the tar is damaged."""
    long_name = ""
    for _ in range(MAX_MEMBERS):
        block = stream.read(BLOCK)
        if not any(block):
            stream.read_rest()
            return
        header = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
        if header.type in EXTENDED and not 0 <= header.size <= MAX_NAME_BYTES:
            raise ValueError(f"an extended header claims {header.size} bytes")
        size = 0 if header.type == tarfile.DIRTYPE else header.size
        content = stream.read(size)
        stream.read(-size % BLOCK)
        if header.type in EXTENDED:
            long_name = _long_name(header.type, content) or long_name
        else:
            yield TarMember(long_name or header.name, header.type, content)
            long_name = ""
    raise ValueError(f"it has more than the {MAX_MEMBERS} members allowed")


def _long_name(kind: bytes, content: bytes) -> str:
    """The name that an extended header gives to the next member; empty if it says nothing about the name."""
    if kind == tarfile.GNUTYPE_LONGNAME:
        return content.rstrip(b"\0").decode("utf-8", "surrogateescape")
    name = ""
    while content.strip(b"\0"):
        length = re.match(rb"([1-9]\d{0,5}) ", content)
        record = content[: int(length[1])] if length else b""
        if not length or not record.endswith(b"\n") or len(record) < int(length[1]):
            raise ValueError("an extended header is damaged")
        key, _, value = record[length.end() : -1].partition(b"=")
        if key == b"size" or key.startswith(b"GNU.sparse"):
            raise ValueError("an extended header changes the size of a member")
        content = content[len(record) :]
        if key == b"path":
            name = value.decode("utf-8", "surrogateescape")
    return name
