"""CIFAR-FS (Bertinetto et al. 2019) and FC100 (Oreshkin et al. 2018): the classes of CIFAR-100, split in two ways."""

import io
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar, final

import numpy as np

from eigen_reptile.data.archives import FolderSource, Source, TarSource, ZipSource
from eigen_reptile.data.bank import DataError, Split
from eigen_reptile.data.official import Official, class_lists, fetch
from eigen_reptile.data.packing import Contents, Picture, PictureSet, by_folder, data_folder
from eigen_reptile.data.pictures import Style, unchanged
from eigen_reptile.data.plain import read_plain
from eigen_reptile.progress import Announce

ADDRESS = "https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz"
MD5 = "eb9058c3a382ffc7106e4002c42a8d85"
STYLE = Style(32, "RGB", unchanged)
MAX_BATCH = 1 << 28
"""Bytes of a file of the official archive; the largest has 155 million."""
LISTS: dict[str, Split] = {"train.txt": "train", "val.txt": "validation", "test.txt": "test"}
FORMS = "cifar100/data/<class>/*.png, cifar100.zip with these, cifar-100-python.tar.gz, or the folder cifar-100-python"
"""The forms in which the pictures are accepted."""


@dataclass(frozen=True)
class _Cifar(PictureSet):
    """CIFAR-100, however it is split."""

    def _sources(self, announce: Announce) -> Mapping[str, Source]:
        root = self._find_root(self.name, "cifar-fs", "fc100")
        if root is None:
            return {"python": TarSource(fetch(ADDRESS, MD5, data_folder() / self.name, announce))}
        return find_cifar(root)


@final
@dataclass(frozen=True)
class CifarFs(_Cifar):
    """CIFAR-FS, 32x32: 64 classes of CIFAR-100 to train, 16 to validate, 20 to test."""

    name: ClassVar[str] = "cifar-fs"

    def _contents(self, sources: Mapping[str, Source]) -> Contents:
        official = Official("CIFAR-FS", class_lists("cifar_fs"), per_class=600)
        if "lists" in sources:
            check_lists(sources["lists"], official)
        return cifar_contents(sources, official)


@final
@dataclass(frozen=True)
class Fc100(_Cifar):
    """FC100, 32x32: CIFAR-100 split by superclasses, 60 classes to train, 20 to validate, 20 to test.

    It has the pictures of CIFAR-FS, and is looked for under that name too.
    """

    name: ClassVar[str] = "fc100"

    def _contents(self, sources: Mapping[str, Source]) -> Contents:
        return cifar_contents(sources, Official("FC100", class_lists("fc100"), per_class=600))


def find_cifar(root: Path) -> dict[str, Source]:
    """Files of pictures (`data`), perhaps with `lists` of classes, or the official arrays (`python`)."""
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
    raise DataError(f"{root} holds no CIFAR-100: put there one of {FORMS}")


def cifar_contents(sources: Mapping[str, Source], official: Official) -> Contents:
    if "python" in sources:
        found, where = python_classes(sources["python"]), sources["python"].place
    else:
        found, where = by_folder({"": sources["data"]}, STYLE), sources["data"].place
    return Contents(STYLE.shape, official.arrange(found, where))


def check_lists(source: Source, official: Official) -> None:
    """Refuse lists of classes, which come with the files of pictures, if they differ from those that will be used."""
    for file, split in LISTS.items():
        if file in source.paths and set(source.read(file, 1 << 20).split()) != {
            name.encode() for name in official.classes[split]
        }:
            raise DataError(f"{source.where(file)} is not the list of {official.title}: restore or remove it")


def python_classes(source: Source) -> dict[str, list[Picture]]:
    """The pictures of each class in the official files: first those for training, then those for testing."""
    names = [_text(name) for name in _table(source, "meta", "fine_label_names")["fine_label_names"]]
    classes: dict[str, list[Picture]] = {name: [] for name in names}
    for part in ("train", "test"):
        table = _table(source, part, "data", "fine_labels")
        rows, labels = table["data"], np.asarray(table["fine_labels"])
        if not (isinstance(rows, np.ndarray) and rows.dtype == np.uint8 and rows.shape == (len(labels), 3 * 32 * 32)):
            raise DataError(f"{source.place}: {part} does not hold a row of 3072 bytes for each label")
        if labels.dtype.kind not in "iu" or not ((labels >= 0) & (labels < len(names))).all():
            raise DataError(f"{source.place}: {part} has labels without a name in meta")
        pictures = rows.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
        for number, label in enumerate(labels):
            classes[names[label]].append(partial(pictures.__getitem__, number))
    return classes


def _table(source: Source, name: str, *columns: str) -> dict[str, Any]:
    """One of the official files, which must have these columns."""
    path = next((path for path in source.paths if PurePosixPath(path).name == name), None)
    if path is None:
        raise DataError(f"{source.place} has no file {name}: it is not the whole of CIFAR-100")
    try:
        table = read_plain(io.BytesIO(source.read(path, MAX_BATCH)))
        if not isinstance(table, dict):
            raise ValueError(f"it holds a {type(table).__name__}, not a table")
        table = {_text(key): value for key, value in table.items()}
        return {column: table[column] for column in columns}
    except ValueError as error:
        raise DataError(f"{source.where(path)} cannot be read: {error}") from error
    except KeyError as error:
        raise DataError(f"{source.where(path)} has no {error}: it is not of CIFAR-100") from error


def _text(name: Any) -> str:
    return name.decode() if isinstance(name, bytes) else str(name)
