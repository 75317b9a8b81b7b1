"""Omniglot (Lake, Salakhutdinov and Tenenbaum 2015): 1,623 characters of 50 alphabets, drawn by 20 people each."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import ClassVar, Literal, final

import numpy as np
from jaxtyping import Float, UInt8
from PIL import Image

from eigen_reptile.data.bank import Banks, Split
from eigen_reptile.data.image_dataset import ImageDataset, data_folder, image_banks
from eigen_reptile.data.image_index import ImageIndex, common_parent, find_folder_or_zip, index_by_folder
from eigen_reptile.data.io.archives import Source, ZipSource
from eigen_reptile.data.io.download import download
from eigen_reptile.data.io.images import ImageFormat
from eigen_reptile.data.published_splits import PublishedSplits, read_class_lists
from eigen_reptile.errors import DataError
from eigen_reptile.runtime.progress import StartProgress

URL = "https://raw.githubusercontent.com/brendenlake/omniglot/master/python"
PARTS = {
    "images_background": "ad41ab679c8b5d90b271ef46be6987cc81211774a695c29dcc5367b2b26ee640",
    "images_evaluation": "1f61a8f3366785b057fc117d9228e78a16e3d976c8953b2a10fcc74cf0609cee",
}
"""The two parts of the data set, and the SHA-256 checksums of their zips."""

OmniglotSplit = Literal["vinyals", "background"]
VALIDATION_ALPHABETS = 5
"""Number of alphabets for validation in the background split: the last ones of images_background by name."""


@final
@dataclass(frozen=True)
class Omniglot(ImageDataset):
    """Omniglot (Lake et al. 2015, https://doi.org/10.1126/science.aab3050): 1,623 handwritten characters, 28x28.

    White ink on black, 20 images of each character. Use it as the easy standard benchmark of few-shot classification;
    it is downloaded if it is not on disk.
    """

    split: OmniglotSplit = "vinyals"
    """`vinyals`: 1,028 characters for training, 172 for validation, 423 for testing (Vinyals et al. 2016).
    `background`: the alphabets of images_background for training, except the last five by name, which are for
    validation; those of images_evaluation for testing."""
    rotations: bool = True
    """Add the training characters rotated by 90, 180 and 270 degrees as classes of their own."""

    name: ClassVar[str] = "omniglot"
    image_shape: ClassVar[tuple[int, int, int] | None] = (1, 28, 28)

    @property
    def has_characters(self) -> bool:
        return True

    def load(self, start_progress: StartProgress) -> Banks:
        return image_banks(self._load_packed(start_progress, {"split": self.split}), rotate_training=self.rotations)

    def _find_sources(self, start_progress: StartProgress) -> Mapping[str, Source]:
        root = self._find_root(self.name)
        if root is None:
            folder = data_folder() / self.name
            return {
                part: ZipSource(download(f"{URL}/{part}.zip", sha256, folder, start_progress), part)
                for part, sha256 in PARTS.items()
            }
        return find_omniglot(root)

    def _index_images(self, sources: Mapping[str, Source]) -> ImageIndex:
        return index_omniglot(sources, self.split)


def find_omniglot(root: Path) -> dict[str, Source]:
    """The two parts, each as a folder or a zip."""
    sources = {part: source for part in PARTS if (source := find_folder_or_zip(root, part, depth=3))}
    if missing := [part for part in PARTS if part not in sources]:
        raise DataError(f"{root} has neither the folder {missing[0]} nor {missing[0]}.zip: add one of them")
    return sources


def index_omniglot(sources: Mapping[str, Source], split: OmniglotSplit) -> ImageIndex:
    image_format = ImageFormat(28, "L", average_ink)
    published = PublishedSplits("Omniglot", split_classes(split), per_class=20)
    found = index_by_folder(sources, image_format)
    return ImageIndex(image_format.shape, published.group_by_split(found, common_parent(sources)))


def split_classes(split: OmniglotSplit) -> dict[Split, tuple[str, ...]]:
    """The folders of the characters of each split."""
    vinyals = read_class_lists("omniglot_vinyals")
    if split == "vinyals":
        return vinyals
    every = sorted(name for names in vinyals.values() for name in names)
    background, evaluation = (tuple(name for name in every if name.startswith(f"{part}/")) for part in PARTS)
    alphabets = sorted({name.split("/")[1] for name in background})
    validation = alphabets[-VALIDATION_ALPHABETS:]
    return {
        "train": tuple(name for name in background if name.split("/")[1] not in validation),
        "validation": tuple(name for name in background if name.split("/")[1] in validation),
        "test": evaluation,
    }


def average_ink(image: Image.Image, size: int) -> UInt8[np.ndarray, "size size"]:
    """Average amount of ink in each of size x size equal cells of a black-on-white image: 255 if a cell is black."""
    amount = 255 - np.asarray(image, dtype=np.float32)
    average = _cell_weights(image.height, size) @ amount @ _cell_weights(image.width, size).T
    return np.asarray(np.rint(average), dtype=np.uint8)


@cache
def _cell_weights(pixels: int, cells: int) -> Float[np.ndarray, "cells pixels"]:
    """The fraction of each of `cells` equal intervals of a line that each of its pixels covers."""
    edge = np.arange(cells + 1) * (pixels / cells)
    pixel = np.arange(pixels)
    overlap = np.minimum(edge[1:, None], pixel + 1) - np.maximum(edge[:-1, None], pixel)
    return np.asarray(np.clip(overlap, 0, None) * (cells / pixels), dtype=np.float32)
