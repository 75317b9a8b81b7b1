"""Omniglot (Lake, Salakhutdinov and Tenenbaum 2015): 1,623 characters of 50 alphabets, drawn by 20 people each."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Literal, final

import numpy as np
from jaxtyping import Float, UInt8
from PIL import Image

from eigen_reptile.data.archives import Source, ZipSource
from eigen_reptile.data.bank import Banks, DataError, Split
from eigen_reptile.data.cache import Packed
from eigen_reptile.data.images import ImageBank
from eigen_reptile.data.official import Official, class_lists, fetch
from eigen_reptile.data.packing import Contents, PictureSet, by_folder, common_place, data_folder, find_part
from eigen_reptile.data.pictures import Style
from eigen_reptile.progress import Announce

ADDRESS = "https://raw.githubusercontent.com/brendenlake/omniglot/master/python"
PARTS = {
    "images_background": "68d2efa1b9178cc56df9314c21c6e718",
    "images_evaluation": "6b91aef0f799c5bb55b94e3f2daec811",
}
"""The two parts, and the MD5 checksums of their zips."""

OmniglotSplit = Literal["vinyals", "background"]
VALIDATION_ALPHABETS = 5
"""In the background split, so many alphabets of images_background, the last by name, are kept for validation."""


@final
@dataclass(frozen=True)
class Omniglot(PictureSet):
    """Omniglot, 28x28: white ink on black."""

    split: OmniglotSplit = "vinyals"
    """`vinyals`: 1,028 characters to train, 172 to validate, 423 to test. `background`: those of images_background
    to train, except its last five alphabets, which validate; those of images_evaluation to test."""
    rotations: bool = True
    """Turn the characters for training by 90, 180 and 270 degrees too, as characters of their own."""

    name: ClassVar[str] = "omniglot"

    @property
    def characters(self) -> bool:
        return True

    def _options(self) -> dict[str, Any]:
        return {"split": self.split}

    def _sources(self, announce: Announce) -> Mapping[str, Source]:
        root = self._find_root(self.name)
        if root is None:
            home = data_folder() / self.name
            return {
                part: ZipSource(fetch(f"{ADDRESS}/{part}.zip", md5, home, announce), part)
                for part, md5 in PARTS.items()
            }
        return find_omniglot(root)

    def _contents(self, sources: Mapping[str, Source]) -> Contents:
        return omniglot_contents(sources, self.split)

    def _banks(self, packed: Mapping[Split, Packed]) -> Banks:
        train = ImageBank(*packed["train"], turned=self.rotations)
        return super()._banks(packed)._replace(train=train)


def find_omniglot(root: Path) -> dict[str, Source]:
    sources = {part: source for part in PARTS if (source := find_part(root, part, depth=3))}
    if missing := [part for part in PARTS if part not in sources]:
        raise DataError(f"{root} holds neither the folder {missing[0]} nor {missing[0]}.zip: put one of them there")
    return sources


def omniglot_contents(sources: Mapping[str, Source], split: OmniglotSplit) -> Contents:
    style = Style(28, "L", ink)
    official = Official("Omniglot", split_classes(split), per_class=20)
    return Contents(style.shape, official.arrange(by_folder(sources, style), common_place(sources)))


def split_classes(split: OmniglotSplit) -> dict[Split, tuple[str, ...]]:
    """The folders of the characters in each split."""
    vinyals = class_lists("omniglot_vinyals")
    if split == "vinyals":
        return vinyals
    every = sorted(name for names in vinyals.values() for name in names)
    background, evaluation = (tuple(name for name in every if name.startswith(f"{part}/")) for part in PARTS)
    alphabets = sorted({name.split("/")[1] for name in background})
    kept = alphabets[-VALIDATION_ALPHABETS:]
    return {
        "train": tuple(name for name in background if name.split("/")[1] not in kept),
        "validation": tuple(name for name in background if name.split("/")[1] in kept),
        "test": evaluation,
    }


def ink(image: Image.Image, size: int) -> UInt8[np.ndarray, "size size"]:
    """How much ink there is in each of size x size equal parts of the sheet: 255 if it is full of it."""
    amount = 255 - np.asarray(image, dtype=np.float32)
    average = _overlaps(image.height, size) @ amount @ _overlaps(image.width, size).T
    return np.asarray(np.rint(average), dtype=np.uint8)


@cache
def _overlaps(pixels: int, parts: int) -> Float[np.ndarray, "parts pixels"]:
    """How much of each of equal parts of a line each of its pixels makes up."""
    edge = np.arange(parts + 1) * (pixels / parts)
    pixel = np.arange(pixels)
    overlap = np.minimum(edge[1:, None], pixel + 1) - np.maximum(edge[:-1, None], pixel)
    return np.asarray(np.clip(overlap, 0, None) * (parts / pixels), dtype=np.float32)
