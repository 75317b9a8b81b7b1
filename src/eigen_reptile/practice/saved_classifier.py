"""A classifier as the content of a model file: everything but the backbone's code."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, final

import numpy as np
import torch
from jaxtyping import Shaped
from torch import Tensor

from eigen_reptile.errors import ConfigError, RunError
from eigen_reptile.practice.backbones import Backbone, SavedBackbone, load_backbone
from eigen_reptile.practice.card import Card
from eigen_reptile.practice.heads import HEADS, FittedHead, Head, LinearHead, NearestNeighbours
from eigen_reptile.practice.learnt import Learnt, as_support
from eigen_reptile.practice.model_file import ModelFile, read_model, take_tensor
from eigen_reptile.practice.rejection import Rejection, check_rate
from eigen_reptile.runtime.strict_json import parse_json, strict_converter, structured

LabelKind = Literal["text", "objects", "integers", "numbers", "booleans"]
"""Kinds of labels; numpy's objects are taken for text."""
KINDS: dict[str, LabelKind] = {
    "U": "text",
    "O": "objects",
    "i": "integers",
    "u": "integers",
    "f": "numbers",
    "b": "booleans",
}
"""Kinds of labels by the `dtype.kind` of their numpy array."""
DTYPES = {"text": np.str_, "objects": np.object_, "integers": np.int64, "numbers": np.float64, "booleans": np.bool_}
TYPES = {"text": str, "objects": str, "integers": int, "numbers": float, "booleans": int}
"""The Python types that labels are read as; in the file all labels are text."""
BACKBONE = "backbone."
"""Begins the names of its tensors."""


class SavedClassifier(NamedTuple):
    """What a file says about a classifier."""

    classes: Shaped[np.ndarray, "way"]
    learnt: Learnt
    backbone: SavedBackbone | None
    """None if the user has to supply it again."""
    fingerprint: str | None
    """Fingerprint of the backbone."""
    inputs: int
    """Numbers in a vector; for images, the number of features."""
    unknown: Any
    """The label for what is unlike every class; None if nothing is rejected."""
    card: Card


@final
@dataclass(frozen=True)
class SavedHead:
    """A head of HEADS, with its hyper-parameters."""

    kind: str
    settings: dict[str, Any]


@final
@dataclass(frozen=True)
class Description:
    """What a model file holds besides tensors."""

    backbone: dict[str, Any] | None
    fingerprint: str | None
    inputs: int
    head: SavedHead
    labels: LabelKind
    classes: tuple[str, ...]
    unknown: str | None
    noise: float
    card: Card


def to_file(saved: SavedClassifier) -> ModelFile:
    """The content of its file; ConfigError if the head or the labels cannot be written."""
    learnt, backbone, kind = saved.learnt, saved.backbone, _label_kind(saved.classes)
    description = Description(
        backbone=backbone and backbone.description,
        fingerprint=saved.fingerprint,
        inputs=saved.inputs,
        head=SavedHead(_kind_of(learnt.head), asdict(learnt.head)),
        labels=kind,
        classes=tuple(str(TYPES[kind](label)) for label in saved.classes),
        unknown=None if saved.unknown is None else str(TYPES[kind](saved.unknown)),
        noise=learnt.noise,
        card=saved.card,
    )
    tensors = {
        "support.features": torch.tensor(learnt.features),
        "support.labels": torch.tensor(learnt.labels),
        "support.trust": torch.tensor(learnt.trust),
        "support.suggested": torch.tensor(learnt.suggested),
    }
    if isinstance(learnt.fitted, LinearHead):
        tensors |= {"head.weight": learnt.fitted.weight[0], "head.bias": learnt.fitted.bias[0]}
    if learnt.rejection:
        tensors["rejection.nearest"] = learnt.rejection.nearest
    if backbone:
        tensors |= {BACKBONE + name: tensor for name, tensor in backbone.tensors.items()}
    model = ModelFile(json.dumps(_CONVERTER.unstructure(description), allow_nan=False), tensors)
    try:
        from_file(model)
    except ValueError as error:
        raise ConfigError(f"this model could not be read again, so it is not saved: {error}") from error
    return model


def _label_kind(classes: Shaped[np.ndarray, "way"]) -> LabelKind:
    if classes.dtype.kind not in KINDS:
        raise ConfigError(f"labels of type {classes.dtype} cannot be saved: they must be text, numbers or booleans")
    return KINDS[classes.dtype.kind]


def _kind_of(head: Head) -> str:
    if type(head) not in map(type, HEADS.values()):
        raise ConfigError(f"a model with a head of your own cannot be saved: `head` must be one of {', '.join(HEADS)}")
    return type(head).__name__


def read_classifier(path: Path) -> SavedClassifier:
    """The classifier in a file; RunError if there is none, or if it is damaged."""
    model = read_model(path)
    try:
        return from_file(model)
    except ValueError as error:
        raise RunError(f"{path} is damaged: {error}; make the model again") from error


def from_file(model: ModelFile) -> SavedClassifier:
    """What the content says; ValueError if it contradicts itself."""
    found: Description = structured(_CONVERTER, parse_json(model.description.encode()), Description)
    classes = _classes(found)
    learnt = _learnt(found, model.tensors)
    check_rate(found.card.reject, len(learnt.labels))
    unknown = None if found.unknown is None else TYPES[found.labels](found.unknown)
    names = [name.removeprefix(BACKBONE) for name in model.tensors if name.startswith(BACKBONE)]
    tensors = {name: model.tensors[BACKBONE + name] for name in names}
    backbone = None if found.backbone is None else SavedBackbone(found.backbone, tensors)
    return SavedClassifier(classes, learnt, backbone, found.fingerprint, found.inputs, unknown, found.card)


def loaded_backbone(saved: SavedClassifier, path: str | Path) -> Backbone:
    """The backbone of a saved classifier; ConfigError if it has to be given again."""
    if saved.backbone is None:
        raise ConfigError(
            f"{path} was made with a backbone of your own ({saved.card.backbone}), which it does not contain: "
            "FewShotClassifier.load(path, backbone=...)"
        )
    return load_backbone(saved.backbone)


def _classes(found: Description) -> Shaped[np.ndarray, "way"]:
    try:
        classes: np.ndarray = np.array([*map(TYPES[found.labels], found.classes)], dtype=DTYPES[found.labels])
    except OverflowError as error:
        raise ValueError("its classes have too large numbers") from error
    if not len(classes) or not (classes[1:] > classes[:-1]).all():
        raise ValueError("its classes must be at least one, differ, and be sorted")
    return classes


def _learnt(found: Description, tensors: dict[str, Tensor]) -> Learnt:
    shape = tuple(tensors["support.features"].shape) if "support.features" in tensors else ()
    if len(shape) != 2 or not all(shape):
        raise ValueError(f"support.features must be a matrix, not of shape {shape}")
    (m, F), way, head = shape, len(found.classes), _head(found.head)
    features = take_tensor(tensors, "support.features", torch.float32, (m, F))
    labels = take_tensor(tensors, "support.labels", torch.int64, (m,))
    suggested = take_tensor(tensors, "support.suggested", torch.int64, (m,))
    trust = take_tensor(tensors, "support.trust", torch.float64, (m,))
    if way > m:
        raise ValueError(f"it has {way} classes, but only {m} samples")
    if not features.isfinite().all() or not all(one.min() >= 0 and one.max() < way for one in (labels, suggested)):
        raise ValueError("its features must be finite, and its labels must be among the classes")
    rejection = None
    if found.card.reject is not None:
        rejection = Rejection(features.double(), take_tensor(tensors, "rejection.nearest", torch.float64, (m,)))
    x, y = features.numpy(), labels.numpy()
    if isinstance(head, NearestNeighbours):  # it keeps the support, and learns nothing from it
        fitted: FittedHead = head.fit(as_support(x, y, way))
    else:
        fitted = _linear_head(tensors, way, F)
    return Learnt(head, x, y, way, fitted, rejection, trust.numpy(), suggested.numpy(), found.noise)


def _linear_head(tensors: dict[str, Tensor], way: int, F: int) -> LinearHead:
    """What the head has learnt: it does not learn again, which could take any time with the settings of a file."""
    weight = take_tensor(tensors, "head.weight", torch.float64, (way, F))
    bias = take_tensor(tensors, "head.bias", torch.float64, (way,))
    if not (weight.isfinite().all() and bias.isfinite().all()):
        raise ValueError("the weights of its head must be finite")
    return LinearHead(weight[None], bias[None])


def _head(saved: SavedHead) -> Head:
    kinds = {type(head).__name__: type(head) for head in HEADS.values()}
    if saved.kind not in kinds:
        raise ValueError(f"there is no head {saved.kind[:40]}")
    head: Head = structured(_CONVERTER, saved.settings, kinds[saved.kind])
    return head


_CONVERTER = strict_converter()
