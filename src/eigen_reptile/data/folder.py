"""Any folder of pictures, with a folder for each class."""

import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, final

import numpy as np

from eigen_reptile.data.archives import FolderSource, Source, UnreadableError, ZipSource
from eigen_reptile.data.bank import DataError, Split
from eigen_reptile.data.packing import Classes, Contents, PictureSet, by_folder
from eigen_reptile.data.pictures import MAX_BYTES, Style, named_as_picture, stored_in_grey, stretched
from eigen_reptile.progress import Announce

log = logging.getLogger(__name__)

SPLIT_NAMES: dict[str, Split] = {
    "train": "train", "val": "validation", "valid": "validation", "validation": "validation", "test": "test",
}  # fmt: skip
DEPTH = 6
"""Folders within folders down to which pictures are looked for: data sets are wrapped in several at times."""
SHARES: dict[Split, int] = {"train": 64, "validation": 16, "test": 20}


@final
@dataclass(frozen=True)
class Folder(PictureSet):
    """Your own pictures: root/<class>/*.png (or jpg, webp, ...), or root/{train,val,test}/<class>/*.png.

    Every picture is stretched to a square, as mini-ImageNet was made: nothing is cut off, but its proportions change.
    It is turned upright by its EXIF tag, and what is transparent becomes white. Without given splits, the classes are
    shuffled and divided 64 : 16 : 20; a split that is not given is taken from `train` likewise.
    """

    root: Path | None = None
    """Folder or zip that holds the pictures; there is no default."""
    size: int = 32
    """Height and width that all pictures are brought to. 84 shows more detail, and takes seven times as long."""
    channels: Literal["auto", "grey", "rgb"] = "auto"
    """`auto`: grey if every picture is stored so, else RGB."""
    least: int = 5
    """Classes that a split gets at least where they are divided: as many as a task has (--task.way)."""
    split_seed: int = 0
    """Seed by which the classes are shuffled before they are divided into splits."""

    name: ClassVar[str] = "folder"

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ValueError(f"size must be at least 1, not {self.size}")
        if self.least < 1:
            raise ValueError(f"least must be at least 1, not {self.least}")
        if self.split_seed < 0:
            raise ValueError(f"split_seed must be at least 0, not {self.split_seed}")

    def _options(self) -> dict[str, Any]:
        return {"size": self.size, "channels": self.channels, "least": self.least, "split_seed": self.split_seed}

    def _sources(self, announce: Announce) -> Mapping[str, Source]:
        if self.root is None:
            raise DataError("--data.root must say where the pictures lie: a folder with a folder for each class")
        root = self._find_root() or self.root
        return {"": ZipSource(root) if root.is_file() else FolderSource(root, depth=DEPTH)}

    def _contents(self, sources: Mapping[str, Source]) -> Contents:
        (source,) = sources.values()
        grey = self.channels == "grey" or (self.channels == "auto" and all_grey(source))
        style = Style(self.size, "L" if grey else "RGB", stretched)
        folders = unwrapped(by_folder(sources, style))
        try:
            splits = given_splits(folders) or {"train": single_classes(folders)}
            self._check_filled(splits)
            if passed := _count(folders) - sum(map(_count, splits.values())):
                log.warning("%d pictures do not lie right in the folder of a class, and are passed over", passed)
            return Contents(style.shape, self._completed(splits))
        except DataError as error:
            raise DataError(f"{source.place}: {error}") from error

    def _check_filled(self, splits: Mapping[Split, Classes]) -> None:
        empty = [name for classes in splits.values() for name, pictures in classes.items() if not pictures]
        if empty and not self.skip_broken:
            raise DataError(
                f"no pictures lie right in {len(empty)} of its folders, the first of them {empty[0]}: remove them, "
                "or leave them out (train has --data.skip-broken for that)"
            )

    def _completed(self, splits: Mapping[Split, Classes]) -> dict[Split, Classes]:
        """All three splits, without empty classes: those that are not given are taken from the classes to train."""
        filled: dict[Split, Classes] = {
            split: {name: pictures for name, pictures in classes.items() if pictures}
            for split, classes in splits.items()
        }
        train = filled.get("train", {})
        wanted = [split for split in SHARES if split == "train" or split not in filled]
        if wanted == ["train"]:
            return filled
        parts = divide(list(train), wanted, self.least, self.split_seed)
        return filled | {split: {name: train[name] for name in names} for split, names in parts.items()}


def all_grey(source: Source) -> bool:
    """Whether every picture is stored in grey. Those that cannot be read have no say: they will be refused."""
    for path in source.paths:
        with suppress(UnreadableError, ValueError):
            if named_as_picture(path) and not stored_in_grey(source.read(path, MAX_BYTES)):
                return False
    return True


def unwrapped(folders: Classes) -> Classes:
    """The folders without the outer ones that all pictures share, as zips often have one."""
    tops = {name.partition("/")[0] if "/" in name else "" for name, pictures in folders.items() if pictures}
    if len(tops) != 1 or "" in tops:
        return folders
    (top,) = tops
    return unwrapped({name.removeprefix(f"{top}/"): pictures for name, pictures in folders.items() if name != top})


def given_splits(folders: Classes) -> dict[Split, Classes]:
    """The classes in folders called as splits are; nothing if there are none."""
    splits: dict[Split, dict[str, Any]] = {}
    owner: dict[str, str] = {}
    for path, pictures in folders.items():
        top, _, name = path.partition("/")
        if name and "/" not in name and top.lower() in SPLIT_NAMES:
            if name in owner:
                raise DataError(
                    f"the class {name} is both in {owner[name]} and in {top}, but splits must differ in their classes: "
                    "put all folders of classes side by side to have them divided"
                )
            owner[name] = top
            splits.setdefault(SPLIT_NAMES[top.lower()], {})[name] = pictures
    if splits and "train" not in splits:
        raise DataError(f"it has {', '.join(dict.fromkeys(owner.values()))}, but no train")
    return dict(splits)


def single_classes(folders: Classes) -> Classes:
    """The folders that lie right in the root."""
    classes = {name: pictures for name, pictures in folders.items() if name and "/" not in name}
    if not any(classes.values()):
        raise DataError("there are no pictures in folders of classes: <class>/*.png, or train/<class>/*.png and so on")
    return classes


def _count(classes: Classes) -> int:
    return sum(map(len, classes.values()))


def divide(names: Sequence[str], splits: Sequence[Split], least: int, seed: int) -> dict[Split, list[str]]:
    """Share the classes out to these splits by 64 : 16 : 20, in an order that the seed decides."""
    if len(names) < least * len(splits):
        raise DataError(
            f"{len(names)} classes are too few for {', '.join(splits)}: at least {least} each are needed; add classes, "
            "lay them out yourself as train, val and test, or have smaller tasks (as by --data.least 2 --task.way 2)"
        )
    order = np.random.default_rng(seed).permutation(len(names))
    shuffled = [sorted(names)[place] for place in order]
    parts: dict[Split, list[str]] = {}
    total = sum(SHARES[split] for split in splits)
    for split in splits[1:]:  # the first is train, which gets the rest
        count = max(least, round(len(names) * SHARES[split] / total))
        parts[split], shuffled = sorted(shuffled[:count]), shuffled[count:]
    return {splits[0]: sorted(shuffled), **parts}
