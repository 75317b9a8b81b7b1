"""The published splits have the right classes, and missing data sets are reported."""

import csv
from pathlib import Path

import pytest

from eigen_reptile.data.bank import Split
from eigen_reptile.data.datasets.cifar import CifarFs, Fc100
from eigen_reptile.data.datasets.mini_imagenet import MiniImagenet
from eigen_reptile.data.datasets.omniglot import Omniglot, split_classes
from eigen_reptile.data.io.cache import SPLITS
from eigen_reptile.data.published_splits import read_class_lists
from eigen_reptile.errors import DataError
from eigen_reptile.runtime.progress import no_progress

FOLDERS: dict[Split, str] = {"train": "train", "validation": "val", "test": "test"}


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EIGEN_REPTILE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("EIGEN_REPTILE_DATA", str(tmp_path / "data"))


@pytest.mark.parametrize(
    ("splits", "counts"),
    [
        (read_class_lists("cifar_fs"), (64, 16, 20)),
        (read_class_lists("fc100"), (60, 20, 20)),
        (read_class_lists("mini_imagenet"), (64, 16, 20)),
        (split_classes("vinyals"), (1028, 172, 423)),
        (split_classes("background"), (813, 151, 659)),
    ],
)
def test_published_splits_have_the_right_sizes(splits: dict[Split, tuple[str, ...]], counts: tuple[int, ...]) -> None:
    assert tuple(splits) == SPLITS
    assert tuple(map(len, splits.values())) == counts
    assert len(set().union(*splits.values())) == sum(counts)


def test_background_split_of_omniglot_does_not_divide_alphabets() -> None:
    splits = split_classes("background")
    alphabets = {split: {name.rsplit("/", 1)[0] for name in names} for split, names in splits.items()}
    assert [len(some) for some in alphabets.values()] == [25, 5, 20]
    assert not alphabets["train"] & alphabets["validation"]
    assert max(alphabets["train"]) < min(alphabets["validation"])
    assert all(name.startswith("images_evaluation/") for name in splits["test"])


def test_splits_equal_independent_lists(shared: Path) -> None:
    def column(file: str, name: str) -> set[str]:
        with (shared / file).open(newline="") as table:
            return {row[name] for row in csv.DictReader(table)}

    with (shared / "cifar_fs/manifest.csv").open(newline="") as table:
        superclass = {row["class"]: row["superclass"] for row in csv.DictReader(table)}
    for split, folder in FOLDERS.items():
        assert set(read_class_lists("cifar_fs")[split]) == column(f"splits/cifar_fs_{folder}.csv", "class")
        ravi = column(f"splits/miniimagenet_ravi_{folder}.csv", "class")
        assert set(read_class_lists("mini_imagenet")[split]) == ravi
        superclasses = column(f"splits/fc100_{folder}.csv", "class")
        assert {superclass[name] for name in read_class_lists("fc100")[split]} == superclasses
        characters = {name.split("/", 1)[1] for name in split_classes("vinyals")[split]}
        assert characters == column(f"splits/omniglot_vinyals_{folder}.csv", "class")


def test_missing_data_set_is_reported(tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match=r"not in .*/data/mini-imagenet, .* put one of these there: train, val and test"
    ):
        MiniImagenet().load(no_progress)
    for data in (MiniImagenet(tmp_path / "no"), CifarFs(tmp_path / "no"), Omniglot(tmp_path / "no")):
        with pytest.raises(DataError, match=r"/no does not exist: set `data\.root`"):
            data.load(no_progress)
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="contains no mini-ImageNet: put one of these there"):
        MiniImagenet(tmp_path / "empty").load(no_progress)
    with pytest.raises(DataError, match="does not contain CIFAR-100: put one of these there"):
        Fc100(tmp_path / "empty").load(no_progress)
    with pytest.raises(DataError, match=r"neither the folder images_background nor images_background\.zip"):
        Omniglot(tmp_path / "empty").load(no_progress)
