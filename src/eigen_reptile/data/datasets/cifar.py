"""CIFAR-FS (Bertinetto et al. 2019) and FC100 (Oreshkin et al. 2018): two few-shot splits of CIFAR-100."""

import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar, TypeVar, final

import numpy as np

from eigen_reptile.data.bank import Banks, Split
from eigen_reptile.data.image_dataset import ImageDataset, data_folder, image_banks
from eigen_reptile.data.image_index import ImageIndex, ImageReader, index_by_folder
from eigen_reptile.data.io.archives import FolderSource, Source, ZipSource
from eigen_reptile.data.io.download import download
from eigen_reptile.data.io.images import ImageFormat, require_size
from eigen_reptile.data.io.pickled_tables import column, to_integers, to_names, to_rows
from eigen_reptile.data.io.safe_unpickle import safe_unpickle
from eigen_reptile.data.io.tar import TarSource
from eigen_reptile.data.published_splits import PublishedSplits, read_class_lists
from eigen_reptile.errors import DataError
from eigen_reptile.runtime.progress import StartProgress

URL = "https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz"
SHA256 = "85cd44d02ba6437773c5bbd22e183051d648de2e7d6b014e1ef29b855ba677a7"
FORMAT = ImageFormat(32, "RGB", require_size)
MAX_TABLE_BYTES = 1 << 28
"""Limit for a file of the official archive; the largest has 155 million bytes."""
CLASS_LISTS: dict[str, Split] = {"train.txt": "train", "val.txt": "validation", "test.txt": "test"}
ACCEPTED_LAYOUTS = (
    "cifar100/data/<class>/*.png, cifar100.zip with these, cifar-100-python.tar.gz, or the folder cifar-100-python"
)

Extracted = TypeVar("Extracted")


@dataclass(frozen=True)
class _Cifar(ImageDataset):
    """CIFAR-100, with any split of its classes."""

    @property
    def has_characters(self) -> bool:
        return False

    def load(self, start_progress: StartProgress) -> Banks:
        return image_banks(self._load_packed(start_progress, {}))

    def _find_sources(self, start_progress: StartProgress) -> Mapping[str, Source]:
        root = self._find_root(self.name, "cifar-fs", "fc100")
        if root is None:
            return {"python": TarSource(download(URL, SHA256, data_folder() / self.name, start_progress))}
        return find_cifar(root)


@final
@dataclass(frozen=True)
class CifarFs(_Cifar):
    """CIFAR-FS (Bertinetto et al. 2019, https://arxiv.org/abs/1805.08136): CIFAR-100 split at random, 32x32.

    64 classes for training, 16 for validation, 20 for testing, 600 images each. Use it for experiments on photographs
    that are much faster than on mini-ImageNet; it is downloaded if it is not on disk.
    """

    name: ClassVar[str] = "cifar-fs"
    image_shape: ClassVar[tuple[int, int, int] | None] = (3, 32, 32)

    def _index_images(self, sources: Mapping[str, Source]) -> ImageIndex:
        published = PublishedSplits("CIFAR-FS", read_class_lists("cifar_fs"), per_class=600)
        if "lists" in sources:
            check_class_lists(sources["lists"], published)
        return index_cifar(sources, published)


@final
@dataclass(frozen=True)
class Fc100(_Cifar):
    """FC100 (Oreshkin et al. 2018, https://arxiv.org/abs/1805.10123): CIFAR-100 split by superclasses, 32x32.

    60 classes for training, 20 for validation, 20 for testing, 600 images each. Use it if test classes should differ
    more from training classes than in CIFAR-FS. It uses the files of CIFAR-FS if those are on disk.
    """

    name: ClassVar[str] = "fc100"
    image_shape: ClassVar[tuple[int, int, int] | None] = (3, 32, 32)

    def _index_images(self, sources: Mapping[str, Source]) -> ImageIndex:
        return index_cifar(sources, PublishedSplits("FC100", read_class_lists("fc100"), per_class=600))


def find_cifar(root: Path) -> dict[str, Source]:
    """Image files (`data`), possibly with `lists` of classes, or the official arrays (`python`)."""
    for base in (root / "cifar100", root):
        if (base / "data").is_dir():
            found: dict[str, Source] = {"data": FolderSource(base / "data", depth=2)}
            lists = base / "splits" / "bertinetto"
            return found | {"lists": FolderSource(lists, depth=1)} if lists.is_dir() else found
    for file in (root, root / "cifar100.zip", root / "cifar-fs.zip"):
        if file.is_file() and file.suffix == ".zip":
            return {"data": ZipSource(file, "data"), "lists": ZipSource(file, "bertinetto")}
    for file in (root, root / "cifar-100-python.tar.gz"):
        if file.is_file():
            return {"python": TarSource(file)}
    for base in (root / "cifar-100-python", root):
        if (base / "meta").is_file():
            return {"python": FolderSource(base, depth=1)}
    raise DataError(f"{root} does not contain CIFAR-100: put one of these there: {ACCEPTED_LAYOUTS}")


def index_cifar(sources: Mapping[str, Source], published: PublishedSplits) -> ImageIndex:
    if "python" in sources:
        found, location = index_official_arrays(sources["python"]), sources["python"].location
    else:
        found, location = index_by_folder({"": sources["data"]}, FORMAT), sources["data"].location
    return ImageIndex(FORMAT.shape, published.group_by_split(found, location))


def check_class_lists(source: Source, published: PublishedSplits) -> None:
    """Reject the lists of classes that come with the image files if they differ from the published ones."""
    for file, split in CLASS_LISTS.items():
        if file in source.paths and set(source.read(file, 1 << 20).split()) != {
            name.encode() for name in published.classes[split]
        }:
            raise DataError(
                f"{source.describe(file)} differs from the published list of {published.title}: restore or remove it"
            )


def index_official_arrays(source: Source) -> dict[str, list[ImageReader]]:
    """The images of each class in the official files: first those of the file train, then those of the file test."""
    names = _read_table(source, "meta", lambda table: to_names(column(table, "fine_label_names")))
    classes: dict[str, list[ImageReader]] = {name: [] for name in names}
    for part in ("train", "test"):
        rows, labels = _read_table(source, part, _images_and_labels)
        if not ((labels >= 0) & (labels < len(names))).all():
            raise DataError(f"{source.location}: {part} has labels without a name in meta")
        images = rows.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
        for row, label in enumerate(labels):
            classes[names[label]].append(ImageReader(partial(images.__getitem__, row)))
    return classes


def _images_and_labels(table: Any) -> tuple[np.ndarray, np.ndarray]:
    rows, labels = to_rows(column(table, "data"), (3 * 32 * 32,)), to_integers(column(table, "fine_labels"))
    if len(rows) != len(labels):
        raise ValueError(f"it has {len(rows)} images and {len(labels)} labels")
    return rows, labels


def _read_table(source: Source, name: str, extract: Callable[[Any], Extracted]) -> Extracted:
    """What `extract` finds in one of the official files; DataError if it raises a ValueError."""
    path = next((path for path in source.paths if PurePosixPath(path).name == name), None)
    if path is None:
        raise DataError(f"{source.location} has no file {name}: it is not a complete copy of CIFAR-100")
    try:
        return extract(safe_unpickle(io.BytesIO(source.read(path, MAX_TABLE_BYTES))))
    except ValueError as error:
        raise DataError(f"{source.describe(path)} is not a file of CIFAR-100: {error}") from error
