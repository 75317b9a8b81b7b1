"""The image cache: what it returns, when it builds an entry again, and what it leaves on disk."""

import json
import logging
import os
import resource
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import eigen_reptile.data.io.cache as io_cache
from eigen_reptile.data.bank import Split
from eigen_reptile.data.io.cache import SPLITS, Allocate, PackedSplit, cache_folder, check_cache, load_or_build
from eigen_reptile.errors import DataError


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("EIGEN_REPTILE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def images(split: Split) -> np.ndarray:
    return np.random.default_rng(SPLITS.index(split)).integers(0, 256, (7, 4, 5, 3), dtype=np.uint8)


class Builder:
    """Writes seven images of two classes for each split, and counts how often it is called."""

    def __init__(self, delay: float = 0.0) -> None:
        self.calls = 0
        self.delay = delay

    def __call__(self, allocate: Allocate) -> dict[Split, PackedSplit]:
        self.calls += 1
        time.sleep(self.delay)
        packed = {}
        for split in SPLITS:
            pixels = allocate(split, (9, 4, 5, 3))  # two more than are used
            pixels[:7] = images(split)
            packed[split] = PackedSplit(pixels[:7], ("a", "é/ü"), (3, 4))
        return packed


def check(packed: dict[Split, PackedSplit]) -> None:
    assert tuple(packed) == SPLITS
    for split, (pixels, names, sizes, groups) in packed.items():
        assert np.array_equal(pixels, images(split))
        assert names == ("a", "é/ü")
        assert sizes == (3, 4)
        assert groups == ()


def entries(cache: Path) -> list[str]:
    return sorted(path.name for path in cache.iterdir() if path.is_dir())


def test_entry_is_built_once_then_memory_mapped(cache: Path) -> None:
    build = Builder()
    check(load_or_build("set", {"size": 4, "of": ["x", None]}, build))
    again = load_or_build("set", {"of": ["x", None], "size": 4}, build)
    check(again)
    assert build.calls == 1
    assert isinstance(again["train"].pixels, np.memmap)
    with pytest.raises(ValueError, match="read-only"):
        again["train"].pixels[0] = 0
    (entry,) = entries(cache)
    assert entry.startswith("set-")
    assert len(entry) == len("set-") + 16


def test_each_key_and_name_has_its_own_entry(cache: Path) -> None:
    build = Builder()
    for name, key in (("set", {"size": 4}), ("set", {"size": 5}), ("other", {"size": 4})):
        check(load_or_build(name, key, build))
    assert build.calls == len(entries(cache)) == 3


def test_default_cache_folder(monkeypatch: pytest.MonkeyPatch) -> None:
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
def test_damaged_entry_is_built_again(
    cache: Path, caplog: pytest.LogCaptureFixture, file: str, damage: Callable[[Path], None]
) -> None:
    build = Builder()
    load_or_build("set", {}, build)
    (entry,) = entries(cache)
    damage(cache / entry / file)
    with caplog.at_level(logging.WARNING):
        check(load_or_build("set", {}, build))
    assert build.calls == 2
    assert "damaged" in caplog.text
    caplog.clear()
    check(load_or_build("set", {}, build))
    assert build.calls == 2
    assert not caplog.records


def test_failed_build_leaves_nothing_behind(cache: Path) -> None:
    def fail(allocate: Allocate) -> dict[Split, PackedSplit]:
        allocate("train", (9, 4, 5, 3))[:] = 1
        raise DataError("an image is broken")

    with pytest.raises(DataError, match="an image is broken"):
        load_or_build("set", {}, fail)
    assert entries(cache) == []
    check(load_or_build("set", {}, Builder()))


def test_killed_build_is_not_taken_for_complete_and_is_removed(cache: Path) -> None:
    killed = """
import os, signal
from eigen_reptile.data.io.cache import load_or_build
def build(allocate):
    allocate("train", (9, 4, 5, 3))[:] = 1
    os.kill(os.getpid(), signal.SIGKILL)
load_or_build("set", {}, build)
"""
    assert subprocess.run([sys.executable, "-c", killed]).returncode == -9
    (left,) = entries(cache)
    shutil.copytree(cache / left, cache / "other-0123456789abcdef.part")
    check(load_or_build("set", {}, Builder()))
    (entry,) = entries(cache)
    assert entry == left.removesuffix(".part")


def test_running_build_is_left_alone() -> None:
    def outer(allocate: Allocate) -> dict[Split, PackedSplit]:
        packed = Builder()(allocate)
        check(load_or_build("inner", {}, Builder()))
        return packed

    check(load_or_build("outer", {}, outer))


def test_concurrent_loads_build_once() -> None:
    build = Builder(delay=0.3)
    with ThreadPoolExecutor(4) as pool:
        for packed in pool.map(lambda _: load_or_build("set", {}, build), range(4)):
            check(packed)
    assert build.calls == 1


def test_a_process_that_waits_for_another_says_so_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(io_cache, "SECONDS_OF_SILENCE", 0.1)
    at_work = threading.Event()

    class UntilSaid(logging.Handler):
        """Lets the first process finish when the second has said twice that it waits."""

        def emit(self, record: logging.LogRecord) -> None:
            if record.levelno == logging.DEBUG:
                said_again.set()

    def slow(allocate: Allocate) -> dict[Split, PackedSplit]:
        at_work.set()
        assert said_again.wait(60)
        return Builder()(allocate)

    said_again = threading.Event()
    monkeypatch.setattr(io_cache.log, "handlers", [UntilSaid()])
    with caplog.at_level(logging.DEBUG), ThreadPoolExecutor(2) as pool:
        first = pool.submit(load_or_build, "set", {}, slow)
        assert at_work.wait(60)
        second = pool.submit(load_or_build, "set", {}, Builder())
        check(first.result())
        check(second.result())
    said = [record.getMessage() for record in caplog.records if record.levelno == logging.INFO]
    assert len(said) == 1
    assert f"waiting for process {os.getpid()} on {socket.gethostname()}, which is building " in said[0]


def test_the_holder_of_a_lock_leaves_nothing_behind(cache: Path) -> None:
    load_or_build("set", {}, Builder())
    assert not list(cache.glob(".*.holder"))


@pytest.fixture
def small_files() -> Iterator[None]:
    """Limit files to 4096 bytes, as if the disk were full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.usefixtures("small_files")
def test_full_disk_is_reported(cache: Path) -> None:
    def large(allocate: Allocate) -> dict[Split, PackedSplit]:
        allocate("train", (1000, 4, 5, 3))
        raise AssertionError("the array should not have fitted on the disk")

    with pytest.raises(DataError, match=r"cannot write to the cache .* EIGEN_REPTILE_CACHE") as caught:
        load_or_build("set", {}, large)
    assert "\n" not in str(caught.value)
    assert entries(cache) == []


def test_cache_folder_that_cannot_be_written_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("EIGEN_REPTILE_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(DataError, match="cannot write to the cache"):
        load_or_build("set", {}, Builder())


def zero_half(file: Path) -> None:
    data = file.read_bytes()
    file.write_bytes(data[: len(data) // 2] + bytes(len(data) - len(data) // 2))


def flip_bit(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[-200] ^= 1
    file.write_bytes(data)


def rename_class(index: Path) -> None:
    index.write_text(index.read_text().replace('"a"', '"b"'))


@pytest.mark.parametrize(
    ("file", "damage"), [("test.npy", zero_half), ("train.npy", flip_bit), ("index.json", rename_class)]
)
def test_damage_that_leaves_the_length_is_found_by_its_checksum(
    cache: Path, caplog: pytest.LogCaptureFixture, file: str, damage: Callable[[Path], None]
) -> None:
    build = Builder()
    load_or_build("set", {}, build)
    (entry,) = entries(cache)
    assert check_cache(cache) == []
    damage(cache / entry / file)
    (problem,) = check_cache(cache)
    assert str(cache / entry) in problem
    assert f"{file} does not match its checksum" in problem
    check(load_or_build("set", {}, build))
    assert build.calls == 2
    assert f"{file} does not match its checksum" in caplog.text
    assert check_cache(cache) == []


@pytest.mark.parametrize("index", ['{"splits": {}}', "[" * 100_000, '{"splits": 1, "sha256": 2}', "\xff", "null"])
def test_hostile_index_is_damage(cache: Path, index: str) -> None:
    load_or_build("set", {}, Builder())
    (entry,) = entries(cache)
    (cache / entry / "index.json").write_text(index, encoding="latin1")
    assert len(check_cache(cache)) == 1
    check(load_or_build("set", {}, Builder()))


def test_images_that_do_not_fit_on_the_disk_are_refused_before_they_are_written(cache: Path) -> None:
    def huge(allocate: Allocate) -> dict[Split, PackedSplit]:
        allocate("train", (100_000, 100_000, 100_000, 3))
        raise AssertionError("the array should not have fitted on the disk")

    with pytest.raises(
        DataError, match=r"100000 images of 100000x100000 take [\d,.]+ GiB, but the cache .*`data\.size`"
    ):
        load_or_build("set", {}, huge)
    assert entries(cache) == []
