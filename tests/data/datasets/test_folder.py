"""Folders of the user's own images: how they are read, divided into splits and rejected."""

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

from eigen_reptile.data.bank import Split, TaskShape
from eigen_reptile.data.datasets.folder import Folder, divide_classes
from eigen_reptile.data.image_bank import ImageBank
from eigen_reptile.data.io.cache import SPLITS
from eigen_reptile.errors import ConfigError, DataError
from eigen_reptile.runtime.progress import no_progress
from image_files import load_banks

RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EIGEN_REPTILE_CACHE", str(tmp_path / "cache"))


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


def test_classes_are_divided_into_splits(tmp_path: Path) -> None:
    root = write(tmp_path / "signs", SIGNS)
    banks = load_banks(Folder(root))
    assert [bank.n_nonempty_classes for bank in banks.values()] == [27, 7, 9]  # 64, 16 and 20 percent
    assert sorted(chain(*names(banks).values())) == SIGNS
    assert all(list(bank.names) == sorted(bank.names) for bank in banks.values())
    assert banks["train"].shape == (3, 32, 32)
    assert names(load_banks(Folder(root, size=12))) == names(banks)
    assert names(load_banks(Folder(root, split_seed=1))) != names(banks)
    file = root / banks["test"].names[0] / "0.png"
    with Image.open(file) as image:
        expected = np.asarray(image.resize((32, 32), Image.Resampling.BICUBIC))
    assert np.array_equal(banks["test"].pixels[0], expected)
    drawn = banks["test"].draw_tasks(2, TaskShape(way=5, shots=1, queries=1), [np.random.default_rng(0)])
    assert drawn.x.shape == (1, 2, 5, 3, 32, 32)


@pytest.mark.parametrize("count", [15, 16, 20, 25, 43, 100, 999])
@pytest.mark.parametrize("splits", [SPLITS, ("train", "validation"), ("train", "test")])
def test_divide_classes_follows_the_percentages(count: int, splits: tuple[Split, ...]) -> None:
    classes = [f"{number:03d}" for number in range(count)]
    parts = divide_classes(classes, splits, least=5, seed=3)
    assert tuple(parts) == splits
    assert sorted(chain(*parts.values())) == classes
    assert min(map(len, parts.values())) >= 5
    percentages = {"train": 64, "validation": 16, "test": 20}
    total = sum(percentages[split] for split in splits)
    for split, part in parts.items():
        exact = count * percentages[split] / total
        assert abs(len(part) - exact) <= 1 or len(part) == 5 or (split == "train" and count < 32)
    assert divide_classes(classes[::-1], splits, least=5, seed=3) == parts


@pytest.mark.parametrize("number", range(1, 15))
def test_too_few_classes_are_rejected(tmp_path: Path, number: int) -> None:
    root = write(tmp_path / "few", SIGNS[:number], number=1)
    with pytest.raises(
        DataError, match=f"{number} classes are too few for train, validation, test, .* at least 5 each"
    ):
        Folder(root).load(no_progress)


def test_few_classes_can_be_divided_for_small_tasks(tmp_path: Path) -> None:
    root = write(tmp_path / "ten", [f"sign {number}" for number in range(10)], number=1)
    parts = names(load_banks(Folder(root, least=2)))
    assert {split: len(part) for split, part in parts.items()} == {"train": 6, "validation": 2, "test": 2}


def test_given_splits_may_be_small(tmp_path: Path) -> None:
    for split in ("train", "val", "test"):
        write(tmp_path / "two" / split, [f"{split} 0", f"{split} 1"], number=1)
    assert names(load_banks(Folder(tmp_path / "two"))) == {
        split: [f"{folder} 0", f"{folder} 1"]
        for split, folder in {"train": "train", "validation": "val", "test": "test"}.items()
    }


def test_outer_folders_around_the_classes_are_stripped(tmp_path: Path) -> None:
    """The German traffic signs, for example, are in GTSRB/Final_Training/Images/<class>."""
    images = tmp_path / "signs" / "GTSRB" / "Final_Training" / "Images"
    write(images, [f"{number:05d}" for number in range(15)], number=1)
    assert sum(map(len, names(load_banks(Folder(tmp_path / "signs"))).values())) == 15


@pytest.mark.parametrize(
    ("folders", "given"),
    [
        (("train", "val", "test"), ("train", "validation", "test")),
        (("Train", "Validation", "TEST"), ("train", "validation", "test")),
        (("train", "valid"), ("train", "validation")),
        (("train", "test"), ("train", "test")),
    ],
)
def test_given_splits_are_used_and_missing_ones_are_taken_from_train(
    tmp_path: Path, folders: tuple[str, ...], given: tuple[Split, ...]
) -> None:
    for number, folder in enumerate(folders):
        write(tmp_path / "own" / folder, [f"{folder} {label}" for label in range(20 if number == 0 else 2)], number=1)
    found = names(load_banks(Folder(tmp_path / "own")))
    for split, folder in zip(given, folders, strict=True):
        assert split == "train" or found[split] == [f"{folder} 0", f"{folder} 1"]
    everything = sorted(path.name for folder in folders for path in (tmp_path / "own" / folder).iterdir())
    assert sorted(chain(*found.values())) == everything
    (missing,) = set(SPLITS) - set(given) or {"train"}
    assert len(found[missing]) == {"train": 20, "validation": 5, "test": 5}[missing]


@pytest.mark.parametrize("prefix", ["", "signs/", "a/b/", "train/"])
def test_zip_is_read_like_a_folder(tmp_path: Path, prefix: str) -> None:
    root = write(tmp_path / "signs", SIGNS[:16], number=1)
    with zipfile.ZipFile(tmp_path / "signs.zip", "w") as archive:
        for file in root.rglob("*.png"):
            archive.write(file, f"{prefix}{file.relative_to(root)}")
    ours, theirs = load_banks(Folder(tmp_path / "signs.zip")), load_banks(Folder(root))
    for split in SPLITS:
        assert ours[split].names == theirs[split].names
        assert np.array_equal(ours[split].pixels, theirs[split].pixels)


def test_channels_are_detected_or_set(tmp_path: Path) -> None:
    grey = write(tmp_path / "grey", SIGNS[:16], "L", number=1)
    assert load_banks(Folder(grey))["train"].shape == (1, 32, 32)
    assert load_banks(Folder(grey, channels="rgb"))["train"].shape == (3, 32, 32)
    Image.new("RGBA", (9, 9), (255, 0, 0, 128)).save(grey / SIGNS[15] / "coloured.png")
    assert load_banks(Folder(grey))["train"].shape == (3, 32, 32)
    assert load_banks(Folder(grey, channels="grey"))["train"].shape == (1, 32, 32)


def test_other_files_are_ignored_and_nothing_is_written(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    root = write(tmp_path / "signs", SIGNS[:16], number=1)
    expected = load_banks(Folder(root))
    (root / "readme.txt").write_text("text")
    (root / SIGNS[0] / "Thumbs.db").write_text("text")
    (root / SIGNS[0] / ".hidden.png").write_text("text")
    (root / ".git" / "x").mkdir(parents=True)
    (root / SIGNS[0] / "deeper").mkdir()
    shutil.copy(root / SIGNS[0] / "0.png", root / SIGNS[0] / "deeper" / "1.png")
    shutil.copy(root / SIGNS[0] / "0.png", root / "loose.png")
    before = sorted((path, path.stat().st_mtime_ns) for path in root.rglob("*"))
    with caplog.at_level(logging.INFO):
        found = load_banks(Folder(root))
    for split in SPLITS:
        assert np.array_equal(found[split].pixels, expected[split].pixels)
    assert "without the suffix of an image, ignored: 2" in caplog.text
    assert "ignored 2 images that are not directly in the folder of a class" in caplog.text
    assert sorted((path, path.stat().st_mtime_ns) for path in root.rglob("*")) == before


def test_linked_classes_are_read_once(tmp_path: Path) -> None:
    root = write(tmp_path / "signs", SIGNS[:15], number=1)
    elsewhere = write(tmp_path / "elsewhere", ["new"], number=1)
    (root / "new").symlink_to(elsewhere / "new")
    assert "new" in chain(*names(load_banks(Folder(root))).values())
    (root / "twice").symlink_to(elsewhere / "new")
    with pytest.raises(DataError, match=r"(new|twice) is a link to a folder that is already in the data set"):
        Folder(root).load(no_progress)


def replace_by_pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda file: file.write_text("text"), "is not an image"),
        (lambda file: file.write_bytes(b""), "is empty"),
        (lambda file: file.write_bytes(file.read_bytes()[:-1]), "is truncated or damaged"),
        (lambda file: file.write_bytes(file.read_bytes()[: file.stat().st_size // 2]), "is truncated or damaged"),
        (lambda file: Image.new("1", (9000, 9000)).save(file), "claims to be 9000x9000 pixels large"),
        (lambda file: (file.unlink(), file.mkdir()), "is not a file"),
        (lambda file: (file.unlink(), file.symlink_to("nowhere")), "cannot be read"),
        (replace_by_pipe, "is not a file"),
    ],
)
def test_broken_image_is_reported_or_skipped(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: Callable[[Path], Any], reason: str
) -> None:
    root = write(tmp_path / "signs", SIGNS[:16])
    broken = root / SIGNS[7] / "1.png"
    damage(broken)
    with pytest.raises(DataError, match=rf"{re.escape(str(broken))} {reason}.*`data\.skip_broken`"):
        Folder(root).load(no_progress)
    banks = load_banks(Folder(root, skip_broken=True))
    assert f"skipped: {broken} {reason}" in caplog.text
    sizes = {name: size for bank in banks.values() for name, size in zip(bank.names, bank.sizes, strict=True)}
    assert sizes == {name: 1 if name == SIGNS[7] else 2 for name in SIGNS[:16]}


def test_class_without_images_is_reported_or_skipped(tmp_path: Path) -> None:
    root = write(tmp_path / "signs", SIGNS[:16], number=1)
    (root / "void").mkdir()
    with pytest.raises(DataError, match="1 of its folders contain no images directly, the first of them void"):
        Folder(root).load(no_progress)
    assert "void" not in chain(*names(load_banks(Folder(root, skip_broken=True))).values())


def test_unusable_folders_and_settings_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"`data\.root` must be set to a folder of images"):
        Folder().load(no_progress)
    with pytest.raises(DataError, match="nowhere does not exist"):
        Folder(tmp_path / "nowhere").load(no_progress)
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="no images in folders of classes"):
        Folder(tmp_path / "empty").load(no_progress)
    (tmp_path / "text.zip").write_text("text")
    with pytest.raises(DataError, match=r"text\.zip is not a complete zip"):
        Folder(tmp_path / "text.zip").load(no_progress)
    for split in ("train", "test"):
        write(tmp_path / "both" / split, ["cat", "dog"], number=1)
    with pytest.raises(DataError, match=r"the class cat is in both .* splits must not share classes"):
        Folder(tmp_path / "both").load(no_progress)
    write(tmp_path / "part" / "val", ["cat"], number=1)
    write(tmp_path / "part" / "test", ["dog"], number=1)
    with pytest.raises(DataError, match="it has test, val, but no train"):
        Folder(tmp_path / "part").load(no_progress)
    for field, value in (("size", 0), ("least", 0), ("split_seed", -1)):
        with pytest.raises(ConfigError, match=rf"`data\.{field}` must be at least .*, not {value}"):
            Folder(**{field: value})  # type: ignore[arg-type]


def test_all_broken_images_are_listed_at_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    root = write(tmp_path / "signs", SIGNS[:16])
    broken = [root / SIGNS[number] / "1.png" for number in (2, 7, 11)]
    broken[0].write_text("text")
    broken[1].write_bytes(b"")
    broken[2].write_bytes(broken[2].read_bytes()[:-9])
    with pytest.raises(
        DataError, match=r"3 of 32 images are broken, the first of them: .*`data\.skip_broken`"
    ) as caught:
        Folder(root).load(no_progress)
    assert "\n" not in str(caught.value)
    assert all(sum(str(file) in record.getMessage() for record in caplog.records) == 1 for file in broken)
    caplog.clear()
    banks = load_banks(Folder(root, skip_broken=True))
    assert sum(int(bank.sizes.sum()) for bank in banks.values()) == 29
    assert all(f"skipped: {file} " in caplog.text for file in broken)


def test_number_of_listed_images_is_bounded(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eigen_reptile.data.image_index.MAX_LISTED", 4)
    root = write(tmp_path / "signs", SIGNS[:16])
    for name in SIGNS[:16]:
        (root / name / "0.png").write_text("text")
    with pytest.raises(DataError, match="16 of 32 images are broken"):
        Folder(root).load(no_progress)
    assert len(caplog.records) == 5
    assert "and 12 more" in caplog.text


@pytest.mark.parametrize("kind", ["gif", "png"])
def test_truncated_palette_images_are_named_and_skipped(tmp_path: Path, kind: str) -> None:
    """Whether the images are all greyscale is asked before any is decoded."""
    root = write(tmp_path / "signs", SIGNS[:16], mode="L")
    broken = root / SIGNS[3] / f"broken.{kind}"
    Image.fromarray(RNG.integers(0, 256, (20, 20, 3), dtype=np.uint8)).quantize(250).save(broken)
    broken.write_bytes(broken.read_bytes()[:400])
    with pytest.raises(DataError, match=re.escape(str(broken))):
        Folder(root).load(no_progress)
    assert sum(int(bank.sizes.sum()) for bank in load_banks(Folder(root, skip_broken=True)).values()) == 32


def test_folder_named_like_an_image_in_a_zip_is_named_and_skipped(tmp_path: Path) -> None:
    root = write(tmp_path / "signs", SIGNS[:16])
    with zipfile.ZipFile(tmp_path / "signs.zip", "w") as archive:
        for file in sorted(root.rglob("*.png")):
            archive.write(file, file.relative_to(root))
        archive.mkdir(f"{SIGNS[0]}/x.png/")
    with pytest.raises(DataError, match=r"x\.png is not a file"):
        Folder(tmp_path / "signs.zip").load(no_progress)
    load_banks(Folder(tmp_path / "signs.zip", skip_broken=True))


def test_link_into_proc_is_refused(tmp_path: Path) -> None:
    root = write(tmp_path / "signs", SIGNS[:16], number=1)
    (root / SIGNS[0] / "x.png").symlink_to("/proc/self/environ")
    with pytest.raises(DataError, match=r"x\.png is empty"):
        Folder(root).load(no_progress)
    (root / "link").symlink_to("/proc/self")
    with pytest.raises(DataError, match="no place for images"):
        Folder(root).load(no_progress)


def write_tracks(root: Path, tracks: list[int]) -> Path:
    """Ten classes with tracks of so many frames; all frames of a track have the same colour."""
    for number in range(10):
        (root / SIGNS[number]).mkdir(parents=True)
        for track, frames in enumerate(tracks):
            for frame in range(frames):
                image = Image.new("L", (8, 8), 20 * number + track)
                image.save(root / SIGNS[number] / f"{track:05d}_{frame:05d}.png")
    return root


@pytest.mark.parametrize("groups", [r"^\d+", r"(\d+)_\d+", "^....."])
def test_images_of_a_group_are_on_one_side_of_a_task(tmp_path: Path, groups: str) -> None:
    root = write_tracks(tmp_path / "signs", [5, 3, 4, 4])
    bank = load_banks(Folder(root, size=8, least=3, groups=groups))["train"]
    task = bank.feasible_shape(TaskShape(3, 4, 6))
    assert task.queries == 6

    def sides(bank: ImageBank) -> list[tuple[set[int], set[int]]]:
        """The colours of each class of each task in its support and among its queries."""
        samples = bank.draw_tasks(50, task, [np.random.default_rng(0)])
        parts = [(samples.x, samples.y), (samples.query_x, samples.query_y)]
        return [
            (*(set(x[0, number, y[0, number] == label, 0, 0, 0].tolist()) for x, y in parts),)  # type: ignore[misc]
            for number in range(50)
            for label in range(3)
        ]

    assert not any(support & queries for support, queries in sides(bank))
    assert len({tuple(sorted(support)) for support, _ in sides(bank)}) > 10
    assert any(support & queries for support, queries in sides(load_banks(Folder(root, size=8, least=3))["train"]))


def test_too_few_groups_are_reported(tmp_path: Path) -> None:
    root = write_tracks(tmp_path / "signs", [12])
    bank = load_banks(Folder(root, size=8, least=3, groups=r"^\d+"))["train"]
    with pytest.raises(DataError, match="only 0 have more than 1 images in several groups"):
        bank.feasible_shape(TaskShape(3, 1, 5))
    assert bank.feasible_shape(TaskShape(3, 1, 0)) == TaskShape(3, 1, 0)


def test_wrong_patterns_of_groups_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"`data\.groups` must be a regular expression, not \("):
        Folder(tmp_path, groups="(")
    root = write_tracks(tmp_path / "signs", [2])
    with pytest.raises(DataError, match=r"`data\.groups` must match every file name, but track does not match 00000_"):
        Folder(root, least=3, groups="track").load(no_progress)
