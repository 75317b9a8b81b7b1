"""mini-ImageNet (Vinyals et al. 2016) in the split of Ravi and Larochelle (2017): 100 classes of ImageNet."""

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, final

import numpy as np

from eigen_reptile.data.bank import Banks, Split
from eigen_reptile.data.image_dataset import ImageDataset, data_folder, image_banks
from eigen_reptile.data.image_index import ImageIndex, ImageReader, common_parent, find_folder_or_zip, index_by_folder
from eigen_reptile.data.io.archives import FolderSource, Source
from eigen_reptile.data.io.images import ImageFormat, read_image, stretch_to_square
from eigen_reptile.data.io.pickled_tables import column, to_integers, to_name, to_rows
from eigen_reptile.data.io.safe_unpickle import safe_unpickle
from eigen_reptile.data.published_splits import PublishedSplits, read_class_lists
from eigen_reptile.errors import ConfigError, DataError
from eigen_reptile.runtime.progress import StartProgress

FORMAT = ImageFormat(84, "RGB", stretch_to_square)
FOLDERS: dict[Split, str] = {"train": "train", "validation": "val", "test": "test"}
MAX_LIST_BYTES = 1 << 24
"""Limit for a CSV list of images; the longest has 1.3 million bytes."""
ACCEPTED_LAYOUTS = (
    "train, val and test as folders or zips with <class>/*.jpg; images or images.zip with train.csv, val.csv and "
    "test.csv; mini-imagenet-cache-train.pkl, -val.pkl and -test.pkl"
)


@final
@dataclass(frozen=True)
class MiniImagenet(ImageDataset):
    """mini-ImageNet (Vinyals et al. 2016, https://arxiv.org/abs/1606.04080): 100 classes of ImageNet, 84x84.

    64 classes for training, 16 for validation and 20 for testing, in the split of Ravi and Larochelle (2017). Use it
    as the standard benchmark on photographs. It may not be redistributed, so it must already be on disk.
    """

    per_class: int = 600
    """Expected number of images of each class."""

    name: ClassVar[str] = "mini-imagenet"
    image_shape: ClassVar[tuple[int, int, int] | None] = (3, 84, 84)

    def __post_init__(self) -> None:
        if self.per_class < 1:
            raise ConfigError(f"`data.per_class` must be at least 1, not {self.per_class}")

    @property
    def has_characters(self) -> bool:
        return False

    def load(self, start_progress: StartProgress) -> Banks:
        return image_banks(self._load_packed(start_progress, {"per_class": self.per_class}))

    def _find_sources(self, start_progress: StartProgress) -> Mapping[str, Source]:
        root = self._find_root(self.name)
        if root is None:
            raise DataError(
                f"mini-imagenet is not in {data_folder() / self.name}, and cannot be downloaded automatically: "
                f"put one of these there: {ACCEPTED_LAYOUTS}; or set `data.root` to its folder"
            )
        return find_mini_imagenet(root)

    def _index_images(self, sources: Mapping[str, Source]) -> ImageIndex:
        classes = {
            split: tuple(f"{FOLDERS[split]}/{name}" for name in names)
            for split, names in read_class_lists("mini_imagenet").items()
        }
        advice = "get a complete copy, or set `data.per_class` to the number of images that each class has"
        published = PublishedSplits("mini-ImageNet", classes, self.per_class, advice)
        if "images" in sources:
            found = index_csv_lists(sources["lists"], sources["images"])
        elif "arrays" in sources:
            found = index_arrays(sources["arrays"].location)
        else:
            found = index_by_folder(sources, FORMAT)
        return ImageIndex(FORMAT.shape, published.group_by_split(found, common_parent(sources)))


def find_mini_imagenet(root: Path) -> dict[str, Source]:
    """The folders of the splits; or CSV `lists` with a folder of `images`; or a folder with `arrays`."""
    trees = {name: source for name in FOLDERS.values() if (source := find_folder_or_zip(root, name, depth=2))}
    if len(trees) == len(FOLDERS):
        return trees
    if all((root / f"{name}.csv").is_file() for name in FOLDERS.values()):
        images = find_folder_or_zip(root, "images", depth=1)
        if images is None:
            raise DataError(f"{root} has lists of images, but neither images nor images.zip: add one of them")
        return {"lists": FolderSource(root, depth=1), "images": images}
    if all(_array_file(root, name).is_file() for name in FOLDERS.values()):
        return {"arrays": FolderSource(root, depth=1)}
    missing = f"no {next(name for name in FOLDERS.values() if name not in trees)}" if trees else "no mini-ImageNet"
    raise DataError(f"{root} contains {missing}: put one of these there: {ACCEPTED_LAYOUTS}")


def index_csv_lists(lists: Source, images: Source) -> dict[str, list[ImageReader]]:
    """The images of each class according to the CSV lists, which have a file name and a class in each row."""
    available = set(images.paths)
    found: dict[str, list[ImageReader]] = {}
    for folder in FOLDERS.values():
        file = f"{folder}.csv"
        try:
            table = csv.DictReader(io.StringIO(lists.read(file, MAX_LIST_BYTES).decode()))
            rows = sorted((row["label"], row["filename"]) for row in table)
        except (KeyError, TypeError, ValueError, csv.Error) as error:
            raise DataError(f"{lists.describe(file)} is not a table with the columns filename and label") from error
        if missing := [name for _, name in rows if name not in available]:
            raise DataError(
                f"{images.location} lacks {len(missing)} images that {file} lists, the first of them {missing[0]:.100}"
            )
        for label, name in rows:
            found.setdefault(f"{folder}/{label}", []).append(ImageReader(partial(read_image, images, name, FORMAT)))
    return found


def index_arrays(root: Path) -> dict[str, list[ImageReader]]:
    """The images of each class in the arrays in which mini-ImageNet is often redistributed."""
    found: dict[str, list[ImageReader]] = {}
    for folder in FOLDERS.values():
        file = _array_file(root, folder)
        try:
            with file.open("rb") as stream:
                pixels, rows_by_class = _check_array_table(safe_unpickle(stream))
        except OSError as error:
            raise DataError(f"cannot read {file}: {error.strerror}") from error
        except ValueError as error:
            raise DataError(f"{file} is not a file of mini-ImageNet: {error}") from error
        for name, rows in rows_by_class.items():
            found[f"{folder}/{name}"] = [ImageReader(partial(pixels.__getitem__, int(row))) for row in rows]
    return found


def _check_array_table(table: Any) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """The images, and the rows of each class among them; ValueError if each image does not have one class."""
    pixels, classes = to_rows(column(table, "image_data"), FORMAT.shape), column(table, "class_dict")
    if not isinstance(classes, dict) or not classes:
        raise ValueError("class_dict does not contain the images of each class")
    sizes = [len(rows) for rows in classes.values() if isinstance(rows, list | tuple | np.ndarray)]
    if len(sizes) < len(classes) or sum(sizes) != len(pixels):  # before anything of these sizes is allocated
        raise ValueError("class_dict does not assign each image to exactly one class")
    rows_by_class = {to_name(name): to_integers(rows) for name, rows in classes.items()}
    rows = np.concatenate(list(rows_by_class.values()))
    if not np.array_equal(np.sort(rows), np.arange(len(pixels))):
        raise ValueError("class_dict does not assign each image to exactly one class")
    return pixels, rows_by_class


def _array_file(root: Path, folder: str) -> Path:
    return root / f"mini-imagenet-cache-{folder}.pkl"
