"""The interface of every backbone: images or vectors in, feature vectors out."""

from abc import ABC, abstractmethod
from typing import Any, NamedTuple, final

import numpy as np
import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from eigen_reptile.data.io.images import ImageFormat
from eigen_reptile.errors import ConfigError


class SavedBackbone(NamedTuple):
    """What a model file holds of a backbone, from which `load_backbone` makes it again."""

    description: dict[str, Any]
    """JSON; its `kind` says which backbone it is."""
    tensors: dict[str, Tensor]


class Backbone(ABC):
    """A fixed function from samples to feature vectors. The same sample always has the same features."""

    @property
    @abstractmethod
    def fingerprint(self) -> str | None:
        """Identifies the function, weights included: equal fingerprints mean equal features.

        None if it cannot be identified; then features are not cached.
        """

    @property
    @abstractmethod
    def image_format(self) -> ImageFormat | None:
        """The size and mode that images are converted to; None if samples are vectors."""

    @abstractmethod
    def features(self, x: Shaped[np.ndarray, "N *shape"]) -> Float[np.ndarray, "N F"]:
        """Features as float32, from images of bytes (N, H, W, C) in `image_format`, or from vectors (N, F)."""

    @abstractmethod
    def saved(self) -> SavedBackbone | None:
        """What is needed to make it again; None if only the user can supply it again."""

    @abstractmethod
    def as_module(self) -> nn.Module | None:
        """A module from images of bytes (N, C, H, W), or from vectors (N, F), to features; None if there is none."""


class TorchBackbone(Backbone):
    """A backbone whose features are what its module computes."""

    @abstractmethod
    def as_module(self) -> nn.Module: ...

    @final
    def features(self, x: Shaped[np.ndarray, "N *shape"]) -> Float[np.ndarray, "N F"]:
        samples = torch.tensor(x)
        if self.image_format is not None:
            samples = samples.permute(0, 3, 1, 2)  # the bytes stay in channels-last order, in which a CPU is faster
        with torch.inference_mode():
            return checked_features(self.as_module()(samples), len(x))


def checked_features(found: Any, count: int) -> Float[np.ndarray, "N F"]:
    """What a network returned for `count` samples, as float32; ConfigError if these are not feature vectors."""
    if isinstance(found, Tensor):
        found = found.detach().cpu().numpy()
    if not isinstance(found, np.ndarray) or found.dtype.kind not in "fiub":
        raise ConfigError(f"the backbone must return one array of numbers, not a {type(found).__name__}")
    if found.ndim < 2 or len(found) != count or not found.size:
        raise ConfigError(f"the backbone must return a row for each of {count} samples, not the shape {found.shape}")
    return np.ascontiguousarray(found.reshape(count, -1), dtype=np.float32)
