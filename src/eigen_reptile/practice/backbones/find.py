"""Find a backbone by what a user typed or by what a model file holds."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from eigen_reptile.errors import ConfigError
from eigen_reptile.practice.backbones.backbone import Backbone, SavedBackbone
from eigen_reptile.practice.backbones.efficientnet_lite import NAME, EfficientNetLite0
from eigen_reptile.practice.backbones.onnx_file import OnnxBackbone
from eigen_reptile.practice.backbones.trained_run import Pixels, RunBackbone, read_trained_run
from eigen_reptile.practice.backbones.vectors import Vectors
from eigen_reptile.runtime.files import expanded
from eigen_reptile.runtime.progress import StartProgress, no_progress

BACKBONES: dict[str, Backbone] = {NAME: EfficientNetLite0()}
"""Backbones that have a name on the command line."""


def find_backbone(typed: str, start_progress: StartProgress = no_progress) -> Backbone:
    """The backbone of this name, in this ONNX file, or that the run in this folder has learnt."""
    if typed in BACKBONES:
        return BACKBONES[typed]
    path = expanded(Path(typed))
    if path.suffix.lower() == ".onnx":
        return OnnxBackbone.from_file(path)
    if path.is_dir():
        return RunBackbone.of(read_trained_run(path, start_progress))
    raise ConfigError(
        f"`backbone` must be {', '.join(BACKBONES)}, an ONNX file (NAME.onnx), or the folder of a finished run, not "
        f"{typed}"
    )


def load_backbone(saved: SavedBackbone) -> Backbone:
    """The backbone that was saved; ConfigError if it cannot be made, or would not give the same features."""
    make = _KINDS.get(str(saved.description.get("kind")))
    if make is None:
        raise ConfigError(f"an unknown kind of backbone, {str(saved.description.get('kind'))[:80]!r}")
    try:
        return make(saved)
    except ConfigError:
        raise
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise ConfigError(f"the saved backbone is damaged: {' '.join(str(error).split())[:300]}") from error


def _load_lite0(saved: SavedBackbone) -> Backbone:
    backbone = EfficientNetLite0(_whole(saved.description["size"]))
    if saved.description["fingerprint"] != backbone.fingerprint:
        raise ConfigError("it was made with other weights of efficientnet-lite0, or by another version of this library")
    return backbone


def _load_onnx(saved: SavedBackbone) -> Backbone:
    about = saved.description
    size = None if about["size"] is None else _whole(about["size"])
    mean, std = (tuple(map(float, about[name])) for name in ("mean", "std"))
    return OnnxBackbone(saved.tensors["file"].numpy().tobytes(), size, mean, std)


def _whole(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"a whole number was expected, not {str(value)[:40]}")
    return value


_KINDS: dict[str, Callable[[SavedBackbone], Backbone]] = {
    NAME: _load_lite0,
    "onnx": _load_onnx,
    "pixels": lambda saved: Pixels(_whole(saved.description["size"]), saved.description["mode"]),
    "run": RunBackbone.from_saved,
    "vectors": lambda saved: Vectors(),
}
