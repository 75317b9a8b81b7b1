"""One file for a model: safetensors, whose metadata holds a description in JSON and a checksum of everything.

Such a file cannot run code. Reading is strict: whatever is damaged, foreign or of another version is refused.
"""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from eigen_reptile.errors import RunError
from eigen_reptile.runtime.files import MOST_TENSOR_BYTES, read_bytes, write_atomically
from eigen_reptile.runtime.strict_json import parse_json

FORMAT = "eigen-reptile classifier"
VERSION = 1
METADATA = "__metadata__"
"""The key of the metadata in the JSON object at the start of a safetensors file."""


class ModelFile(NamedTuple):
    """The content of a model file."""

    description: str
    """JSON."""
    tensors: dict[str, Tensor]


def write_model(path: Path, model: ModelFile) -> None:
    """Write one file; after a crash it has the old content or the new."""
    tensors = {name: tensor.contiguous() for name, tensor in model.tensors.items()}
    checksum = _digest(model.description, tensors)
    metadata = {"format": FORMAT, "version": str(VERSION), "description": model.description, "sha256": checksum}
    data = safetensors.torch.save(tensors, metadata)
    if len(data) > MOST_TENSOR_BYTES:
        raise RunError(
            f"{path} would have {len(data)} bytes, and at most {MOST_TENSOR_BYTES} are read: learn from fewer samples"
        )
    write_atomically(path, data)


def read_model(path: Path) -> ModelFile:
    """The content of a model file; RunError if it is none, damaged, too large, or of another version."""
    data = read_bytes(path, MOST_TENSOR_BYTES)
    metadata = _metadata(path, data)
    if metadata.get("version") != str(VERSION):
        raise RunError(f"{path} is of another version of this format: upgrade eigen-reptile, or make the model again")
    description = metadata.get("description", "")
    try:
        tensors = safetensors.torch.load(data)
        if metadata.get("sha256") != _digest(description, tensors):
            raise ValueError("its checksum is wrong")
    except (SafetensorError, TypeError, ValueError, KeyError) as error:
        raise RunError(f"{path} is damaged: {str(error)[:200]}; make the model again") from error
    return ModelFile(description, tensors)


def _metadata(path: Path, data: bytes) -> dict[str, str]:
    """The metadata at the start of the file; RunError if it is not that of a model."""
    length = int.from_bytes(data[:8], "little")
    try:
        if data[8:9] != b"{" or 8 + length > len(data):
            raise ValueError("it does not begin like one, or it is truncated")
        header = parse_json(data[8 : 8 + length])
        metadata = header.get(METADATA) if isinstance(header, dict) else None
        if not isinstance(metadata, dict) or metadata.get("format") != FORMAT:
            raise ValueError("other programs write such files too")
        if not all(isinstance(value, str) for value in metadata.values()):
            raise ValueError("its metadata is not text")
    except ValueError as error:
        raise RunError(f"{path} is not a model that `eigen-reptile adapt` has written: {error}") from error
    return metadata


def _digest(description: str, tensors: Mapping[str, Tensor]) -> str:
    """SHA-256 of a text and of tensors with their names, types and shapes."""
    found = hashlib.sha256(description.encode())
    for name, tensor in sorted(tensors.items()):
        found.update(f"\n{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        found.update(tensor.flatten().view(torch.uint8).numpy().tobytes())
    return found.hexdigest()


def take_tensor(tensors: Mapping[str, Tensor], name: str, dtype: torch.dtype, shape: tuple[int, ...]) -> Tensor:
    """A tensor of a model; ValueError if it is missing, or not of this type and shape."""
    if name not in tensors:
        raise ValueError(f"it has no tensor {name}")
    tensor = tensors[name]
    if tensor.dtype != dtype or tensor.shape != shape:
        raise ValueError(f"{name} must be {dtype} of shape {shape}, not {tensor.dtype} of shape {tuple(tensor.shape)}")
    return tensor
