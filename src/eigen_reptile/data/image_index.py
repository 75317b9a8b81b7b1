"""Find the images of a data set class by class, and decode them into the arrays of the cache."""

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import UInt8

from eigen_reptile.data.bank import Split
from eigen_reptile.data.io.archives import FolderSource, Source, UnreadableFileError, ZipSource
from eigen_reptile.data.io.cache import SPLITS, Allocate, PackedSplit
from eigen_reptile.data.io.images import ImageFormat, has_image_suffix, read_image
from eigen_reptile.errors import DataError
from eigen_reptile.runtime.progress import ReportProgress

log = logging.getLogger(__name__)

ImageReader = Callable[[], UInt8[np.ndarray, "H W C"]]
"""Reads one image when it is called; UnreadableFileError if it is broken."""

ImagesByClass = Mapping[str, Sequence[ImageReader]]
"""The images of each class, by the name of the class."""


class ImageIndex(NamedTuple):
    """A complete data set, none of whose images has been read yet."""

    shape: tuple[int, int, int]
    """Height, width and channels of every image."""
    splits: Mapping[Split, ImagesByClass]


def find_folder_or_zip(root: Path, name: str, depth: int) -> Source | None:
    """The folder `name` in the root, or else NAME.zip there; if the root is itself a zip, the folder `name` in it."""
    if root.is_file():
        return ZipSource(root, name)
    if (root / name).is_dir():
        return FolderSource(root / name, depth)
    return ZipSource(file, name) if (file := root / f"{name}.zip").is_file() else None


def index_by_folder(sources: Mapping[str, Source], image_format: ImageFormat) -> dict[str, list[ImageReader]]:
    """The images of each folder, by the path of the folder with the name of its source in front.

    Hidden files, and files whose suffix is not that of an image, are ignored. A folder whose name has the suffix of an
    image counts as a broken image.
    """
    folders: dict[str, list[ImageReader]] = {}
    ignored = 0
    for name, source in sources.items():
        for path in source.paths:
            parts = path.rstrip("/").split("/")
            if any(part.startswith(".") or part == "__MACOSX" for part in parts):
                continue
            if has_image_suffix(parts[-1]):
                folder = "/".join([name, *parts[:-1]]).strip("/")
                folders.setdefault(folder, []).append(partial(read_image, source, "/".join(parts), image_format))
            elif path.endswith("/"):
                folders.setdefault("/".join([name, *parts]).strip("/"), [])
            else:
                ignored += 1
    if ignored:
        log.info("ignored %d files in %s that do not have the suffix of an image", ignored, common_parent(sources))
    return folders


def common_parent(sources: Mapping[str, Source]) -> Path:
    """The folder that contains all sources."""
    return Path(os.path.commonpath([source.location for source in sources.values()]))


def read_images(
    index: ImageIndex, allocate: Allocate, report: ReportProgress, skip_broken: bool
) -> dict[Split, PackedSplit]:
    """Read all images into the arrays of the cache, class by class."""
    done = 0
    packed = {}
    for split in SPLITS:
        classes = index.splits[split]
        pixels = allocate(split, (sum(map(len, classes.values())), *index.shape))
        sizes: dict[str, int] = {}
        for name, readers in classes.items():
            start = sum(sizes.values())
            sizes[name] = _read_class(readers, pixels[start:], skip_broken)
            done += len(readers)
            report(done, {})
        for name in [name for name, size in sizes.items() if not size]:
            log.warning("skipped the class %s: none of its images can be read", name)
            del sizes[name]
        if not sizes:
            raise DataError(f"no image of the {split} split can be read")
        packed[split] = PackedSplit(pixels[: sum(sizes.values())], tuple(sizes), tuple(sizes.values()))
    return packed


def _read_class(readers: Sequence[ImageReader], pixels: UInt8[np.ndarray, "N H W C"], skip_broken: bool) -> int:
    """Write the readable images into the first rows, and return how many there are."""
    count = 0
    for read in readers:
        try:
            pixels[count] = read()
        except UnreadableFileError as error:
            if not skip_broken:
                raise DataError(
                    f"{error}; repair or remove it, or set `data.skip_broken` to skip broken images"
                ) from error
            log.warning("skipped %s", error)
        else:
            count += 1
    return count
