"""Reading and writing files: atomic writes, no pickles, and a RunError that names the file for whatever goes wrong."""

import fcntl
import glob
import hashlib
import json
import os
import secrets
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import safetensors.torch
from safetensors import SafetensorError
from torch import Tensor

from eigen_reptile.errors import RunError
from eigen_reptile.runtime.strict_json import MOST_BYTES, parse_json

MOST_TENSOR_BYTES = 1 << 31
LONGEST_SHOWN = 200
"""Characters of a value in a message."""


def write_atomically(path: Path, data: bytes) -> None:
    """Write to a temporary file, then rename it: after a crash the path has the old content or the new.

    The temporary file is new, whatever others may have put into the folder, and gets the permissions of the old one.
    Those that killed processes have left are removed.
    """
    try:
        _remove_leftovers(path)
        temporary, descriptor = _create_beside(path)
    except OSError as error:
        raise RunError(f"cannot write {path}: {error.strerror}") from error
    try:
        with os.fdopen(descriptor, "wb") as file:
            with suppress(FileNotFoundError):
                if stat.S_ISREG(mode := path.lstat().st_mode):
                    os.fchmod(descriptor, stat.S_IMODE(mode))
            file.write(data)
            file.flush()
            os.fsync(descriptor)
            temporary.replace(path)
        sync_folder(path.parent)
    except OSError as error:
        raise RunError(f"cannot write {path}: {error.strerror}") from error
    finally:
        with suppress(OSError):  # the rename has removed it; and of two errors the first one is reported
            temporary.unlink()


def _create_beside(path: Path) -> tuple[Path, int]:
    """A new temporary file and its descriptor, locked for as long as this process has it open."""
    while True:
        temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666)
        with suppress(OSError):  # some network file systems have no locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        if temporary.exists():
            return temporary, descriptor
        os.close(descriptor)  # another process has removed it before it was locked


def _remove_leftovers(path: Path) -> None:
    """Remove the temporary files for this path that no process has locked: those of processes that were killed."""
    for leftover in path.parent.glob(f".{glob.escape(path.name)}.{'?' * 16}.tmp"):
        with suppress(OSError):
            descriptor = os.open(leftover, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                leftover.unlink()
            finally:
                os.close(descriptor)


def sync_folder(folder: Path) -> None:
    """Write the names in a folder to the disk: without it, a power failure may undo a rename."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_json(path: Path, value: Any) -> None:
    """Write indented JSON. NaN is a ValueError, because JSON cannot represent it."""
    write_atomically(path, (json.dumps(value, indent=1, allow_nan=False) + "\n").encode())


def read_json(path: Path) -> Any:
    """The content of a JSON file; RunError if it cannot be read or is not JSON."""
    try:
        return parse_json(read_bytes(path, MOST_BYTES))
    except ValueError as error:
        raise RunError(f"{path} is not valid JSON: {error}") from error


def read_bytes(path: Path, most: int) -> bytes:
    """The content of a file; RunError if it cannot be read or has more bytes."""
    try:
        if path.exists() and not path.is_file():  # opening a pipe would wait for a writer
            raise RunError(f"cannot read {path}: it is not a regular file")
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size > most:
                raise RunError(f"{path} is too large: it has {size} bytes, and at most {most} are read")
            return file.read(size)  # `read` allocates as much as it is asked for
    except OSError as error:
        raise RunError(f"cannot read {path}: {error.strerror}") from error


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> bytes:
    """Write tensors in the safetensors format, and return the content of the file."""
    data = safetensors.torch.save({name: tensor.contiguous() for name, tensor in tensors.items()})
    write_atomically(path, data)
    return data


def read_tensors(path: Path, sha256: str | None = None) -> dict[str, Tensor]:
    """The tensors in a file; RunError if it cannot be read, is damaged, or has another SHA-256 than a given one."""
    data = read_bytes(path, MOST_TENSOR_BYTES)
    if sha256 is not None and hashlib.sha256(data).hexdigest() != sha256:
        raise RunError(f"{path} is damaged: its checksum is wrong")
    try:
        return safetensors.torch.load(data)
    except (SafetensorError, TypeError, ValueError, KeyError) as error:
        raise RunError(f"{path} is damaged: {error}") from error


def expanded(path: Path) -> Path:
    """The path with the home folder in place of ~; as it is if there is no such folder."""
    try:
        return path.expanduser()
    except RuntimeError:
        return path


def differences(first: Any, second: Any, origins: tuple[str, str], name: str = "") -> list[str]:
    """The entries in which two JSON values differ, one line each, with dotted names and where each value is from."""
    if isinstance(first, dict) and isinstance(second, dict):
        lines = []
        for key in sorted(first.keys() | second.keys()):
            lines += differences(first.get(key), second.get(key), origins, f"{name}.{key}" if name else key)
        return lines
    if first == second:
        return []
    for here, there, origin in ((first, second, origins[0]), (second, first, origins[1])):
        if isinstance(here, dict) and there is None:
            return [f"{name} is only in {origin}"]
    shown = [
        text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]} ..."
        for text in map(json.dumps, (first, second))
    ]
    return [f"{name} is {shown[0]} in {origins[0]} and {shown[1]} in {origins[1]}"]
