"""Vectors of well separated classes, some of whose labels are wrong."""

from typing import NamedTuple

import numpy as np


class Blobs(NamedTuple):
    x: np.ndarray
    y: np.ndarray
    true: np.ndarray


def blobs(
    way: int = 4, shots: int = 6, wrong: int = 0, features: int = 32, spread: float = 0.4, seed: int = 0
) -> Blobs:
    """Classes around random unit vectors; the first `wrong` samples of each class are given the next class."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(way, features))
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    true = np.repeat(np.arange(way), shots)
    x = (centres[true] + spread * rng.normal(size=(len(true), features)) / features**0.5).astype(np.float32)
    given = np.where(np.tile(np.arange(shots), way) < wrong, (true + 1) % way, true)
    names = np.array([f"class {number}" for number in range(way)])
    return Blobs(x, names[given], names[true])
