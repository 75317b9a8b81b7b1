"""A network in an ONNX file, run by onnxruntime.

Files may come from anywhere. One that names other files is refused before onnxruntime sees it, which would read them;
libraries of operations are never loaded; and only the CPU is used.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, NamedTuple, final

import numpy as np
import torch
from jaxtyping import Float, Shaped
from torch import nn

from eigen_reptile.data.io.images import ImageFormat
from eigen_reptile.errors import ConfigError, RunError
from eigen_reptile.practice.backbones.backbone import Backbone, SavedBackbone, checked_features
from eigen_reptile.practice.backbones.image_input import BytesToNumbers, ImageInput
from eigen_reptile.runtime.checksums import digest
from eigen_reptile.runtime.files import read_bytes

MOST_BYTES = 1 << 30
"""Limit for the file."""
MODES: dict[int, Literal["L", "RGB"]] = {1: "L", 3: "RGB"}
DEFAULT_SIZE = 224
TYPES: dict[str, type[np.generic]] = {"tensor(float)": np.float32, "tensor(uint8)": np.uint8}
"""Types of inputs, and their types in numpy."""


@final
@dataclass(frozen=True)
class OnnxBackbone(Backbone):
    """The first output of a network with one input: images (N, C, H, W) or (N, H, W, C), or vectors (N, F).

    An input of bytes gets bytes; one of floating-point numbers gets numbers from 0 to 1, minus `mean`, over `std`.
    """

    data: bytes = field(repr=False)
    """The content of the file."""
    size: int | None = None
    """Height and width that images are resized to; by default those in the file, or 224 if it leaves them open."""
    mean: tuple[float, ...] = (0.0,)
    """Mean of each channel, or one for all; for most networks trained on ImageNet (0.485, 0.456, 0.406)."""
    std: tuple[float, ...] = (1.0,)
    """Deviation of each channel, or one for all; for most networks trained on ImageNet (0.229, 0.224, 0.225)."""

    @staticmethod
    def from_file(
        file: Path, size: int | None = None, mean: tuple[float, ...] = (0.0,), std: tuple[float, ...] = (1.0,)
    ) -> "OnnxBackbone":
        try:
            return OnnxBackbone(read_bytes(file, MOST_BYTES), size, mean, std)
        except ConfigError as error:
            raise ConfigError(f"{file}: {error}") from error

    def __post_init__(self) -> None:
        fixed = _signature(self.data).size
        if fixed is not None and self.size not in (None, fixed):
            raise ConfigError(f"`size` must be {fixed}, as in the ONNX file, not {self.size}")
        self._image_input  # noqa: B018  # which checks its fields

    @property
    def _image_input(self) -> ImageInput | None:
        signature = _signature(self.data)
        if signature.channels is None:
            return None
        size = self.size or signature.size or DEFAULT_SIZE
        return ImageInput(size, MODES[signature.channels], self.mean, self.std)

    @property
    def fingerprint(self) -> str:
        return digest(["onnx", hashlib.sha256(self.data).hexdigest(), self.size, self.mean, self.std])

    @property
    def image_format(self) -> ImageFormat | None:
        return None if self._image_input is None else self._image_input.image_format

    def features(self, x: Shaped[np.ndarray, "N *shape"]) -> Float[np.ndarray, "N F"]:
        signature = _signature(self.data)
        batch = len(x) if signature.batch is None else signature.batch
        inputs = self._as_input(x, signature)
        try:
            rows = [
                _session(self.data).run(signature.outputs[:1], {signature.name: inputs[start : start + batch]})[0]
                for start in range(0, len(x), batch)
            ]
        except Exception as error:  # onnxruntime raises many different exceptions
            raise RunError(f"the ONNX file cannot be run: {_one_line(error)}") from error
        return checked_features(np.concatenate(rows), len(x))

    def _as_input(self, x: Shaped[np.ndarray, "N *shape"], signature: "_Signature") -> Shaped[np.ndarray, "N *input"]:
        if self._image_input is None:
            return x.astype(signature.dtype)
        if signature.dtype == np.uint8:
            return np.ascontiguousarray(x if signature.channels_last else x.transpose(0, 3, 1, 2))
        numbers = BytesToNumbers(self._image_input)(torch.tensor(x).permute(0, 3, 1, 2))
        numbers = numbers.permute(0, 2, 3, 1) if signature.channels_last else numbers
        array: np.ndarray = numbers.contiguous().numpy()
        return array

    def saved(self) -> SavedBackbone:
        description = {"kind": "onnx", "size": self.size, "mean": list(self.mean), "std": list(self.std)}
        return SavedBackbone(description, {"file": torch.frombuffer(bytearray(self.data), dtype=torch.uint8)})

    def as_module(self) -> nn.Module | None:
        return None


class _Signature(NamedTuple):
    """What the network in a file takes and returns."""

    name: str
    """Of the input."""
    dtype: type[np.generic]
    batch: int | None
    """Samples that it takes at once; None if it takes any number."""
    channels: int | None
    """Of its images; None if it takes vectors."""
    size: int | None
    """Height and width of its images, if they are fixed."""
    channels_last: bool
    outputs: list[str]


@lru_cache(maxsize=4)
def _signature(data: bytes) -> _Signature:
    try:
        return _signature_of(_session(data))
    except UnicodeDecodeError as error:  # onnxruntime decodes names when they are asked for
        raise ConfigError("the ONNX file cannot be used, or it is damaged: a name in it is no text") from error


def _signature_of(session: Any) -> _Signature:
    inputs = session.get_inputs()
    if len(inputs) != 1:
        raise ConfigError(f"the network must have one input, but the ONNX file has {len(inputs)}")
    (only,) = inputs
    if only.type not in TYPES:
        raise ConfigError(f"the input must be {' or '.join(TYPES)}, but in the ONNX file it is {only.type[:80]}")
    batch, *sides = [length if isinstance(length, int) and length > 0 else None for length in only.shape or [None]]
    if batch is not None and batch != 1:
        raise ConfigError(f"the ONNX file takes exactly {batch} samples at once: export it with any number, or with 1")
    outputs = [output.name for output in session.get_outputs()]
    if len(sides) == 1:
        return _Signature(only.name, TYPES[only.type], batch, None, None, False, outputs)
    if len(sides) != 3 or (sides[0] not in MODES and sides[2] not in MODES):
        raise ConfigError(
            "the input must be images of one or three channels, (N, C, H, W) or (N, H, W, C), or vectors (N, F), but "
            f"in the ONNX file it has the shape {str(only.shape)[:80]}"
        )
    channels_last = sides[0] not in MODES
    channels, lengths = (sides[2], sides[:2]) if channels_last else (sides[0], sides[1:])
    if len(fixed := {length for length in lengths if length is not None}) > 1:
        raise ConfigError(f"images must be square, but the ONNX file takes {lengths[0]} x {lengths[1]} pixels")
    size = next(iter(fixed), None)
    return _Signature(only.name, TYPES[only.type], batch, channels, size, channels_last, outputs)


@lru_cache(maxsize=4)
def _session(data: bytes) -> Any:
    try:
        import onnx
        import onnxruntime
    except ImportError as error:
        raise ConfigError("a backbone in an ONNX file needs onnxruntime: pip install 'eigen-reptile[onnx]'") from error
    try:
        model = onnx.ModelProto.FromString(data)
    except Exception as error:  # of protobuf, of which there are several implementations
        raise ConfigError("it is not an ONNX file, or it is damaged") from error
    if any(_is_elsewhere(part) for part in _parts(model)):
        raise ConfigError("it keeps weights in other files: save it again as a single file")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = torch.get_num_threads()
    try:
        return onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime raises many different exceptions
        raise ConfigError(f"it is not an ONNX file that can be used, or it is damaged: {_one_line(error)}") from error


def _is_elsewhere(part: Any) -> bool:
    """Whether this part of a file is a tensor whose values are in another file."""
    return part.DESCRIPTOR.name == "TensorProto" and (part.data_location != 0 or len(part.external_data) > 0)


def _parts(message: Any) -> Iterator[Any]:
    """The message and all messages in it; an open list, because a hostile file may be deeply nested."""
    from google.protobuf.message import Message

    left = [message]
    while left:
        yield (part := left.pop())
        for descriptor, value in part.ListFields():
            if descriptor.message_type is not None:
                left.extend([value] if isinstance(value, Message) else value)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]
