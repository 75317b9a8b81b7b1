"""Images that have been decoded or drawn once, kept on disk as arrays that are memory-mapped.

An entry is a folder NAME-DIGEST with train.npy, validation.npy, test.npy and index.json. It is built in a temporary
folder and renamed, so that a folder with the name of an entry is always complete. The index contains the checksums of
the arrays and its own, which are compared whenever a process opens an entry. The cache may be deleted at any time.
"""

import hashlib
import json
import logging
import math
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, final, get_args

import numpy as np
import pooch
from filelock import FileLock, Timeout
from jaxtyping import UInt8

from eigen_reptile.data.bank import Split
from eigen_reptile.errors import DataError

log = logging.getLogger(__name__)

FORMAT = 2
"""Version of the layout of an entry."""
SPLITS: tuple[Split, ...] = get_args(Split)
PART = ".part"
"""Suffix of the temporary folder in which an entry is built."""
ZEROS = bytes(1 << 20)


class PackedSplit(NamedTuple):
    """The images of one split, class by class."""

    pixels: UInt8[np.ndarray, "N H W C"]
    names: tuple[str, ...]
    """Name of each class."""
    sizes: tuple[int, ...]
    """Number of images of each class."""
    groups: tuple[int, ...] = ()
    """For each image the number of its group, whose images resemble each other too much to be both in the support and
    among the queries of a task; empty if there are no groups."""


Allocate = Callable[[Split, tuple[int, int, int, int]], UInt8[np.ndarray, "N H W C"]]
"""Creates the array on disk that the images of a split are to be written into, from its first row on.

It may be longer than needed: rows beyond the sum of the sizes are ignored.
"""

Build = Callable[[Allocate], Mapping[Split, PackedSplit]]
"""Allocates an array for each of the three splits, fills it, and returns what it contains."""


def cache_folder() -> Path:
    """The folder for everything that can be built or downloaded again."""
    return Path(os.environ.get("EIGEN_REPTILE_CACHE") or pooch.os_cache("eigen-reptile"))


def load_or_build(name: str, key: Mapping[str, Any], build: Build) -> dict[Split, PackedSplit]:
    """The cached result of `build` for this name and key, memory-mapped; it is built first if it is not cached."""
    canonical = json.dumps([FORMAT, key], sort_keys=True, separators=(",", ":"), allow_nan=False)
    entry = cache_folder() / f"{name}-{hashlib.sha256(canonical.encode()).hexdigest()[:16]}"
    with suppress(_DamagedError):
        return _open_entry(entry)
    with _locked(entry):
        try:
            return _open_entry(entry)  # another process may have built it while this one was waiting
        except _DamagedError as error:
            if entry.exists():
                log.warning("the cached data in %s is damaged (%s): building it again", entry, error)
        _remove_leftovers(entry.parent)
        _write_entry(entry, key, build)
        try:
            return _open_entry(entry)
        except _DamagedError as error:
            raise DataError(
                f"the cache cannot keep data in {entry}: {error}; set EIGEN_REPTILE_CACHE to another folder"
            ) from error


@final
class _DamagedError(Exception):
    """An entry is missing, or is not as it was written."""


def _open_entry(entry: Path) -> dict[Split, PackedSplit]:
    try:
        index = json.loads((entry / "index.json").read_text(encoding="utf-8"))
        splits = index["splits"]
        if index["sha256"] != _checksum(splits):
            raise ValueError("index.json does not match its checksum")
        return {split: _open_split(entry / f"{split}.npy", **splits[split]) for split in SPLITS}
    except OSError as error:
        raise _DamagedError(error.strerror or str(error)) from error
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise _DamagedError(str(error)) from error


def _checksum(splits: Any) -> str:
    return hashlib.sha256(json.dumps(splits, sort_keys=True).encode()).hexdigest()


def _open_split(
    file: Path, names: list[str], sizes: list[int], groups: list[int], length: int, sha256: str
) -> PackedSplit:
    about = file.stat()
    if about.st_size != length:
        raise ValueError(f"{file.name} has {about.st_size} bytes, not {length}")
    if _hash_version(file, about.st_ino, about.st_mtime_ns, about.st_ctime_ns) != sha256:
        raise ValueError(f"{file.name} does not match its checksum")
    pixels = np.lib.format.open_memmap(file, mode="r")
    if pixels.dtype != np.uint8 or pixels.ndim != 4 or len(pixels) < sum(sizes) or len(names) != len(sizes):
        raise ValueError(f"{file.name} does not match its index")
    return PackedSplit(pixels[: sum(sizes)], tuple(names), tuple(sizes), tuple(groups))


@lru_cache(maxsize=64)
def _hash_version(file: Path, inode: int, changed: int, touched: int) -> str:
    """The checksum of a file, computed once for each version of it that this process opens."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def check_cache(folder: Path) -> list[str]:
    """What is wrong with the entries of a cache, a sentence each. Entries that are being built are left out."""
    problems = []
    for entry in sorted(folder.iterdir()):
        if re.fullmatch(r".+-[0-9a-f]{16}", entry.name) and entry.is_dir():
            try:
                _open_entry(entry)
            except _DamagedError as error:
                problems.append(
                    f"{entry} is damaged or of an older version ({error}): delete it, it will be built again"
                )
    return problems


def _write_entry(entry: Path, key: Mapping[str, Any], build: Build) -> None:
    part = entry.with_name(entry.name + PART)
    shutil.rmtree(part, ignore_errors=True)  # left by a build that was killed: this process holds the lock
    try:
        with _write_errors_explained(entry.parent):
            part.mkdir()
        splits = _write_arrays(part, build)
        with _write_errors_explained(entry.parent):
            with (part / "index.json").open("w", encoding="utf-8") as index:
                json.dump({"key": key, "splits": splits, "sha256": _checksum(splits)}, index)
                index.flush()
                os.fsync(index.fileno())
            shutil.rmtree(entry, ignore_errors=True)
            part.rename(entry)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _write_arrays(part: Path, build: Build) -> dict[Split, dict[str, Any]]:
    """Let `build` write its arrays, and return their descriptions for the index."""
    arrays: dict[Split, np.memmap[Any, np.dtype[np.uint8]]] = {}

    def allocate(split: Split, shape: tuple[int, int, int, int]) -> UInt8[np.ndarray, "N H W C"]:
        with _write_errors_explained(part.parent):
            arrays[split] = _create_array(part / f"{split}.npy", shape)
        return arrays[split]

    packed = build(allocate)
    with _write_errors_explained(part.parent):
        for array in arrays.values():
            array.flush()
        return {split: _describe(part / f"{split}.npy", content) for split, content in packed.items()}


def _describe(file: Path, packed: PackedSplit) -> dict[str, Any]:
    with file.open("rb") as stream:
        os.fsync(stream.fileno())
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    about = {"names": packed.names, "sizes": packed.sizes, "groups": packed.groups}
    return about | {"length": file.stat().st_size, "sha256": digest}


def _create_array(file: Path, shape: tuple[int, int, int, int]) -> "np.memmap[Any, np.dtype[np.uint8]]":
    """An array on disk, filled with zeros that are really written.

    On a full disk, writing into a hole of a sparse memory-mapped file would kill the process.
    """
    size, free = math.prod(shape), shutil.disk_usage(file.parent).free
    if size > free:
        raise DataError(
            f"{shape[0]} images of {shape[1]}x{shape[2]} take {size / 2**30:,.1f} GiB, but the cache "
            f"{file.parent.parent} has {free / 2**30:,.1f} left: use smaller images (`data.size`) or fewer, or set "
            "EIGEN_REPTILE_CACHE to another folder"
        )
    with file.open("wb") as out:
        header = {"descr": "|u1", "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(out, header)
        for left in range(size, 0, -len(ZEROS)):
            out.write(ZEROS[:left])
    array: np.memmap[Any, np.dtype[np.uint8]] = np.lib.format.open_memmap(file, mode="r+")
    return array


def _remove_leftovers(folder: Path) -> None:
    """Delete what killed builds have left, but nothing that a running process is building or waiting for."""
    for part in folder.glob(f"*{PART}"):
        lock = FileLock(_lock_file(part.with_name(part.name.removesuffix(PART))))
        with suppress(Timeout, OSError), lock.acquire(timeout=0):
            shutil.rmtree(part)


def _lock_file(entry: Path) -> Path:
    return entry.with_name(f".{entry.name}.lock")


@contextmanager
def _locked(entry: Path) -> Iterator[None]:
    """Wait until no other process is building this entry, and keep others from building it."""
    with _write_errors_explained(entry.parent):
        entry.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(_lock_file(entry))
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


@contextmanager
def _write_errors_explained(folder: Path) -> Iterator[None]:
    """Turn an OSError into a DataError that says what to do."""
    try:
        yield
    except OSError as error:
        raise DataError(
            f"cannot write to the cache {folder}: {error.strerror or error}; free some space there, "
            "or set EIGEN_REPTILE_CACHE to another folder"
        ) from error
