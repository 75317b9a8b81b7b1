"""Pictures that were once read or drawn, kept on the disk as arrays that open at once.

An entry is a folder NAME-DIGEST with train.npy, validation.npy, test.npy and index.json. It is built aside and renamed,
so that what bears the name of an entry is whole. The cache may be deleted at any time.
"""

import hashlib
import json
import logging
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, get_args

import numpy as np
import pooch
from filelock import FileLock, Timeout
from jaxtyping import UInt8

from eigen_reptile.data.bank import DataError, Split

log = logging.getLogger(__name__)

FORMAT = 1
SPLITS: tuple[Split, ...] = get_args(Split)
PART = ".part"
ZEROS = bytes(1 << 20)


class Packed(NamedTuple):
    """The pictures of one split, class after class."""

    pixels: UInt8[np.ndarray, "N H W C"]
    names: tuple[str, ...]
    sizes: tuple[int, ...]


Allocate = Callable[[Split, tuple[int, int, int, int]], UInt8[np.ndarray, "N H W C"]]
"""Makes the array on the disk that a split's pictures are to be written into, from its first row on.

It may turn out too long: rows beyond the sum of the sizes are ignored.
"""


def cache_folder() -> Path:
    """Where everything lies that can be made again."""
    return Path(os.environ.get("EIGEN_REPTILE_CACHE") or pooch.os_cache("eigen-reptile"))


def cached(
    name: str, key: Mapping[str, Any], build: Callable[[Allocate], Mapping[Split, Packed]]
) -> dict[Split, Packed]:
    """What `build` made for this key: memory-mapped from the cache if it is there, else built there first.

    `build` allocates an array for each of the three splits, fills it, and says what is in it.
    """
    canonical = json.dumps([FORMAT, key], sort_keys=True, separators=(",", ":"), allow_nan=False)
    entry = cache_folder() / f"{name}-{hashlib.sha256(canonical.encode()).hexdigest()[:16]}"
    with suppress(_DamagedError):
        return _open(entry)
    with _held(entry):
        try:
            return _open(entry)  # another process may have built it while this one waited
        except _DamagedError as error:
            if entry.exists():
                log.warning("the cached data in %s is damaged (%s): making it again", entry, error)
        _remove_leftovers(entry.parent)
        _make(entry, key, build)
        try:
            return _open(entry)
        except _DamagedError as error:
            raise DataError(f"the cache cannot keep data in {entry}: {error}; set EIGEN_REPTILE_CACHE") from error


class _DamagedError(Exception):
    """An entry is not there, or not as it was written."""


def _open(entry: Path) -> dict[Split, Packed]:
    try:
        splits = json.loads((entry / "index.json").read_text(encoding="utf-8"))["splits"]
        return {split: _open_split(entry / f"{split}.npy", **splits[split]) for split in SPLITS}
    except OSError as error:
        raise _DamagedError(error.strerror or str(error)) from error
    except (KeyError, TypeError, ValueError) as error:
        raise _DamagedError(str(error)) from error


def _open_split(file: Path, names: list[str], sizes: list[int], length: int) -> Packed:
    if file.stat().st_size != length:
        raise ValueError(f"{file.name} has {file.stat().st_size} bytes, not {length}")
    pixels = np.lib.format.open_memmap(file, mode="r")
    if pixels.dtype != np.uint8 or pixels.ndim != 4 or len(pixels) < sum(sizes) or len(names) != len(sizes):
        raise ValueError(f"{file.name} does not hold what its index says")
    return Packed(pixels[: sum(sizes)], tuple(names), tuple(sizes))


def _make(entry: Path, key: Mapping[str, Any], build: Callable[[Allocate], Mapping[Split, Packed]]) -> None:
    part = entry.with_name(entry.name + PART)
    shutil.rmtree(part, ignore_errors=True)  # left by a build that was killed: this process holds the lock
    try:
        with _writing(entry.parent):
            part.mkdir()
        splits = _write_arrays(part, build)
        with _writing(entry.parent):
            with (part / "index.json").open("w", encoding="utf-8") as index:
                json.dump({"key": key, "splits": splits}, index)
                index.flush()
                os.fsync(index.fileno())
            shutil.rmtree(entry, ignore_errors=True)
            part.rename(entry)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _write_arrays(part: Path, build: Callable[[Allocate], Mapping[Split, Packed]]) -> dict[Split, dict[str, Any]]:
    """Let `build` write its arrays; what the index is to say of them."""
    arrays: dict[Split, np.memmap[Any, np.dtype[np.uint8]]] = {}

    def allocate(split: Split, shape: tuple[int, int, int, int]) -> UInt8[np.ndarray, "N H W C"]:
        with _writing(part.parent):
            arrays[split] = _new_array(part / f"{split}.npy", shape)
        return arrays[split]

    packed = build(allocate)
    with _writing(part.parent):
        for array in arrays.values():
            array.flush()
        return {
            split: {"names": names, "sizes": sizes, "length": (part / f"{split}.npy").stat().st_size}
            for split, (_, names, sizes) in packed.items()
        }


def _new_array(file: Path, shape: tuple[int, int, int, int]) -> "np.memmap[Any, np.dtype[np.uint8]]":
    """An array on the disk, of zeros that are really written: on a full disk, a hole in a mapped file kills."""
    with file.open("wb") as out:
        header = {"descr": "|u1", "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(out, header)
        for left in range(int(np.prod(shape)), 0, -len(ZEROS)):
            out.write(ZEROS[:left])
    array: np.memmap[Any, np.dtype[np.uint8]] = np.lib.format.open_memmap(file, mode="r+")
    return array


def _remove_leftovers(folder: Path) -> None:
    """Delete what builds that were killed have left, but nothing that a living process works on or waits for."""
    for part in folder.glob(f"*{PART}"):
        lock = FileLock(_lock_file(part.with_name(part.name.removesuffix(PART))))
        with suppress(Timeout, OSError), lock.acquire(timeout=0):
            shutil.rmtree(part)


def _lock_file(entry: Path) -> Path:
    return entry.with_name(f".{entry.name}.lock")


@contextmanager
def _held(entry: Path) -> Iterator[None]:
    """Wait until no other process builds this entry, and keep others from it."""
    with _writing(entry.parent):
        entry.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(_lock_file(entry))
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise DataError(
            f"cannot write to the cache {folder}: {error.strerror or error}; make room there, "
            "or set EIGEN_REPTILE_CACHE to another folder"
        ) from error
