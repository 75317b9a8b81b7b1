"""From what users may give for a backbone or a head to the object itself."""

from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from eigen_reptile.errors import ConfigError
from eigen_reptile.practice.backbones import BACKBONES, Backbone, Vectors
from eigen_reptile.practice.heads import HEADS, Head

AUTO = "auto"
DEFAULT_BACKBONE = "efficientnet-lite0"


def chosen_backbone(backbone: Any, X: Any = None) -> Backbone:
    """The backbone itself, or the one of this name, or what suits the samples."""
    if isinstance(backbone, Backbone):
        return backbone
    if backbone == AUTO:
        return BACKBONES[DEFAULT_BACKBONE] if X is None or are_images(X) else Vectors()
    if not isinstance(backbone, str) or backbone not in BACKBONES:
        raise ConfigError(f"`backbone` must be {AUTO}, one of {', '.join(BACKBONES)}, or a Backbone, not {backbone!r}")
    return BACKBONES[backbone]


def are_images(X: Any) -> bool:
    """Whether samples are images rather than vectors: paths, PIL images, or arrays of two or more axes each."""
    if isinstance(X, str | Path | Image.Image):
        return True
    if not isinstance(X, list | tuple):
        X = np.asarray(X)
        if X.ndim != 1:
            return bool(X.ndim > 2)
    first = X[0] if len(X) else None
    return isinstance(first, str | Path | Image.Image) or (isinstance(first, np.ndarray) and first.ndim > 1)


def chosen_head(head: Any) -> Head:
    """The head itself, or the one of this name."""
    if isinstance(head, Head):
        return head
    if not isinstance(head, str) or head not in HEADS:
        raise ConfigError(f"`head` must be one of {', '.join(HEADS)}, or a Head, not {head!r}")
    return HEADS[head]
