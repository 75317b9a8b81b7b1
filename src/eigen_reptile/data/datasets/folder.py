"""A folder of your own images, with a folder for each class."""

import logging
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, final

import numpy as np

from eigen_reptile.data.bank import Banks, Split
from eigen_reptile.data.image_dataset import ImageDataset, image_banks
from eigen_reptile.data.image_index import ImageIndex, ImagesByClass, group_of, index_by_folder
from eigen_reptile.data.io.archives import FolderSource, Source, UnreadableFileError, ZipSource
from eigen_reptile.data.io.images import MAX_BYTES, ImageFormat, has_image_suffix, is_greyscale, stretch_to_square
from eigen_reptile.errors import ConfigError, DataError
from eigen_reptile.runtime.progress import StartProgress

log = logging.getLogger(__name__)

SPLIT_NAMES: dict[str, Split] = {
    "train": "train", "val": "validation", "valid": "validation", "validation": "validation", "test": "test",
}  # fmt: skip
DEPTH = 6
"""Levels of folders that are searched for images: some data sets have several folders around those of the classes."""
PERCENTAGES: dict[Split, int] = {"train": 64, "validation": 16, "test": 20}
"""How classes are divided among splits."""


@final
@dataclass(frozen=True)
class Folder(ImageDataset):
    """Your own images: root/<class>/*.png (or jpg, webp, ...), or root/{train,val,test}/<class>/*.png.

    Use it to try the methods on your own data. Every image is stretched to a square, as in mini-ImageNet: nothing is
    cropped, but the aspect ratio changes. Its EXIF orientation is applied, and transparent areas become white. If there
    are no folders for splits, the classes are shuffled and divided 64 : 16 : 20; if only some splits have a folder, the
    others are taken from `train` in the same proportions.
    """

    root: Path | None = None
    """Folder or zip with the images; there is no default."""
    size: int = 32
    """Height and width that all images are resized to. 84 shows more detail and takes seven times as long."""
    channels: Literal["auto", "grey", "rgb"] = "auto"
    """`auto`: greyscale if all images are stored in greyscale, otherwise RGB."""
    least: int = 5
    """Minimum number of classes of each split when classes are divided: as many as a task has (`task.way`)."""
    split_seed: int = 0
    """Seed of the shuffle of the classes before they are divided into splits."""
    groups: str = ""
    """Regular expression for what images that hardly differ have in common in their file names: `^\\d+` for frames of
    one video that are named 00003_00012.ppm. Of such a group, a task has images either in its support or among its
    queries, but not in both."""

    name: ClassVar[str] = "folder"

    def __post_init__(self) -> None:
        for name, least in (("size", 1), ("least", 1), ("split_seed", 0)):
            if getattr(self, name) < least:
                raise ConfigError(f"`data.{name}` must be at least {least}, not {getattr(self, name)}")
        try:
            re.compile(self.groups)
        except (re.error, OverflowError, RecursionError) as error:
            raise ConfigError(f"`data.groups` must be a regular expression, not {self.groups}: {error}") from error

    @property
    def has_characters(self) -> bool:
        return False

    def load(self, start_progress: StartProgress) -> Banks:
        settings = {
            "size": self.size,
            "channels": self.channels,
            "least": self.least,
            "split_seed": self.split_seed,
            "groups": self.groups,
        }
        return image_banks(self._load_packed(start_progress, settings))

    def _find_sources(self, start_progress: StartProgress) -> Mapping[str, Source]:
        if self.root is None:
            raise DataError("`data.root` must be set to a folder of images that has a folder for each class")
        root = self._find_root() or self.root
        return {"": ZipSource(root) if root.is_file() else FolderSource(root, depth=DEPTH)}

    def _index_images(self, sources: Mapping[str, Source]) -> ImageIndex:
        (source,) = sources.values()
        grey = self.channels == "grey" or (self.channels == "auto" and all_greyscale(source))
        image_format = ImageFormat(self.size, "L" if grey else "RGB", stretch_to_square)
        folders = strip_outer_folders(index_by_folder(sources, image_format))
        try:
            splits = splits_from_folders(folders) or {"train": top_level_classes(folders)}
            self._check_nonempty(splits)
            if ignored := _count_images(folders) - sum(map(_count_images, splits.values())):
                log.warning("ignored %d images that are not directly in the folder of a class", ignored)
            return ImageIndex(image_format.shape, self._add_missing_splits(splits), self._check_groups(splits))
        except DataError as error:
            raise DataError(f"{source.location}: {error}") from error

    def _check_nonempty(self, splits: Mapping[Split, ImagesByClass]) -> None:
        empty = [name for classes in splits.values() for name, images in classes.items() if not images]
        if empty and not self.skip_broken:
            raise DataError(
                f"{len(empty)} of its folders contain no images directly, the first of them {empty[0]}: "
                "remove them, or set `data.skip_broken` to skip them"
            )

    def _check_groups(self, splits: Mapping[Split, ImagesByClass]) -> re.Pattern[str] | None:
        """The pattern of groups, if there are any, after trying it on all file names."""
        if not self.groups:
            return None
        pattern = re.compile(self.groups)
        for classes in splits.values():
            for readers in classes.values():
                for reader in readers:
                    group_of(reader.file_name, pattern)
        return pattern

    def _add_missing_splits(self, splits: Mapping[Split, ImagesByClass]) -> dict[Split, ImagesByClass]:
        """All three splits, without empty classes; those without a folder are taken from the training classes."""
        nonempty: dict[Split, ImagesByClass] = {
            split: {name: images for name, images in classes.items() if images} for split, classes in splits.items()
        }
        train = nonempty.get("train", {})
        wanted = [split for split in PERCENTAGES if split == "train" or split not in nonempty]
        if wanted == ["train"]:
            return nonempty
        parts = divide_classes(list(train), wanted, self.least, self.split_seed)
        return nonempty | {split: {name: train[name] for name in names} for split, names in parts.items()}


def all_greyscale(source: Source) -> bool:
    """Whether every image is stored in greyscale. Unreadable files are ignored here: reading them fails later."""
    for path in source.paths:
        with suppress(UnreadableFileError, ValueError):
            if has_image_suffix(path) and not is_greyscale(source.read(path, MAX_BYTES)):
                return False
    return True


def strip_outer_folders(folders: ImagesByClass) -> ImagesByClass:
    """The folders without the outer ones that contain all images; zips often have one."""
    tops = {name.partition("/")[0] if "/" in name else "" for name, images in folders.items() if images}
    if len(tops) != 1 or "" in tops:
        return folders
    (top,) = tops
    inner = {name.removeprefix(f"{top}/"): images for name, images in folders.items() if name != top}
    return strip_outer_folders(inner)


def splits_from_folders(folders: ImagesByClass) -> dict[Split, ImagesByClass]:
    """The classes in folders that are named like splits; empty if there are no such folders."""
    splits: dict[Split, dict[str, Any]] = {}
    split_of: dict[str, str] = {}
    for path, images in folders.items():
        top, _, name = path.partition("/")
        if name and "/" not in name and top.lower() in SPLIT_NAMES:
            if name in split_of:
                raise DataError(
                    f"the class {name} is in both {split_of[name]} and {top}, but splits must not share classes: "
                    "put the folders of all classes side by side to have them divided"
                )
            split_of[name] = top
            splits.setdefault(SPLIT_NAMES[top.lower()], {})[name] = images
    if splits and "train" not in splits:
        raise DataError(f"it has {', '.join(dict.fromkeys(split_of.values()))}, but no train")
    return dict(splits)


def top_level_classes(folders: ImagesByClass) -> ImagesByClass:
    """The folders directly in the root."""
    classes = {name: images for name, images in folders.items() if name and "/" not in name}
    if not any(classes.values()):
        raise DataError(
            "there are no images in folders of classes: expected <class>/*.png, or train/<class>/*.png and so on"
        )
    return classes


def _count_images(classes: ImagesByClass) -> int:
    return sum(map(len, classes.values()))


def divide_classes(names: Sequence[str], splits: Sequence[Split], least: int, seed: int) -> dict[Split, list[str]]:
    """Divide the classes among these splits in the proportions 64 : 16 : 20, in an order given by the seed."""
    if len(names) < least * len(splits):
        raise DataError(
            f"{len(names)} classes are too few for {', '.join(splits)}, which need at least {least} each: add classes, "
            "arrange them yourself as train, val and test, or use smaller tasks (such as `data.least` and `task.way` 2)"
        )
    order = np.random.default_rng(seed).permutation(len(names))
    shuffled = [sorted(names)[position] for position in order]
    parts: dict[Split, list[str]] = {}
    total = sum(PERCENTAGES[split] for split in splits)
    for split in splits[1:]:  # the first is train, which gets the remaining classes
        count = max(least, round(len(names) * PERCENTAGES[split] / total))
        parts[split], shuffled = sorted(shuffled[:count]), shuffled[count:]
    return {splits[0]: sorted(shuffled), **parts}
