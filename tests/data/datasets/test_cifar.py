"""CIFAR-FS and FC100 are read in every layout; incomplete and damaged copies are rejected."""

import csv
import io
import pickle
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from eigen_reptile.data.datasets.cifar import CifarFs, Fc100, check_class_lists, find_cifar, index_cifar
from eigen_reptile.data.published_splits import PublishedSplits, read_class_lists
from eigen_reptile.errors import DataError
from eigen_reptile.runtime.progress import no_progress
from image_files import encoded, write_files, write_tar, write_zip


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EIGEN_REPTILE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("EIGEN_REPTILE_DATA", str(tmp_path / "data"))


SMALL = PublishedSplits(
    "small CIFAR", {"train": ("bee", "cup"), "validation": ("fox",), "test": ("rose",)}, per_class=3
)
NAMES = sorted(name for names in SMALL.classes.values() for name in names)
PIXELS = np.random.default_rng(0).integers(0, 256, (4, 3, 32, 32, 3), dtype=np.uint8)
"""Class, image, height, width, channel."""


def nested(depth: int) -> Any:
    """A list of a thousand lists, and so on: few objects, but as a tree it would be endless."""
    return [nested(depth - 1)] * 1000 if depth else [0, 1, 2, 3]


NESTED = nested(5)
WRONG_LABELS: list[Any] = [
    None, 4, "abcd", b"abcd", {}, [None] * 4, ["0"] * 4, [[0], [1], [2], [3]], [[0, 1], [2], 3, 3], [0.5] * 4,
    [0, 1, 2], [True] * 4, [2**63] * 4, [-(2**63)] * 4 + [0], NESTED, [NESTED] * 4, np.zeros((4, 1), int),
    np.array(0), {0: 0, 1: 1},
]  # fmt: skip
WRONG_NAMES: list[Any] = [
    None, 4, "bee", {}, [b"\xff"] * 4, [None] * 4, [["bee"]] * 4, NESTED, [NESTED] * 4, ["x" * 10**6]
]  # fmt: skip
WRONG_ROWS: list[Any] = [None, b"x" * 4 * 3072, [0] * 4, NESTED, np.array(0), np.zeros((4, 3072), np.int64)]


def cifar_files() -> dict[str, bytes]:
    return {
        f"data/{name}/{number}.png": encoded(PIXELS[label, number])
        for label, name in enumerate(NAMES)
        for number in range(3)
    }


def arrays(pixels: np.ndarray, names: list[str], protocol: int = 2, train: int = 2) -> dict[str, bytes]:
    """The files of CIFAR-100: the first images of each class in train, the others in test."""
    parts = {"train": pixels[:, :train], "test": pixels[:, train:]}
    tables: dict[str, Any] = {"meta": {"fine_label_names": names}}
    for part, some in parts.items():
        rows = some.transpose(1, 0, 4, 2, 3).reshape(-1, 3 * 32 * 32)
        tables[part] = {"data": rows, "fine_labels": list(range(len(names))) * some.shape[1], "filenames": ["x"] * 3}
    return {f"cifar-100-python/{name}": pickle.dumps(table, protocol) for name, table in tables.items()}


LAYOUTS: dict[str, Callable[[Path], Path]] = {
    "holds the tree": lambda root: write_files(root / "cifar100", cifar_files()).parent,
    "is the tree": lambda root: write_files(root / "cifar100", cifar_files()),
    "is a zip": lambda root: write_zip(root / "any.zip", {f"cifar100/{p}": c for p, c in cifar_files().items()}),
    "holds a zip": lambda root: write_zip(root / "cifar-fs.zip", cifar_files()).parent,
    "is a tar": lambda root: write_tar(root / "any.tar.gz", arrays(PIXELS, NAMES)),
    "holds a tar": lambda root: write_tar(root / "cifar-100-python.tar.gz", arrays(PIXELS, NAMES, 5)).parent,
    "holds arrays": lambda root: write_files(root, arrays(PIXELS, NAMES)),
    "is arrays": lambda root: write_files(root, arrays(PIXELS, NAMES, 4)) / "cifar-100-python",
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_is_read(tmp_path: Path, layout: str) -> None:
    index = index_cifar(find_cifar(LAYOUTS[layout](tmp_path / "cifar")), SMALL)
    assert index.shape == (32, 32, 3)
    assert {split: tuple(classes) for split, classes in index.splits.items()} == SMALL.classes
    for classes in index.splits.values():
        for name, readers in classes.items():
            assert np.array_equal(np.stack([read() for read in readers]), PIXELS[NAMES.index(name)])


def test_lists_of_classes_must_be_the_published_ones(tmp_path: Path) -> None:
    lists = {"train.txt": b"cup\nbee\n", "val.txt": b"fox", "test.txt": b"rose"}
    root = write_files(tmp_path / "cifar100", cifar_files() | {f"splits/bertinetto/{n}": c for n, c in lists.items()})
    check_class_lists(find_cifar(root)["lists"], SMALL)
    (root / "splits/bertinetto/val.txt").write_text("cup\n")
    with pytest.raises(DataError, match=r"bertinetto/val\.txt differs from the published list of small CIFAR"):
        check_class_lists(find_cifar(root)["lists"], SMALL)
    (root / "splits/bertinetto/train.txt").write_bytes(bytes(2_000_000))
    with pytest.raises(DataError, match=r"bertinetto/train\.txt has 2000000 bytes, more than the 1048576 allowed"):
        CifarFs(root).load(no_progress)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"test": None}, "has no file test"),
        ({"meta": b"text"}, "meta is not a file of CIFAR-100"),
        ({"meta": {"fine_label_names": NAMES[:3]}}, "labels without a name"),
        ({"meta": {"fine_label_names": [*NAMES[:3], "shoe"]}}, "1 of 4 classes are missing (rose)"),
        ({"test": {"data": PIXELS[:, 2].reshape(4, -1)}}, "test is not a file of CIFAR-100: it has no 'fine_labels'"),
        ({"test": {"data": PIXELS[0], "fine_labels": [0] * 3}}, "it does not contain a row of 3072 bytes"),
        ({"test": {"data": PIXELS[:, 2].reshape(4, -1), "fine_labels": [0, 1, 2, -1]}}, "labels without a name"),
        ({"test": {"data": PIXELS[:, 2].reshape(4, -1), "fine_labels": [0, 1, 2, 2]}}, "fox has 4, rose has 2"),
        *[
            ({"test": {"data": PIXELS[:, 2].reshape(4, -1), "fine_labels": labels}}, "test is not a file of CIFAR-100")
            for labels in WRONG_LABELS
        ],
        *[({"meta": {"fine_label_names": names}}, "meta is not a file of CIFAR-100") for names in WRONG_NAMES],
        *[({"test": {"data": rows, "fine_labels": [0, 1, 2, 3]}}, "not a file of CIFAR-100") for rows in WRONG_ROWS],
        ({"test": [1, 2]}, "test is not a file of CIFAR-100"),
    ],
)
def test_incomplete_arrays_are_rejected(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    files = arrays(PIXELS, NAMES)
    for name, content in change.items():
        path = f"cifar-100-python/{name}"
        files[path] = content if isinstance(content, bytes) else pickle.dumps(content)
        if content is None:
            del files[path]
    with pytest.raises(DataError, match=re.escape(message)):
        index_cifar(find_cifar(write_tar(tmp_path / "x.tar.gz", files)), SMALL)


def test_real_cifar(shared: Path, tmp_path: Path) -> None:
    """Twenty images of each class, from an archive like the official one."""
    with (shared / "cifar_fs/manifest.csv").open(newline="") as table:
        names = [row["class"] for row in csv.DictReader(table)]
    pixels = np.empty((100, 20, 32, 32, 3), dtype=np.uint8)
    for folder in ("train", "val", "test"):
        with zipfile.ZipFile(shared / "cifar_fs" / f"{folder}.zip") as archive:
            for path in archive.namelist():
                mosaic = Image.open(io.BytesIO(archive.read(path))).convert("RGB")
                tiles = [np.asarray(mosaic)[:32, 32 * number : 32 * number + 32] for number in range(20)]
                pixels[names.index(Path(path).stem)] = tiles
    root = write_tar(tmp_path / "cifar-100-python.tar.gz", arrays(pixels, names, train=15))
    for data, title in ((CifarFs(root), "CIFAR-FS"), (Fc100(root), "FC100")):
        with pytest.raises(DataError, match=f"not a complete copy of {title}: each class must have 600 .* and 95 more"):
            data.load(no_progress)
        lists = read_class_lists(data.name.replace("-", "_"))
        index = index_cifar(find_cifar(root), PublishedSplits(title, lists, per_class=20))
        for split, classes in index.splits.items():
            assert tuple(classes) == lists[split]
            for name, readers in classes.items():
                assert np.array_equal(np.stack([read() for read in readers]), pixels[names.index(name)])
