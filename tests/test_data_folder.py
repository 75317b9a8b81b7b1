"""Anybody's folder of pictures: how it is read, divided and refused."""

import logging
import os
import re
import shutil
import zipfile
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from eigen_reptile.data.bank import DataError, Split, TaskShape
from eigen_reptile.data.cache import SPLITS
from eigen_reptile.data.folder import Folder, divide
from eigen_reptile.data.images import ImageBank
from eigen_reptile.progress import silent

RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EIGEN_REPTILE_CACHE", str(tmp_path / "cache"))


def load(data: Folder) -> dict[Split, ImageBank]:
    banks = data.load(silent)
    assert all(isinstance(bank, ImageBank) for bank in banks)
    return dict(zip(SPLITS, banks, strict=True))  # type: ignore[arg-type]


def names(banks: dict[Split, ImageBank]) -> dict[Split, list[str]]:
    return {split: list(bank.names) for split, bank in banks.items()}


def write(root: Path, classes: list[str], mode: str = "RGB", number: int = 2) -> Path:
    for name in classes:
        (root / name).mkdir(parents=True)
        for count in range(number):
            shape = (int(RNG.integers(9, 30)), int(RNG.integers(9, 30)), 3)
            image = Image.fromarray(RNG.integers(0, 256, shape, dtype=np.uint8)).convert(mode)
            image.save(root / name / f"{count}.png")
    return root


SIGNS = [f"sign {number:02d}" for number in range(43)]


def test_classes_are_divided(tmp_path: Path) -> None:
    root = write(tmp_path / "signs", SIGNS)
    banks = load(Folder(root))
    assert [bank.classes for bank in banks.values()] == [27, 7, 9]  # 64, 16 and 20 per cent
    assert sorted(chain(*names(banks).values())) == SIGNS
    assert all(list(bank.names) == sorted(bank.names) for bank in banks.values())
    assert banks["train"].shape == (3, 32, 32)
    assert names(load(Folder(root, size=12))) == names(banks)
    assert names(load(Folder(root, split_seed=1))) != names(banks)
    file = root / banks["test"].names[0] / "0.png"
    with Image.open(file) as image:
        expected = np.asarray(image.resize((32, 32), Image.Resampling.BICUBIC))
    assert np.array_equal(banks["test"].pixels[0], expected)
    drawn = banks["test"].draw(2, TaskShape(way=5, shots=1, queries=1), [np.random.default_rng(0)])
    assert drawn.x.shape == (1, 2, 5, 3, 32, 32)


@pytest.mark.parametrize("count", [15, 16, 20, 25, 43, 100, 999])
@pytest.mark.parametrize("splits", [SPLITS, ("train", "validation"), ("train", "test")])
def test_rule_of_division(count: int, splits: tuple[Split, ...]) -> None:
    classes = [f"{number:03d}" for number in range(count)]
    parts = divide(classes, splits, least=5, seed=3)
    assert tuple(parts) == splits
    assert sorted(chain(*parts.values())) == classes
    assert min(map(len, parts.values())) >= 5
    shares = {"train": 64, "validation": 16, "test": 20}
    total = sum(shares[split] for split in splits)
    for split, part in parts.items():
        share = count * shares[split] / total
        assert abs(len(part) - share) <= 1 or len(part) == 5 or (split == "train" and count < 32)
    assert divide(classes[::-1], splits, least=5, seed=3) == parts


@pytest.mark.parametrize("number", range(1, 15))
def test_too_few_classes(tmp_path: Path, number: int) -> None:
    root = write(tmp_path / "few", SIGNS[:number], number=1)
    with pytest.raises(DataError, match=f"{number} classes are too few for train, validation, test: at least 5 each"):
        Folder(root).load(silent)


def test_few_classes_are_divided_for_small_tasks(tmp_path: Path) -> None:
    root = write(tmp_path / "ten", [f"sign {number}" for number in range(10)], number=1)
    parts = names(load(Folder(root, least=2)))
    assert {split: len(part) for split, part in parts.items()} == {"train": 6, "validation": 2, "test": 2}


def test_given_splits_may_be_as_small_as_they_are(tmp_path: Path) -> None:
    for split in ("train", "val", "test"):
        write(tmp_path / "two" / split, [f"{split} 0", f"{split} 1"], number=1)
    assert names(load(Folder(tmp_path / "two"))) == {
        split: [f"{folder} 0", f"{folder} 1"]
        for split, folder in {"train": "train", "validation": "val", "test": "test"}.items()
    }


def test_folders_around_the_classes_are_looked_through(tmp_path: Path) -> None:
    """As the German traffic signs come: GTSRB/Final_Training/Images/<class>."""
    write(
        tmp_path / "signs" / "GTSRB" / "Final_Training" / "Images", [f"{number:05d}" for number in range(15)], number=1
    )
    assert sum(map(len, names(load(Folder(tmp_path / "signs"))).values())) == 15


@pytest.mark.parametrize(
    ("folders", "given"),
    [
        (("train", "val", "test"), ("train", "validation", "test")),
        (("Train", "Validation", "TEST"), ("train", "validation", "test")),
        (("train", "valid"), ("train", "validation")),
        (("train", "test"), ("train", "test")),
    ],
)
def test_given_splits(tmp_path: Path, folders: tuple[str, ...], given: tuple[Split, ...]) -> None:
    for place, folder in enumerate(folders):
        write(tmp_path / "own" / folder, [f"{folder} {number}" for number in range(20 if place == 0 else 2)], number=1)
    found = names(load(Folder(tmp_path / "own")))
    for split, folder in zip(given, folders, strict=True):
        assert split == "train" or found[split] == [f"{folder} 0", f"{folder} 1"]
    everything = sorted(path.name for folder in folders for path in (tmp_path / "own" / folder).iterdir())
    assert sorted(chain(*found.values())) == everything
    (missing,) = set(SPLITS) - set(given) or {"train"}
    assert len(found[missing]) == {"train": 20, "validation": 5, "test": 5}[missing]


@pytest.mark.parametrize("prefix", ["", "signs/", "a/b/", "train/"])
def test_zip(tmp_path: Path, prefix: str) -> None:
    root = write(tmp_path / "signs", SIGNS[:16], number=1)
    with zipfile.ZipFile(tmp_path / "signs.zip", "w") as archive:
        for file in root.rglob("*.png"):
            archive.write(file, f"{prefix}{file.relative_to(root)}")
    ours, theirs = load(Folder(tmp_path / "signs.zip")), load(Folder(root))
    for split in SPLITS:
        assert ours[split].names == theirs[split].names
        assert np.array_equal(ours[split].pixels, theirs[split].pixels)


def test_channels(tmp_path: Path) -> None:
    grey = write(tmp_path / "grey", SIGNS[:16], "L", number=1)
    assert load(Folder(grey))["train"].shape == (1, 32, 32)
    assert load(Folder(grey, channels="rgb"))["train"].shape == (3, 32, 32)
    Image.new("RGBA", (9, 9), (255, 0, 0, 128)).save(grey / SIGNS[15] / "coloured.png")
    assert load(Folder(grey))["train"].shape == (3, 32, 32)
    assert load(Folder(grey, channels="grey"))["train"].shape == (1, 32, 32)


def test_other_files_are_passed_over_and_nothing_is_written(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    root = write(tmp_path / "signs", SIGNS[:16], number=1)
    expected = load(Folder(root))
    (root / "readme.txt").write_text("text")
    (root / SIGNS[0] / "Thumbs.db").write_text("text")
    (root / SIGNS[0] / ".hidden.png").write_text("text")
    (root / ".git" / "x").mkdir(parents=True)
    (root / SIGNS[0] / "deeper").mkdir()
    shutil.copy(root / SIGNS[0] / "0.png", root / SIGNS[0] / "deeper" / "1.png")
    shutil.copy(root / SIGNS[0] / "0.png", root / "loose.png")
    before = sorted((path, path.stat().st_mtime_ns) for path in root.rglob("*"))
    with caplog.at_level(logging.INFO):
        found = load(Folder(root))
    for split in SPLITS:
        assert np.array_equal(found[split].pixels, expected[split].pixels)
    assert "2 files in" in caplog.text
    assert "2 pictures do not lie right in the folder of a class" in caplog.text
    assert sorted((path, path.stat().st_mtime_ns) for path in root.rglob("*")) == before


def test_linked_classes(tmp_path: Path) -> None:
    root = write(tmp_path / "signs", SIGNS[:15], number=1)
    elsewhere = write(tmp_path / "elsewhere", ["new"], number=1)
    (root / "new").symlink_to(elsewhere / "new")
    assert "new" in chain(*names(load(Folder(root))).values())
    (root / "twice").symlink_to(elsewhere / "new")
    with pytest.raises(DataError, match=r"(new|twice) is a link to a folder that is in the data set already"):
        Folder(root).load(silent)


def replace_by_pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda file: file.write_text("text"), "is not a picture"),
        (lambda file: file.write_bytes(b""), "is empty"),
        (lambda file: file.write_bytes(file.read_bytes()[:-1]), "is cut off or damaged"),
        (lambda file: file.write_bytes(file.read_bytes()[: file.stat().st_size // 2]), "is cut off or damaged"),
        (lambda file: Image.new("1", (9000, 9000)).save(file), "claims to be 9000x9000 pixels large"),
        (lambda file: (file.unlink(), file.mkdir()), "is not a file"),
        (lambda file: (file.unlink(), file.symlink_to("nowhere")), "cannot be read"),
        (replace_by_pipe, "is not a file"),
    ],
)
def test_broken_picture(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: Callable[[Path], Any], reason: str
) -> None:
    root = write(tmp_path / "signs", SIGNS[:16])
    broken = root / SIGNS[7] / "1.png"
    damage(broken)
    with pytest.raises(DataError, match=rf"{re.escape(str(broken))} {reason}.*--data\.skip-broken"):
        Folder(root).load(silent)
    banks = load(Folder(root, skip_broken=True))
    assert f"left out: {broken} {reason}" in caplog.text
    sizes = {name: size for bank in banks.values() for name, size in zip(bank.names, bank.sizes, strict=True)}
    assert sizes == {name: 1 if name == SIGNS[7] else 2 for name in SIGNS[:16]}


def test_class_without_pictures(tmp_path: Path) -> None:
    root = write(tmp_path / "signs", SIGNS[:16], number=1)
    (root / "void").mkdir()
    with pytest.raises(DataError, match="no pictures lie right in 1 of its folders, the first of them void"):
        Folder(root).load(silent)
    assert "void" not in chain(*names(load(Folder(root, skip_broken=True))).values())


def test_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"--data\.root must say where the pictures lie"):
        Folder().load(silent)
    with pytest.raises(DataError, match="there is no"):
        Folder(tmp_path / "nowhere").load(silent)
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="no pictures in folders of classes"):
        Folder(tmp_path / "empty").load(silent)
    (tmp_path / "text.zip").write_text("text")
    with pytest.raises(DataError, match=r"text\.zip is not a whole zip"):
        Folder(tmp_path / "text.zip").load(silent)
    for split in ("train", "test"):
        write(tmp_path / "both" / split, ["cat", "dog"], number=1)
    with pytest.raises(DataError, match=r"the class cat is both in .* splits must differ in their classes"):
        Folder(tmp_path / "both").load(silent)
    write(tmp_path / "part" / "val", ["cat"], number=1)
    write(tmp_path / "part" / "test", ["dog"], number=1)
    with pytest.raises(DataError, match="it has test, val, but no train"):
        Folder(tmp_path / "part").load(silent)
    for wrong in ({"size": 0}, {"split_seed": -1}):
        with pytest.raises(ValueError, match="must be at least"):
            Folder(**wrong)  # type: ignore[arg-type]
