"""Hostile headers of a tar are refused; names of every dialect are read as Python's own module reads them."""

import gzip
import io
import os
import tarfile
from pathlib import Path

import pytest

from eigen_reptile.data.io import tar as module
from eigen_reptile.data.io.tar import TarSource
from eigen_reptile.errors import DataError
from image_files import write_tar


def header(name: str, size: int, kind: bytes = tarfile.REGTYPE) -> bytes:
    """A header with a valid checksum that claims any size, if need be in base 256."""
    block = bytearray(tarfile.TarInfo(name).tobuf())
    block[124:136] = b"%011o\0" % size if 0 <= size < 8**11 else (size % 2**95 | 1 << 95).to_bytes(12, "big")
    if size < 0:
        block[124:136] = (size % 2**96).to_bytes(12, "big")
    block[156:157] = kind
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


def write(tmp_path: Path, content: bytes) -> TarSource:
    (tmp_path / "x.tgz").write_bytes(gzip.compress(content))
    return TarSource(tmp_path / "x.tgz")


@pytest.mark.timeout(60)
@pytest.mark.parametrize("size", [-1, -512, -(2**40), 2**70, 2**63, 2**40, 8**11 - 1, 1024])
@pytest.mark.parametrize("kind", [tarfile.REGTYPE, tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME, b"?"])
def test_size_that_cannot_be_is_rejected(tmp_path: Path, size: int, kind: bytes) -> None:
    source = write(tmp_path, header("x.png", size, kind) + bytes(512))
    with pytest.raises(DataError, match=r"not a complete tar\.gz"):
        _ = source.paths


@pytest.mark.parametrize("names", [("a/x", "a/x"), ("a/x", "./a/x"), ("a/x", "a//x")])
def test_two_files_with_the_same_name_are_rejected(tmp_path: Path, names: tuple[str, str]) -> None:
    content = b"".join(header(name, 3) + b"one".ljust(512, b"\0") for name in names)
    with pytest.raises(DataError, match="two files with the same name"):
        _ = write(tmp_path, content + bytes(1024)).paths


@pytest.mark.parametrize("dialect", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_long_names_of_every_dialect_are_read(tmp_path: Path, dialect: int) -> None:
    name = "é/" + "long/" * 30 + "x.png"
    with tarfile.open(tmp_path / "x.tgz", "w:gz", format=dialect) as archive:
        for path in (name, "short"):
            member = tarfile.TarInfo(path)
            member.size = 600
            archive.addfile(member, io.BytesIO(path[:1].encode()[:1] * 600))
    source = TarSource(tmp_path / "x.tgz")
    assert source.paths == ["short", name]
    assert source.read("short", 600) == b"s" * 600


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE, b"S", b"?"])
def test_member_that_is_not_a_file_is_rejected(tmp_path: Path, kind: bytes) -> None:
    with pytest.raises(DataError, match="rejected as unsafe"):
        _ = write(tmp_path, header("x.png", 0, kind) + bytes(1024)).paths


@pytest.mark.parametrize("record", [b"99 path=x\n", b"0 path=x\n", b"x", b"9" * 5000, b"12 size=5000\n"])
def test_damaged_extended_header_is_rejected(tmp_path: Path, record: bytes) -> None:
    extended = header("pax", len(record), tarfile.XHDTYPE) + record.ljust(-(-len(record) // 512) * 512, b"\0")
    with pytest.raises(DataError, match=r"not a complete tar\.gz"):
        _ = write(tmp_path, extended + header("x", 0) + bytes(1024)).paths


def test_too_many_members_are_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_MEMBERS", 3)
    assert len(TarSource(write_tar(tmp_path / "few.tgz", {"a": b"", "b": b""})).paths) == 2
    with pytest.raises(DataError, match="more than the 3 members"):
        _ = TarSource(write_tar(tmp_path / "many.tgz", {str(number): b"" for number in range(4)})).paths


@pytest.mark.parametrize("flipped", range(0, 512, 7))
def test_damaged_header_is_rejected_or_harmless(tmp_path: Path, flipped: int) -> None:
    content = bytearray(header("x.png", 3) + b"one".ljust(512, b"\0") + bytes(1024))
    content[flipped] ^= 0x55
    with pytest.raises(DataError, match=r"not a complete tar\.gz"):
        _ = write(tmp_path, bytes(content)).paths


def test_random_bytes_are_rejected(tmp_path: Path) -> None:
    for length in (0, 1, 511, 512, 513, 5000):
        with pytest.raises(DataError, match=r"not a complete tar\.gz"):
            _ = write(tmp_path, os.urandom(length)).paths
