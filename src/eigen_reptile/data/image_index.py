"""Find the images of a data set class by class, and decode them into the arrays of the cache."""

import logging
import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple, final

import numpy as np
from jaxtyping import UInt8

from eigen_reptile.data.bank import Split
from eigen_reptile.data.io.archives import FolderSource, Source, UnreadableFileError, ZipSource
from eigen_reptile.data.io.cache import SPLITS, Allocate, PackedSplit
from eigen_reptile.data.io.images import ImageFormat, has_image_suffix, read_image
from eigen_reptile.errors import DataError
from eigen_reptile.runtime.memory import check_memory
from eigen_reptile.runtime.progress import ReportProgress

log = logging.getLogger(__name__)

MAX_LISTED = 1000
"""How many broken images are listed; of the others only the number is given."""


@final
@dataclass(frozen=True)
class ImageReader:
    """Reads one image when it is called; UnreadableFileError if it is broken."""

    read: Callable[[], UInt8[np.ndarray, "H W C"]]
    file_name: str = ""
    """Without its folder; empty if the image has no file of its own."""

    def __call__(self) -> UInt8[np.ndarray, "H W C"]:
        return self.read()


ImagesByClass = Mapping[str, Sequence[ImageReader]]
"""The images of each class, by the name of the class."""


class ImageIndex(NamedTuple):
    """A complete data set, none of whose images has been read yet."""

    shape: tuple[int, int, int]
    """Height, width and channels of every image."""
    splits: Mapping[Split, ImagesByClass]
    groups: re.Pattern[str] | None = None
    """The part of the file name that all images of a group share."""


def find_folder_or_zip(root: Path, name: str, depth: int) -> Source | None:
    """The folder `name` in the root, or else NAME.zip there; if the root is itself a zip, the folder `name` in it."""
    if root.is_file():
        return ZipSource(root, name)
    if (root / name).is_dir():
        return FolderSource(root / name, depth)
    return ZipSource(file, name) if (file := root / f"{name}.zip").is_file() else None


def index_by_folder(sources: Mapping[str, Source], image_format: ImageFormat) -> dict[str, list[ImageReader]]:
    """The images of each folder, by the path of the folder with the name of its source in front."""
    return {
        f"{name}/{folder}".strip("/"): [
            ImageReader(partial(read_image, source, f"{folder}/{file}".strip("/"), image_format), file)
            for file in files
        ]
        for name, source in sources.items()
        for folder, files in image_files(source).items()
    }


def image_files(source: Source) -> dict[str, list[str]]:
    """The names of the images in each folder.

    Hidden files, and files whose suffix is not that of an image, are ignored. A folder whose name has the suffix of an
    image counts as a broken image.
    """
    folders: dict[str, list[str]] = {}
    ignored = 0
    for path in source.paths:
        parts = path.rstrip("/").split("/")
        if is_hidden(parts):
            continue
        if has_image_suffix(parts[-1]):
            folders.setdefault("/".join(parts[:-1]), []).append(parts[-1])
        elif path.endswith("/"):
            folders.setdefault("/".join(parts), [])
        else:
            ignored += 1
    if ignored:
        log.info("files in %s without the suffix of an image, ignored: %d", source.location, ignored)
    return folders


def is_hidden(parts: Sequence[str]) -> bool:
    """Whether the parts of a path name a hidden file, one in a hidden folder, or what macOS adds to archives."""
    return any(part.startswith(".") or part == "__MACOSX" for part in parts)


def common_parent(sources: Mapping[str, Source]) -> Path:
    """The folder that contains all sources."""
    return Path(os.path.commonpath([source.location for source in sources.values()]))


def read_images(
    index: ImageIndex, allocate: Allocate, report: ReportProgress, skip_broken: bool
) -> dict[Split, PackedSplit]:
    """Read all images into the arrays of the cache, class by class. All broken ones are reported together."""
    height, width, _ = index.shape
    check_memory(8 * math.prod(index.shape), f"an image of {height}x{width} pixels", "use a smaller `data.size`")
    broken: list[str] = []
    packed: dict[Split, PackedSplit] = {}
    done = 0
    for split in SPLITS:
        classes = index.splits[split]
        pixels = allocate(split, (sum(map(len, classes.values())), *index.shape))
        readable: dict[str, list[ImageReader]] = {}
        for name, readers in classes.items():
            start = sum(map(len, readable.values()))
            readable[name] = _read_class(readers, pixels[start:], broken)
            done += len(readers)
            report(done, {})
        packed[split] = _pack(pixels, readable, index.groups)
    report_broken(broken, done, skip_broken)
    for split in SPLITS:
        for name in set(index.splits[split]).difference(packed[split].names):
            log.warning("skipped the class %s: none of its images can be read", name)
        if not packed[split].names:
            raise DataError(f"no image of the {split} split can be read")
    return packed


def _read_class(
    readers: Sequence[ImageReader], pixels: UInt8[np.ndarray, "N H W C"], broken: list[str]
) -> list[ImageReader]:
    """Write the readable images into the first rows, and return their readers; note what is wrong with the others."""
    readable: list[ImageReader] = []
    for read in readers:
        try:
            pixels[len(readable)] = read()
        except UnreadableFileError as error:
            broken.append(str(error))
        else:
            readable.append(read)
    return readable


def report_broken(broken: Sequence[str], total: int, skip: bool, setting: str = "data.skip_broken") -> None:
    """Log all broken images, and raise a DataError unless they are to be skipped, which is the `setting`."""
    if skip or len(broken) > 1:
        for error in broken[:MAX_LISTED]:
            log.warning("skipped: %s" if skip else "%s", error)
        if broken[MAX_LISTED:]:
            log.warning("and %d more", len(broken) - MAX_LISTED)
    if skip and len(broken) > 1:
        log.warning("%d of %d images are broken and were skipped", len(broken), total)
    if broken and not skip:
        several = f"{len(broken)} of {total} images are broken, the first of them: " if len(broken) > 1 else ""
        raise DataError(
            f"{several}{broken[0]}; repair or remove {'them' if several else 'it'}, or set `{setting}` to skip "
            "broken images"
        )


def _pack(
    pixels: UInt8[np.ndarray, "N H W C"], readable: Mapping[str, Sequence[ImageReader]], pattern: re.Pattern[str] | None
) -> PackedSplit:
    """The classes that have readable images, and the groups of these. Different classes have different groups."""
    sizes = {name: len(readers) for name, readers in readable.items() if readers}
    number_of: dict[tuple[str, str], int] = {}
    groups: list[int] = []
    if pattern is not None:
        for name, readers in readable.items():
            for reader in readers:
                groups.append(number_of.setdefault((name, group_of(reader.file_name, pattern)), len(number_of)))
    return PackedSplit(pixels[: sum(sizes.values())], tuple(sizes), tuple(sizes.values()), tuple(groups))


def group_of(file_name: str, pattern: re.Pattern[str]) -> str:
    """What the pattern, or its first pair of parentheses, matches in the name."""
    match = pattern.search(file_name)
    if not match:
        raise DataError(f"`data.groups` must match every file name, but {pattern.pattern} does not match {file_name}")
    return match[1] or "" if pattern.groups else match[0]
