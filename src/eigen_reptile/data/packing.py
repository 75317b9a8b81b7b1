"""Data sets of pictures: what they have in common, from finding them to banks of tasks."""

import logging
import os
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from jaxtyping import UInt8

from eigen_reptile.data.archives import FolderSource, Source, UnreadableError, ZipSource
from eigen_reptile.data.bank import Banks, DataError, Dataset, Split
from eigen_reptile.data.cache import SPLITS, Allocate, Packed, cached
from eigen_reptile.data.images import ImageBank
from eigen_reptile.data.pictures import Style, named_as_picture, read_picture
from eigen_reptile.progress import Announce, Report

log = logging.getLogger(__name__)

RULE = 1
"""Goes up when other pixels come to be read from the same files."""

Picture = Callable[[], UInt8[np.ndarray, "H W C"]]
"""Gives a picture's pixels when they are wanted; UnreadableError if it is broken."""

Classes = Mapping[str, Sequence[Picture]]


class Contents(NamedTuple):
    """A data set that was found whole, but of which no picture was read yet."""

    shape: tuple[int, int, int]
    """Height, width and channels of every picture."""
    splits: Mapping[Split, Classes]


@dataclass(frozen=True)
class PictureSet(Dataset):
    """A data set of pictures in files. What was read once is kept in the cache until a file changes."""

    root: Path | None = None
    """Folder, zip or archive that holds it; default: NAME in the folder $EIGEN_REPTILE_DATA, or in ./data."""
    skip_broken: bool = False
    """Leave out pictures that cannot be read, and say which, instead of refusing."""

    name: ClassVar[str]

    @property
    def classifies(self) -> bool:
        return True

    def load(self, announce: Announce) -> Banks:
        try:
            sources = self._sources(announce)
        except OSError as error:
            raise DataError(f"cannot read {error.filename}: {error.strerror}") from error
        key = {
            "rule": RULE,
            "skip_broken": self.skip_broken,
            "sources": {name: source.stamp() for name, source in sources.items()},
            **self._options(),
        }

        def build(allocate: Allocate) -> dict[Split, Packed]:
            contents = self._contents(sources)
            total = sum(len(pictures) for classes in contents.splits.values() for pictures in classes.values())
            return pack(contents, allocate, announce(f"reading {self.name}", total), self.skip_broken)

        return self._banks(cached(self.name, key, build))

    @abstractmethod
    def _sources(self, announce: Announce) -> Mapping[str, Source]:
        """Where the data set lies, in parts; found quickly, without looking into archives."""

    @abstractmethod
    def _contents(self, sources: Mapping[str, Source]) -> Contents:
        """What lies there; DataError unless it is all that belongs to the data set."""

    def _options(self) -> dict[str, Any]:
        """The settings that change what is read."""
        return {}

    def _banks(self, packed: Mapping[Split, Packed]) -> Banks:
        return Banks(*(ImageBank(*packed[split]) for split in SPLITS))

    def _find_root(self, *names: str) -> Path | None:
        """The root, or else the first of these names that there is in the place for data sets."""
        if self.root is not None:
            if not self.root.expanduser().exists():
                raise DataError(
                    f"there is no {self.root}: --data.root (of a recipe: --data) must be where the pictures lie"
                )
            return self.root.expanduser()
        places = [data_folder() / file for name in names for file in (name, f"{name}.zip")]
        return next((place for place in places if place.exists()), None)


def data_folder() -> Path:
    """Where data sets are looked for by their names."""
    return Path(os.environ.get("EIGEN_REPTILE_DATA") or "data")


def find_part(root: Path, name: str, depth: int) -> Source | None:
    """The folder of this name in the root, or the zip of this name there; a root that is a zip has such a folder."""
    if root.is_file():
        return ZipSource(root, name)
    if (root / name).is_dir():
        return FolderSource(root / name, depth)
    return ZipSource(file, name) if (file := root / f"{name}.zip").is_file() else None


def by_folder(sources: Mapping[str, Source], style: Style) -> dict[str, list[Picture]]:
    """The pictures of each folder, called by its path with its source's name in front.

    Passed over are hidden files, and those that are no pictures by their names. A folder that is called as if it were
    a picture counts as a broken one.
    """
    folders: dict[str, list[Picture]] = {}
    passed = 0
    for name, source in sources.items():
        for path in source.paths:
            parts = path.rstrip("/").split("/")
            if any(part.startswith(".") or part == "__MACOSX" for part in parts):
                continue
            if named_as_picture(parts[-1]):
                folder = "/".join([name, *parts[:-1]]).strip("/")
                folders.setdefault(folder, []).append(partial(read_picture, source, "/".join(parts), style))
            elif path.endswith("/"):
                folders.setdefault("/".join([name, *parts]).strip("/"), [])
            else:
                passed += 1
    if passed:
        log.info("%d files in %s are no pictures by their names", passed, common_place(sources))
    return folders


def common_place(sources: Mapping[str, Source]) -> Path:
    """Where all the sources lie."""
    return Path(os.path.commonpath([source.place for source in sources.values()]))


def pack(contents: Contents, allocate: Allocate, report: Report, skip_broken: bool) -> dict[Split, Packed]:
    """Read all pictures into the arrays of the cache, class after class."""
    done = 0
    packed = {}
    for split in SPLITS:
        classes = contents.splits[split]
        pixels = allocate(split, (sum(map(len, classes.values())), *contents.shape))
        sizes: dict[str, int] = {}
        for name, pictures in classes.items():
            start = sum(sizes.values())
            sizes[name] = _read_class(pictures, pixels[start:], skip_broken)
            done += len(pictures)
            report(done, {})
        for name in [name for name, size in sizes.items() if not size]:
            log.warning("left out: the class %s, of which no picture can be read", name)
            del sizes[name]
        if not sizes:
            raise DataError(f"there is no picture that can be read for the {split} split")
        packed[split] = Packed(pixels[: sum(sizes.values())], tuple(sizes), tuple(sizes.values()))
    return packed


def _read_class(pictures: Sequence[Picture], pixels: UInt8[np.ndarray, "N H W C"], skip_broken: bool) -> int:
    """Write the pictures that can be read into the first rows; how many those are."""
    count = 0
    for picture in pictures:
        try:
            pixels[count] = picture()
        except UnreadableError as error:
            if not skip_broken:
                raise DataError(
                    f"{error}; put it right, or leave out broken pictures (train has --data.skip-broken for that)"
                ) from error
            log.warning("left out: %s", error)
        else:
            count += 1
    return count
