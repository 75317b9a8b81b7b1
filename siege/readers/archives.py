"""Tars and zips: headers with impossible fields, and real archives that were damaged."""

import gzip
import io
import random
import stat
import struct
import tarfile
import zipfile
from pathlib import Path

from eigen_reptile.data.io.archives import Source, UnreadableFileError, ZipSource
from eigen_reptile.data.io.tar import TarSource
from eigen_reptile.errors import DataError
from siege.mutate import NUMBERS, mutated
from siege.readers.refusal import outcome_of

NAMES = (
    "a.png", "c0/x.png", "c0/x.png/", "../x", "/etc/x", "", ".", "a\x00b", "C:/x", "a\\..\\b", "\udcff", "x" * 300,
    "c0/",
)  # fmt: skip
TYPES = b"0\x0012345678SLKxgDMNXA\xff"
LIMIT = 1 << 24


def generated_tar(rng: random.Random, folder: Path) -> str:
    """A tar of headers in which any field may be odd, packed as it should be."""
    members = [_tar_member(rng) for _ in range(rng.randint(1, 6))]
    end = bytes(rng.choice((1024, 1024, 512, 0)))
    return _read_tar(folder, gzip.compress(b"".join(members) + end, 1))


def damaged_tar(rng: random.Random, folder: Path) -> str:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=rng.choice((tarfile.GNU_FORMAT, tarfile.PAX_FORMAT))) as archive:
        for number in range(rng.randint(1, 4)):
            member = tarfile.TarInfo(f"{'long ' * rng.choice((1, 50))}{number}")
            content = rng.randbytes(rng.choice((0, 10, 600)))
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    data = stream.getvalue()
    if rng.random() < 0.5:
        return _read_tar(folder, gzip.compress(mutated(rng, data), 1))
    return _read_tar(folder, mutated(rng, gzip.compress(data, 1)))


def generated_zip(rng: random.Random, folder: Path) -> str:
    """A zip of members with odd names, types, flags and claims."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for number in range(rng.randint(1, 4)):
            member = zipfile.ZipInfo(
                rng.choice(NAMES).replace("\udcff", "\u00ff") if rng.random() < 0.5 else f"c0/{number}.png"
            )
            member.external_attr = rng.choice((0o644, stat.S_IFLNK | 0o777, stat.S_IFDIR | 0o755)) << 16
            member.compress_type = rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2))
            content = bytes(rng.choice((0, 10, 1 << 22))) if rng.random() < 0.3 else rng.randbytes(rng.randrange(99))
            archive.writestr(member, content, compresslevel=1) if member.filename else None
    data = bytearray(stream.getvalue())
    if rng.random() < 0.7:
        _falsify(rng, data)
    return _read_zip(folder, bytes(data))


def damaged_zip(rng: random.Random, folder: Path) -> str:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for number in range(rng.randint(0, 4)):
            archive.writestr(f"c{number % 2}/{number}.png", rng.randbytes(rng.randrange(200)), rng.choice((0, 8)))
    return _read_zip(folder, mutated(rng, stream.getvalue()))


def _falsify(rng: random.Random, data: bytearray) -> None:
    """Change a field of a header: sizes, offsets, flags, methods, counts, lengths of names."""
    headers = [place for mark in (b"PK\x01\x02", b"PK\x03\x04", b"PK\x05\x06") if (place := data.find(mark)) >= 0]
    place = rng.choice(headers) + 4 + rng.randrange(42)
    width = rng.choice((1, 2, 4))
    if place + width <= len(data):
        data[place : place + width] = (rng.choice(NUMBERS) % 2 ** (8 * width)).to_bytes(width, "little")


def _tar_member(rng: random.Random) -> bytes:
    """A header with a right checksum, and content that need not have the size that it claims."""
    content = rng.choice(
        (b"", b"abc", rng.randbytes(600), b"30 size=-512\n", b"22 path=../../x\n", b"25 GNU.sparse.size=9\n")
    )
    header = bytearray(512)
    name = rng.choice(NAMES).encode("utf-8", "surrogateescape")[:100]
    header[: len(name)] = name
    for place, width in ((100, 8), (108, 8), (116, 8), (136, 12), (329, 8), (337, 8)):
        header[place : place + width] = _tar_number(rng, rng.randrange(9), width)
    header[124:136] = _tar_number(rng, len(content), 12)
    header[156] = rng.choice(TYPES) if rng.random() < 0.4 else TYPES[0]
    header[257:265] = rng.choice((b"ustar\x0000", b"ustar  \x00", bytes(8)))
    header[148:156] = b" " * 8
    if rng.random() < 0.9:
        header[148:156] = b"%06o\x00 " % sum(header)
    return bytes(header) + content + bytes(-len(content) % 512)


def _tar_number(rng: random.Random, usual: int, width: int) -> bytes:
    """A number as octal digits, or in base 256 where it may be negative or huge."""
    if rng.random() < 0.8:
        return b"%0*o\x00" % (width - 1, usual)
    odd = rng.choice((-512, -1, -(2**40), 2**40, 2**62, 2**70, *NUMBERS))
    base256 = struct.pack(">B", 0o377 if odd < 0 else 0o200) + (odd % 256 ** (width - 1)).to_bytes(width - 1, "big")
    return rng.choice(
        (base256, b"9" * width, b"-1".ljust(width, b"\x00"), bytes(width), b"%0*o" % (width, 8**width - 1))
    )


def _read_tar(folder: Path, data: bytes) -> str:
    (folder / "x.tar.gz").write_bytes(data)
    return _read_all(TarSource(folder / "x.tar.gz"))


def _read_zip(folder: Path, data: bytes) -> str:
    (folder / "x.zip").write_bytes(data)
    return _read_all(ZipSource(folder / "x.zip"))


def _read_all(source: Source) -> str:
    """Read every file of a source, whose names must not be lost on the way."""
    return outcome_of(
        lambda: [source.read(path, LIMIT) for path in source.paths if not path.endswith("/")],
        DataError,
        UnreadableFileError,
    )
