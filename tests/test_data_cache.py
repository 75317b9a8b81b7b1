"""The cache of pictures: what it gives back, what it makes again, and what it leaves behind."""

import json
import logging
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from eigen_reptile.data.bank import DataError, Split
from eigen_reptile.data.cache import SPLITS, Allocate, Packed, cache_folder, cached

Build = Callable[[Allocate], dict[Split, Packed]]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("EIGEN_REPTILE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def pictures(split: Split) -> np.ndarray:
    return np.random.default_rng(SPLITS.index(split)).integers(0, 256, (7, 4, 5, 3), dtype=np.uint8)


class Builder:
    """Writes seven pictures of two classes for each split, and counts how often it is asked to."""

    def __init__(self, delay: float = 0.0) -> None:
        self.calls = 0
        self.delay = delay

    def __call__(self, allocate: Allocate) -> dict[Split, Packed]:
        self.calls += 1
        time.sleep(self.delay)
        made = {}
        for split in SPLITS:
            pixels = allocate(split, (9, 4, 5, 3))  # two more than are used
            pixels[:7] = pictures(split)
            made[split] = Packed(pixels[:7], ("a", "é/ü"), (3, 4))
        return made


def check(packed: dict[Split, Packed]) -> None:
    assert tuple(packed) == SPLITS
    for split, (pixels, names, sizes) in packed.items():
        assert np.array_equal(pixels, pictures(split))
        assert names == ("a", "é/ü")
        assert sizes == (3, 4)


def entries(cache: Path) -> list[str]:
    return sorted(path.name for path in cache.iterdir() if path.is_dir())


def test_built_once_then_mapped(cache: Path) -> None:
    build = Builder()
    check(cached("set", {"size": 4, "of": ["x", None]}, build))
    again = cached("set", {"of": ["x", None], "size": 4}, build)
    check(again)
    assert build.calls == 1
    assert isinstance(again["train"].pixels, np.memmap)
    with pytest.raises(ValueError, match="read-only"):
        again["train"].pixels[0] = 0
    (entry,) = entries(cache)
    assert entry.startswith("set-")
    assert len(entry) == len("set-") + 16


def test_another_key_or_name_is_another_entry(cache: Path) -> None:
    build = Builder()
    for name, key in (("set", {"size": 4}), ("set", {"size": 5}), ("other", {"size": 4})):
        check(cached(name, key, build))
    assert build.calls == len(entries(cache)) == 3


def test_default_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EIGEN_REPTILE_CACHE")
    assert cache_folder().name == "eigen-reptile"


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-1])


def lengthen(file: Path) -> None:
    file.write_bytes(file.read_bytes() + b"x")


def claim_more(index: Path) -> None:
    value = json.loads(index.read_text())
    value["splits"]["train"]["sizes"] = [300, 4]
    index.write_text(json.dumps(value))


@pytest.mark.parametrize(
    ("file", "damage"),
    [
        ("train.npy", cut),
        ("test.npy", lengthen),
        ("validation.npy", Path.unlink),
        ("index.json", Path.unlink),
        ("index.json", cut),
        ("index.json", claim_more),
        ("index.json", lambda file: file.write_text("[]")),
        ("index.json", lambda file: file.write_text('{"splits": {"train": 1, "validation": 1, "test": 1}}')),
    ],
)
def test_damaged_entry_is_made_again(
    cache: Path, caplog: pytest.LogCaptureFixture, file: str, damage: Callable[[Path], None]
) -> None:
    build = Builder()
    cached("set", {}, build)
    (entry,) = entries(cache)
    damage(cache / entry / file)
    with caplog.at_level(logging.WARNING):
        check(cached("set", {}, build))
    assert build.calls == 2
    assert "damaged" in caplog.text
    caplog.clear()
    check(cached("set", {}, build))
    assert build.calls == 2
    assert not caplog.records


def test_failed_build_leaves_nothing(cache: Path) -> None:
    def fail(allocate: Allocate) -> dict[Split, Packed]:
        allocate("train", (9, 4, 5, 3))[:] = 1
        raise DataError("a picture is broken")

    with pytest.raises(DataError, match="a picture is broken"):
        cached("set", {}, fail)
    assert entries(cache) == []
    check(cached("set", {}, Builder()))


def test_killed_build_is_not_taken_for_whole_and_is_removed(cache: Path) -> None:
    killed = """
import os, signal
from eigen_reptile.data.cache import cached
def build(allocate):
    allocate("train", (9, 4, 5, 3))[:] = 1
    os.kill(os.getpid(), signal.SIGKILL)
cached("set", {}, build)
"""
    assert subprocess.run([sys.executable, "-c", killed]).returncode == -9
    (left,) = entries(cache)
    shutil.copytree(cache / left, cache / "other-0123456789abcdef.part")
    check(cached("set", {}, Builder()))
    (entry,) = entries(cache)
    assert entry == left.removesuffix(".part")


def test_living_build_is_left_alone() -> None:
    def outer(allocate: Allocate) -> dict[Split, Packed]:
        made = Builder()(allocate)
        check(cached("inner", {}, Builder()))
        return made

    check(cached("outer", {}, outer))


def test_two_at_the_same_time() -> None:
    build = Builder(delay=0.3)
    with ThreadPoolExecutor(4) as pool:
        for packed in pool.map(lambda _: cached("set", {}, build), range(4)):
            check(packed)
    assert build.calls == 1


@pytest.fixture
def small_files() -> Iterator[None]:
    """As if the disk were full after 4096 bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.usefixtures("small_files")
def test_full_disk(cache: Path) -> None:
    def large(allocate: Allocate) -> dict[Split, Packed]:
        allocate("train", (1000, 4, 5, 3))
        raise AssertionError("there was no room for this")

    with pytest.raises(DataError, match=r"cannot write to the cache .* EIGEN_REPTILE_CACHE") as caught:
        cached("set", {}, large)
    assert "\n" not in str(caught.value)
    assert entries(cache) == []


def test_place_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("EIGEN_REPTILE_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(DataError, match="cannot write to the cache"):
        cached("set", {}, Builder())
