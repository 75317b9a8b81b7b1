"""How files are read and written. Nothing is half written, nothing is a pickle, and what is wrong is said."""

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import safetensors.torch
from safetensors import SafetensorError
from torch import Tensor


class RunError(Exception):
    """A run folder cannot be used as asked; the message says why and what to do."""


class FolderError(RunError):
    """The folder that was named cannot be used; another one can."""


def write_atomically(path: Path, data: bytes) -> None:
    """Write aside, then rename: after a crash the path holds the old content or the new, never a part."""
    aside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with aside.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
    except OSError as error:
        raise RunError(f"cannot write {path}: {error.strerror}") from error
    finally:
        with suppress(OSError):  # it is gone after the rename; and the first error is the one to report
            aside.unlink()


def write_json(path: Path, value: Any) -> None:
    """JSON as a person can read it; NaN is refused, because JSON has none."""
    write_atomically(path, (json.dumps(value, indent=1, allow_nan=False) + "\n").encode())


def read_json(path: Path) -> Any:
    """What a JSON file holds; RunError if it cannot be read or is not JSON."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise RunError(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise RunError(f"{path} is not valid JSON: {error}") from error


def read_tensors(path: Path) -> dict[str, Tensor]:
    """The tensors in a file; RunError if it cannot be read or is damaged."""
    try:
        return safetensors.torch.load(path.read_bytes())
    except OSError as error:
        raise RunError(f"cannot read {path}: {error.strerror}") from error
    except (SafetensorError, ValueError, KeyError) as error:
        raise RunError(f"{path} is damaged: {error}") from error


def differences(ours: Any, theirs: Any, name: str = "") -> list[str]:
    """Where two JSON values differ, one line each, with dotted names."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        lines = []
        for key in sorted(ours.keys() | theirs.keys()):
            lines += differences(ours.get(key), theirs.get(key), f"{name}.{key}" if name else key)
        return lines
    return [] if ours == theirs else [f"{name} is {json.dumps(theirs)} there and {json.dumps(ours)} here"]
