"""mini-ImageNet is read in every layout; incomplete and damaged copies are rejected."""

import functools
import hashlib
import io
import logging
import pickle
import re
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from eigen_reptile.data.bank import Split
from eigen_reptile.data.datasets.mini_imagenet import MiniImagenet
from eigen_reptile.data.published_splits import read_class_lists
from eigen_reptile.errors import ConfigError, DataError
from eigen_reptile.runtime.progress import ReportProgress, no_progress
from image_files import encoded, images_of, load_banks, write_files, write_zip

MINI = read_class_lists("mini_imagenet")
FOLDERS: dict[Split, str] = {"train": "train", "validation": "val", "test": "test"}


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EIGEN_REPTILE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("EIGEN_REPTILE_DATA", str(tmp_path / "data"))


@functools.cache
def image_of(name: str, number: int) -> np.ndarray:
    seed = list(hashlib.sha256(f"{name} {number}".encode()).digest())
    return np.random.default_rng(seed).integers(0, 256, (84, 84, 3), dtype=np.uint8)


@functools.cache
def mini_files() -> dict[str, bytes]:
    return {
        f"{FOLDERS[split]}/{name}/{name}_{number}.bmp": encoded(image_of(name, number), "BMP")
        for split, names in MINI.items()
        for name in names
        for number in range(2)
    }


def as_folders(root: Path) -> Path:
    return write_files(root, mini_files())


def as_one_zip(root: Path) -> Path:
    return write_zip(root / "mini.zip", {f"mini/{path}": content for path, content in mini_files().items()})


def as_zips(root: Path) -> Path:
    for folder in FOLDERS.values():
        members = {p.removeprefix(f"{folder}/"): c for p, c in mini_files().items() if p.startswith(f"{folder}/")}
        write_zip(root / f"{folder}.zip", members)
    return root


def as_lists(root: Path, zipped: bool = False) -> Path:
    images = {path.rsplit("/", 1)[1]: content for path, content in mini_files().items()}
    _ = write_zip(root / "images.zip", images) if zipped else write_files(root / "images", images)
    for split, folder in FOLDERS.items():
        lines = [f"{name}_{number}.bmp,{name}\n" for number in (1, 0) for name in MINI[split]]
        (root / f"{folder}.csv").write_text("filename,label\n" + "".join(lines))
    return root


def as_arrays(root: Path) -> Path:
    root.mkdir(parents=True)
    for split, folder in FOLDERS.items():
        pixels = np.stack([image_of(name, number) for number in range(2) for name in MINI[split]])
        rows = {name: [row, row + len(MINI[split])] for row, name in enumerate(MINI[split])}
        table = {"image_data": pixels, "class_dict": rows}
        (root / f"mini-imagenet-cache-{folder}.pkl").write_bytes(pickle.dumps(table, 2))
    return root


@pytest.mark.parametrize(
    "form",
    [as_folders, as_one_zip, as_zips, as_lists, functools.partial(as_lists, zipped=True), as_arrays],
)
def test_every_layout_is_read(tmp_path: Path, form: Callable[[Path], Path]) -> None:
    banks = load_banks(MiniImagenet(form(tmp_path / "mini"), per_class=2))
    for split, bank in banks.items():
        assert bank.names == MINI[split]
        assert bank.shape == (3, 84, 84)
        expected = np.stack([image_of(name, number) for name in MINI[split] for number in range(2)])
        assert np.array_equal(bank.pixels, expected)


def test_second_load_uses_the_cache_until_a_file_changes(tmp_path: Path) -> None:
    progress: list[tuple[str, int, int]] = []

    def start_progress(name: str, total: int) -> ReportProgress:
        return lambda done, numbers: progress.append((name, total, done))

    root = as_folders(tmp_path / "mini")
    data = MiniImagenet(root, per_class=2)
    data.load(start_progress)
    assert progress[0] == ("reading mini-imagenet", 200, 2)
    assert progress[-1] == ("reading mini-imagenet", 200, 200)
    progress.clear()
    data.load(start_progress)
    assert not progress
    name = MINI["test"][0]
    (root / f"test/{name}/{name}_0.bmp").write_bytes(encoded(image_of("another", 0), "BMP"))
    changed = load_banks(data)["test"]
    assert np.array_equal(changed.pixels[0], image_of("another", 0))
    assert np.array_equal(changed.pixels[1], image_of(name, 1))


def test_data_set_is_found_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    as_zips(tmp_path / "data" / "mini-imagenet")
    assert load_banks(MiniImagenet(per_class=2))["test"].names == MINI["test"]
    monkeypatch.delenv("EIGEN_REPTILE_DATA")
    monkeypatch.chdir(tmp_path)
    assert load_banks(MiniImagenet(per_class=2))["test"].names == MINI["test"]


def test_images_of_another_size_are_resized(tmp_path: Path) -> None:
    root = as_folders(tmp_path / "mini")
    name = MINI["train"][0]
    large = Image.fromarray(np.random.default_rng(0).integers(0, 256, (100, 120, 3), dtype=np.uint8))
    large.save(root / f"train/{name}/{name}_0.bmp")
    expected = np.asarray(large.resize((84, 84), Image.Resampling.BICUBIC))
    assert np.array_equal(load_banks(MiniImagenet(root, per_class=2))["train"].pixels[0], expected)


# Incomplete copies

FIRST = MINI["train"][0]
VICTIM = f"train/{FIRST}/{FIRST}_1.bmp"


def delete_class(root: Path) -> None:
    shutil.rmtree(root / "val" / MINI["validation"][3])


def empty_class(root: Path) -> None:
    for file in (root / "val" / MINI["validation"][3]).iterdir():
        file.unlink()


def add_class(root: Path) -> None:
    shutil.copytree(root / "train" / FIRST, root / "train" / "n00000000")


def move_class(root: Path) -> None:
    (root / "train" / FIRST).rename(root / "test" / FIRST)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (delete_class, f"1 of 100 classes are missing (val/{MINI['validation'][3]})"),
        (empty_class, f"1 of 100 classes are missing (val/{MINI['validation'][3]})"),
        (add_class, "classes of another data set (train/n00000000)"),
        (move_class, f"1 of 100 classes are missing (train/{FIRST})"),
        (lambda root: (root / VICTIM).unlink(), f"train/{FIRST} has 1"),
        (lambda root: shutil.copy(root / VICTIM, root / f"{VICTIM}.png"), f"train/{FIRST} has 3"),
        (lambda root: (root / VICTIM).rename((root / VICTIM).with_suffix(".txt")), f"train/{FIRST} has 1"),
        (lambda root: (root / VICTIM).write_text("text"), f"{VICTIM} is not an image"),
        (lambda root: (root / VICTIM).write_bytes(b""), f"{VICTIM} is empty"),
        (lambda root: (root / VICTIM).write_bytes((root / VICTIM).read_bytes()[:-3]), f"{VICTIM} cannot be decoded"),
        (lambda root: shutil.rmtree(root / "val"), "contains no val"),
    ],
)
def test_incomplete_copy_is_rejected(tmp_path: Path, damage: Callable[[Path], Any], message: str) -> None:
    root = as_folders(tmp_path / "mini")
    damage(root)
    with pytest.raises(DataError, match=re.escape(message)) as caught:
        MiniImagenet(root, per_class=2).load(no_progress)
    assert "\n" not in str(caught.value)


def test_broken_images_are_skipped_on_request(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    root = as_folders(tmp_path / "mini")
    (root / VICTIM).write_text("text")
    with caplog.at_level(logging.WARNING):
        bank = load_banks(MiniImagenet(root, per_class=2, skip_broken=True))["train"]
    assert f"skipped: {root}/{VICTIM} is not an image" in caplog.text
    assert bank.sizes.tolist() == [1] + [2] * 63
    assert np.array_equal(images_of(bank, MINI["train"][1])[0], image_of(MINI["train"][1], 0))
    (root / f"train/{FIRST}/{FIRST}_0.bmp").write_text("text")
    bank = load_banks(MiniImagenet(root, per_class=2, skip_broken=True))["train"]
    assert bank.names == MINI["train"][1:]
    assert f"skipped the class {FIRST}: none of its images can be read" in caplog.text
    (root / VICTIM).unlink()
    with pytest.raises(DataError, match=f"{FIRST} has 1"):
        MiniImagenet(root, per_class=2, skip_broken=True).load(no_progress)


def test_wrong_number_of_images_names_the_setting(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"must have 600 images, but .* has 2, .* `data\.per_class`"):
        MiniImagenet(as_folders(tmp_path / "mini")).load(no_progress)


def test_impossible_number_of_images_is_rejected() -> None:
    with pytest.raises(ConfigError, match=r"`data\.per_class` must be at least 1, not 0"):
        MiniImagenet(per_class=0)


def test_incomplete_lists_and_arrays_are_rejected(tmp_path: Path) -> None:
    root = as_lists(tmp_path / "lists")
    (root / "images" / f"{FIRST}_1.bmp").unlink()
    with pytest.raises(DataError, match=rf"lacks 1 images that train\.csv lists, the first of them {FIRST}_1\.bmp"):
        MiniImagenet(root, per_class=2).load(no_progress)
    (root / "val.csv").write_text("a,b\n1,2\n")
    with pytest.raises(DataError, match=r"val\.csv is not a table|lacks"):
        MiniImagenet(root, per_class=2).load(no_progress)
    root = as_arrays(tmp_path / "arrays")
    file = root / "mini-imagenet-cache-val.pkl"
    complete = file.read_bytes()
    wrong = pickle.dumps({"image_data": 1, "class_dict": {}})
    images = np.zeros((2, 84, 84, 3), np.uint8)
    hostile = [
        pickle.dumps({"image_data": images, "class_dict": classes})
        for classes in (
            None, [0, 1], {"a": None}, {"a": 2}, {"a": [0, 1], "b": [1]}, {"a": [0, 0]}, {"a": [0, 2]},
            {"a": ["0", "1"]}, {"a": [[0], [1]]}, {"a": [0, 2**63]}, {b"\xff": [0, 1]}, {7: [0, 1]},
            {"a": [0.0, 1.0]}, {"a": images},
        )
    ]  # fmt: skip
    for content in (complete[:-1], complete[: len(complete) // 2], b"text", wrong, *hostile):
        file.write_bytes(content)
        with pytest.raises(DataError, match=r"mini-imagenet-cache-val\.pkl is not a file of mini-ImageNet"):
            MiniImagenet(root, per_class=2).load(no_progress)


def test_real_mini_imagenet(shared: Path, tmp_path: Path) -> None:
    """Ten images of each class are read as Pillow decodes them."""
    firsts: dict[str, list[bytes]] = {}
    for split, folder in FOLDERS.items():
        files: dict[str, bytes] = {}
        with zipfile.ZipFile(shared / "miniimagenet_180" / f"{folder}.zip") as archive:
            for name in MINI[split]:
                paths = sorted(path for path in archive.namelist() if path.startswith(f"{name}/") and path[-1] != "/")
                assert len(paths) == 180
                firsts[name] = [archive.read(path) for path in paths[:10]]
                files |= dict(zip(paths, firsts[name], strict=False))
        write_zip(tmp_path / "mini" / f"{folder}.zip", files)
    for split, bank in load_banks(MiniImagenet(tmp_path / "mini", per_class=10)).items():
        assert bank.names == MINI[split]
        for name in MINI[split][::5]:
            expected = [np.asarray(Image.open(io.BytesIO(data)).convert("RGB")) for data in firsts[name]]
            assert np.array_equal(images_of(bank, name), np.stack(expected))
