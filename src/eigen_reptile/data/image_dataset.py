"""What data sets of image files have in common, from finding the files to banks of tasks."""

import os
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from eigen_reptile.data.bank import Banks, Dataset, Split
from eigen_reptile.data.image_bank import ImageBank
from eigen_reptile.data.image_index import ImageIndex, read_images
from eigen_reptile.data.io.archives import Source, UnreadableFileError
from eigen_reptile.data.io.cache import Allocate, PackedSplit, load_or_build
from eigen_reptile.errors import DataError
from eigen_reptile.runtime.files import expanded
from eigen_reptile.runtime.progress import StartProgress

RULE = 1
"""Part of the cache key; increase it when a change makes the same files decode to other pixels."""


@dataclass(frozen=True)
class ImageDataset(Dataset):
    """A data set of image files. The decoded images are cached until one of the files changes."""

    root: Path | None = None
    """Folder, zip or archive of the data set; default: NAME in the folder $EIGEN_REPTILE_DATA, or in ./data."""
    skip_broken: bool = False
    """Skip images that cannot be read, with a warning for each, instead of stopping with an error."""

    name: ClassVar[str]
    image_shape: ClassVar[tuple[int, int, int] | None] = None
    """Channels, height and width of its images, if all copies of the data set have the same."""

    @property
    def is_classification(self) -> bool:
        return True

    @abstractmethod
    def _find_sources(self, start_progress: StartProgress) -> Mapping[str, Source]:
        """The folders and archives of the data set, found without opening archives, which would take time."""

    @abstractmethod
    def _index_images(self, sources: Mapping[str, Source]) -> ImageIndex:
        """Where each image is; DataError unless the sources contain exactly the images of the data set."""

    def _load_packed(self, start_progress: StartProgress, settings: Mapping[str, Any]) -> dict[Split, PackedSplit]:
        """The images of each split, from the cache if possible. `settings` are those that affect what is read."""
        try:
            sources = self._find_sources(start_progress)
        except OSError as error:
            raise DataError(f"cannot read {error.filename}: {error.strerror}") from error
        except RuntimeError as error:  # of `expanduser`, for a user who does not exist
            raise DataError(f"`data.root` {self.root}: {error}") from error
        key = {
            "rule": RULE,
            "skip_broken": self.skip_broken,
            "sources": {name: source.fingerprint() for name, source in sources.items()},
            **settings,
        }

        def build(allocate: Allocate) -> dict[Split, PackedSplit]:
            index = self._index_images(sources)
            total = sum(len(images) for classes in index.splits.values() for images in classes.values())
            return read_images(index, allocate, start_progress(f"reading {self.name}", total), self.skip_broken)

        try:
            return load_or_build(self.name, key, build)
        except UnreadableFileError as error:  # of a file that is not an image, such as a list of classes
            raise DataError(str(error)) from error

    def _find_root(self, *names: str) -> Path | None:
        """The root if it is set, else the first of these names that exists in the data folder."""
        if self.root is not None:
            if not expanded(self.root).exists():
                raise DataError(f"{self.root} does not exist: set `data.root` to the folder or archive with the images")
            return expanded(self.root)
        candidates = [data_folder() / file for name in names for file in (name, f"{name}.zip")]
        return next((candidate for candidate in candidates if candidate.exists()), None)


def image_banks(packed: Mapping[Split, PackedSplit], rotate_training: bool = False) -> Banks:
    """A bank for each split; with `rotate_training`, rotated training classes are classes of their own."""

    def bank(split: Split) -> ImageBank:
        pixels, names, sizes, groups = packed[split]
        rotations = rotate_training and split == "train"
        return ImageBank(pixels, names, sizes, rotations, groups=np.array(groups) if groups else None)

    return Banks(bank("train"), bank("validation"), bank("test"))


def data_folder() -> Path:
    """The folder in which data sets are looked up by name."""
    return Path(os.environ.get("EIGEN_REPTILE_DATA") or "data")
