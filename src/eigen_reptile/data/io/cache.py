"""Images that have been decoded or drawn once, kept on disk as arrays that are memory-mapped.

An entry is a folder NAME-DIGEST with train.npy, validation.npy, test.npy and index.json. It is built in a temporary
folder and renamed, so that a folder with the name of an entry is always complete. The cache may be deleted at any time.
"""

import hashlib
import json
import logging
import os
import shutil
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, final, get_args

import numpy as np
import pooch
from filelock import FileLock, Timeout
from jaxtyping import UInt8

from eigen_reptile.data.bank import Split
from eigen_reptile.errors import DataError, RunError
from eigen_reptile.runtime.files import write_atomically

log = logging.getLogger(__name__)

FORMAT = 1
"""Version of the layout of an entry."""
SPLITS: tuple[Split, ...] = get_args(Split)
PART = ".part"
"""Suffix of the temporary folder in which an entry is built."""
ZEROS = bytes(1 << 20)
SECONDS_OF_SILENCE = 3.0
"""How long to wait for another process without saying so."""


class PackedSplit(NamedTuple):
    """The images of one split, class by class."""

    pixels: UInt8[np.ndarray, "N H W C"]
    names: tuple[str, ...]
    """Name of each class."""
    sizes: tuple[int, ...]
    """Number of images of each class."""


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
        splits = json.loads((entry / "index.json").read_text(encoding="utf-8"))["splits"]
        return {split: _open_split(entry / f"{split}.npy", **splits[split]) for split in SPLITS}
    except OSError as error:
        raise _DamagedError(error.strerror or str(error)) from error
    except (KeyError, TypeError, ValueError) as error:
        raise _DamagedError(str(error)) from error


def _open_split(file: Path, names: list[str], sizes: list[int], length: int) -> PackedSplit:
    if file.stat().st_size != length:
        raise ValueError(f"{file.name} has {file.stat().st_size} bytes, not {length}")
    pixels = np.lib.format.open_memmap(file, mode="r")
    if pixels.dtype != np.uint8 or pixels.ndim != 4 or len(pixels) < sum(sizes) or len(names) != len(sizes):
        raise ValueError(f"{file.name} does not match its index")
    return PackedSplit(pixels[: sum(sizes)], tuple(names), tuple(sizes))


def _write_entry(entry: Path, key: Mapping[str, Any], build: Build) -> None:
    part = entry.with_name(entry.name + PART)
    shutil.rmtree(part, ignore_errors=True)  # left by a build that was killed: this process holds the lock
    try:
        with _write_errors_explained(entry.parent):
            part.mkdir()
        splits = _write_arrays(part, build)
        with _write_errors_explained(entry.parent):
            with (part / "index.json").open("w", encoding="utf-8") as index:
                json.dump({"key": key, "splits": splits}, index)
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
        return {
            split: {"names": names, "sizes": sizes, "length": (part / f"{split}.npy").stat().st_size}
            for split, (_, names, sizes) in packed.items()
        }


def _create_array(file: Path, shape: tuple[int, int, int, int]) -> "np.memmap[Any, np.dtype[np.uint8]]":
    """An array on disk, filled with zeros that are really written.

    On a full disk, writing into a hole of a sparse memory-mapped file would kill the process.
    """
    with file.open("wb") as out:
        header = {"descr": "|u1", "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(out, header)
        for left in range(int(np.prod(shape)), 0, -len(ZEROS)):
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


def _holder_file(entry: Path) -> Path:
    """Names the process that holds the lock; the lock file itself is emptied by those that wait for it."""
    return entry.with_name(f".{entry.name}.holder")


@contextmanager
def _locked(entry: Path) -> Iterator[None]:
    """Wait until no other process is building this entry, and keep others from building it."""
    with _write_errors_explained(entry.parent):
        entry.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(_lock_file(entry))
        _acquire(lock, entry)
    try:
        with suppress(RunError):  # nothing depends on it
            write_atomically(_holder_file(entry), f"process {os.getpid()} on {socket.gethostname()}".encode())
        yield
    finally:
        with suppress(OSError):
            _holder_file(entry).unlink()
        lock.release()


def _acquire(lock: FileLock, entry: Path) -> None:
    """Wait for the lock, and say so: first where a user sees it, then as signs of life."""
    level = logging.INFO
    while True:
        try:
            lock.acquire(timeout=SECONDS_OF_SILENCE)
        except Timeout:
            log.log(level, "waiting for %s, which is building %s", _holder(entry), entry)
            level = logging.DEBUG
        else:
            return


def _holder(entry: Path) -> str:
    with suppress(OSError, ValueError):
        return _holder_file(entry).read_text(encoding="utf-8")[:100].strip() or "another process"
    return "another process"


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
