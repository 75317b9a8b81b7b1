"""A folder of images with a folder for each class."""

import logging
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from eigen_reptile.data.image_index import image_files, report_broken
from eigen_reptile.data.io.archives import FolderSource
from eigen_reptile.errors import DataError
from eigen_reptile.practice.backbones.backbone import Backbone
from eigen_reptile.practice.backbones.feature_cache import FeatureCache
from eigen_reptile.practice.samples import readable_features
from eigen_reptile.runtime.files import expanded
from eigen_reptile.runtime.progress import StartProgress, no_progress
from eigen_reptile.runtime.text import printable

log = logging.getLogger(__name__)

DEPTH = 3
"""Levels that are looked at: classes, their images, and folders in these, whose images are counted to be reported."""


class ImageFolder(NamedTuple):
    """The images below ROOT/CLASS/, class by class in alphabetical order."""

    root: Path
    paths: list[Path]
    """Paths of all images, relative to the root."""
    labels: Int[np.ndarray, "N"]
    """The class of each image, as a position in `names`."""
    names: list[str]
    """The classes, which are the names of their folders."""

    def subset(self, rows: Int[np.ndarray, "M"]) -> "ImageFolder":
        """Only these images. Classes keep their positions, even if they have no image left."""
        return self._replace(paths=[self.paths[row] for row in rows], labels=self.labels[rows])


def list_image_folder(root: Path, skip_broken: bool = False) -> ImageFolder:
    """The images of a folder, none of which is read yet; DataError if there are none, or if a class has none.

    With `skip_broken`, classes without images are left out. Hidden files, files that are not images, images outside of
    the folders of classes and those in deeper folders are ignored; of the latter two the log says how many.
    """
    root = expanded(root)
    if not root.is_dir():
        raise DataError(f"there is no folder {root}")
    folders = image_files(FolderSource(root, DEPTH))
    classes = {name: files for name, files in folders.items() if name and "/" not in name}
    if not any(classes.values()):
        raise DataError(
            f"there are no images in {root}: a folder for each class is expected there, such as {root}/cat/1.jpg"
        )
    if ignored := sum(len(files) for name, files in folders.items() if name not in classes):
        log.warning("ignored %d images in %s that are not directly in the folder of a class", ignored, root)
    _check_classes(classes, skip_broken)
    names = [name for name, files in classes.items() if files]
    labels = np.repeat(np.arange(len(names)), [len(classes[name]) for name in names])
    return ImageFolder(root, [root / name / file for name in names for file in classes[name]], labels, names)


def _check_classes(classes: dict[str, list[str]], skip_empty: bool) -> None:
    for name in classes:
        try:
            name.encode()
        except UnicodeEncodeError as error:
            raise DataError(f"the name of the folder {printable(name)} is not UTF-8: rename it") from error
    if empty := [name for name, files in classes.items() if not files]:
        if not skip_empty:
            raise DataError(
                f"{len(empty)} of {len(classes)} classes have no images, the first of them {empty[0]}: remove their "
                "folders, or set `skip_broken` to leave them out"
            )
        log.warning("classes without images, left out: %d (%s)", len(empty), ", ".join(empty[:10]))


def features_of_folder(
    folder: ImageFolder,
    backbone: Backbone,
    cache: FeatureCache | None = None,
    start_progress: StartProgress = no_progress,
    skip_broken: bool = False,
) -> tuple[ImageFolder, Float[np.ndarray, "M F"]]:
    """The features of all images, and the folder without those that cannot be read.

    All of these are logged together. They are a DataError unless they are to be skipped, and so is a class all of
    whose images are broken.
    """
    found = readable_features(folder.paths, backbone, cache, start_progress)
    report_broken(list(found.broken.values()), len(folder.paths), skip_broken, "skip_broken")
    readable = folder.subset(found.rows)
    left = np.bincount(readable.labels, minlength=len(folder.names))
    if len(empty := np.flatnonzero(left == 0)):
        raise DataError(f"none of the images of the class {folder.names[empty[0]]} can be read: repair or remove them")
    return readable, found.features
