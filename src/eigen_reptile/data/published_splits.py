"""The published class splits of benchmark data sets, and the check that a copy on disk is complete."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import final

from eigen_reptile.data.bank import Split
from eigen_reptile.data.image_index import ImagesByClass
from eigen_reptile.data.io.cache import SPLITS
from eigen_reptile.errors import DataError


def read_class_lists(name: str) -> dict[Split, tuple[str, ...]]:
    """The classes of each split of a benchmark, from the lists that are part of this package."""
    folder = files("eigen_reptile.data") / "splits"
    return {split: tuple((folder / f"{name}_{split}.txt").read_text("utf-8").split()) for split in SPLITS}


@final
@dataclass(frozen=True)
class PublishedSplits:
    """The classes and the number of images that a data set must have."""

    title: str
    """Name of the data set in messages."""
    classes: Mapping[Split, Sequence[str]]
    """Folders of the classes. If a folder's path has several components, the first is not part of the class name."""
    per_class: int
    """Images of each class."""
    advice: str = "download it again"
    """What to do if classes have another number of images."""

    def group_by_split(self, found: ImagesByClass, location: Path) -> dict[Split, ImagesByClass]:
        """The images found at this location, by split; DataError unless they are exactly the published classes."""
        self._check_complete(found, location)
        return {split: {name.split("/", 1)[-1]: found[name] for name in names} for split, names in self.classes.items()}

    def _check_complete(self, found: ImagesByClass, location: Path) -> None:
        expected = [name for names in self.classes.values() for name in names]
        missing = [name for name in expected if not found.get(name)]
        if missing:
            raise DataError(
                f"{location} is not a complete copy of {self.title}: {len(missing)} of {len(expected)} classes are "
                f"missing ({_first_few(missing)}); download it again"
            )
        unknown = sorted({name for name, images in found.items() if images}.difference(expected))
        if unknown:
            raise DataError(
                f"{location} is not {self.title}: it has classes of another data set ({_first_few(unknown)})"
            )
        wrong = [f"{name} has {len(found[name])}" for name in expected if len(found[name]) != self.per_class]
        if wrong:
            raise DataError(
                f"{location} is not a complete copy of {self.title}: each class must have {self.per_class} images, but "
                f"{_first_few(wrong)}; {self.advice}"
            )


def _first_few(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if names[5:] else "")
