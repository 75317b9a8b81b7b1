"""mini-ImageNet (Vinyals et al. 2016) in the split of Ravi and Larochelle (2017): 100 classes of ImageNet."""

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, final

import numpy as np

from eigen_reptile.data.archives import FolderSource, Source
from eigen_reptile.data.bank import DataError, Split
from eigen_reptile.data.official import Official, class_lists
from eigen_reptile.data.packing import (
    Contents,
    Picture,
    PictureSet,
    by_folder,
    common_place,
    data_folder,
    find_part,
)
from eigen_reptile.data.pictures import Style, read_picture, stretched
from eigen_reptile.data.plain import read_plain
from eigen_reptile.progress import Announce

STYLE = Style(84, "RGB", stretched)
FOLDERS: dict[Split, str] = {"train": "train", "validation": "val", "test": "test"}
MAX_LIST = 1 << 24
"""Bytes of a list of pictures; the longest has 1.3 million."""
FORMS = (
    "train, val and test as folders or zips with <class>/*.jpg; images or images.zip with train.csv, val.csv and "
    "test.csv; or mini-imagenet-cache-train.pkl, -val.pkl and -test.pkl"
)
"""The forms in which it is accepted."""


@final
@dataclass(frozen=True)
class MiniImagenet(PictureSet):
    """mini-ImageNet, 84x84: 64 classes to train, 16 to validate, 20 to test. It must be on the disk already."""

    per_class: int = 600
    """Pictures of each class to expect."""

    name: ClassVar[str] = "mini-imagenet"

    def __post_init__(self) -> None:
        if self.per_class < 1:
            raise ValueError(f"per_class must be at least 1, not {self.per_class}")

    def _options(self) -> dict[str, Any]:
        return {"per_class": self.per_class}

    def _sources(self, announce: Announce) -> Mapping[str, Source]:
        root = self._find_root(self.name)
        if root is None:
            raise DataError(
                f"mini-imagenet is not in {data_folder() / self.name}, and may not be downloaded from anywhere: "
                f"put there {FORMS}; or say by --data.root (of a recipe: --data) where it lies"
            )
        return find_mini_imagenet(root)

    def _contents(self, sources: Mapping[str, Source]) -> Contents:
        classes = {
            split: tuple(f"{FOLDERS[split]}/{name}" for name in names)
            for split, names in class_lists("mini_imagenet").items()
        }
        advice = "get it anew, or say by --data.per-class (--per-class for recipes) how many pictures of each to expect"
        official = Official("mini-ImageNet", classes, self.per_class, advice)
        if "images" in sources:
            found = listed_classes(sources["lists"], sources["images"])
        elif "arrays" in sources:
            found = array_classes(sources["arrays"].place)
        else:
            found = by_folder(sources, STYLE)
        return Contents(STYLE.shape, official.arrange(found, common_place(sources)))


def find_mini_imagenet(root: Path) -> dict[str, Source]:
    """The folders of the splits; or `lists` of pictures that lie in `images`; or a folder with `arrays`."""
    trees = {name: source for name in FOLDERS.values() if (source := find_part(root, name, depth=2))}
    if len(trees) == len(FOLDERS):
        return trees
    if all((root / f"{name}.csv").is_file() for name in FOLDERS.values()):
        images = find_part(root, "images", depth=1)
        if images is None:
            raise DataError(f"{root} holds lists of pictures, but neither images nor images.zip: put one of them there")
        return {"lists": FolderSource(root, depth=1), "images": images}
    if all(array_file(root, name).is_file() for name in FOLDERS.values()):
        return {"arrays": FolderSource(root, depth=1)}
    lacking = f"no {next(name for name in FOLDERS.values() if name not in trees)}" if trees else "no mini-ImageNet"
    raise DataError(f"{root} holds {lacking}: put there {FORMS}")


def listed_classes(lists: Source, images: Source) -> dict[str, list[Picture]]:
    """The pictures of each class by the lists, which have a file name and a class in each row."""
    there = set(images.paths)
    found: dict[str, list[Picture]] = {}
    for folder in FOLDERS.values():
        file = f"{folder}.csv"
        try:
            table = csv.DictReader(io.StringIO(lists.read(file, MAX_LIST).decode()))
            rows = sorted((row["label"], row["filename"]) for row in table)
        except (KeyError, TypeError, ValueError, csv.Error) as error:
            raise DataError(f"{lists.where(file)} is not a table with the columns filename and label") from error
        if missing := [name for _, name in rows if name not in there]:
            raise DataError(f"{images.place} lacks {len(missing)} pictures of {file}, the first of them {missing[0]}")
        for label, name in rows:
            found.setdefault(f"{folder}/{label}", []).append(partial(read_picture, images, name, STYLE))
    return found


def array_file(root: Path, folder: str) -> Path:
    return root / f"mini-imagenet-cache-{folder}.pkl"


def array_classes(root: Path) -> dict[str, list[Picture]]:
    """The pictures of each class in the arrays that circulate."""
    found: dict[str, list[Picture]] = {}
    for folder in FOLDERS.values():
        file = array_file(root, folder)
        try:
            with file.open("rb") as stream:
                table = read_plain(stream)
            pixels, rows = table["image_data"], table["class_dict"]
            if not isinstance(pixels, np.ndarray) or pixels.dtype != np.uint8 or pixels.shape[1:] != STYLE.shape:
                raise ValueError("image_data is not an array of pictures of 84x84x3 bytes")
            if not rows:
                raise ValueError("class_dict has no class")
            places = np.concatenate([np.asarray(numbers) for numbers in rows.values()])
            if not np.array_equal(np.sort(places), np.arange(len(pixels))):
                raise ValueError("class_dict does not give each picture to one class")
        except OSError as error:
            raise DataError(f"cannot read {file}: {error.strerror}") from error
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise DataError(f"{file} is not of mini-ImageNet: {error}") from error
        for name, numbers in rows.items():
            found[f"{folder}/{name}"] = [partial(pixels.__getitem__, int(number)) for number in numbers]
    return found
