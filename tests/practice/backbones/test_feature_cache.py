"""Features are computed once; damage is noticed, and computed again."""

import sqlite3
import struct
import threading
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from torch import Tensor

from eigen_reptile.practice.backbones import FeatureCache, FunctionBackbone, ImageInput
from eigen_reptile.practice.backbones.feature_cache import FILE, check_features

IMAGES = np.random.default_rng(0).integers(0, 256, (10, 4, 4, 3), dtype=np.uint8)


class Counted:
    """A function that counts the samples it is called with."""

    def __init__(self) -> None:
        self.samples = 0

    def __call__(self, x: Tensor) -> Tensor:
        self.samples += len(x)
        return x.flatten(1)[:, :7]

    def backbone(self, name: str | None = "first") -> FunctionBackbone:
        return FunctionBackbone(self, ImageInput(4), name)


def expected(images: np.ndarray) -> np.ndarray:
    found: np.ndarray = Counted().backbone().features(images)
    return found


def change(folder: Path, statement: str, *values: object) -> None:
    with closing(sqlite3.connect(folder / FILE)) as database, database:
        database.execute(statement, values)


def test_features_are_computed_once(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    counted, cache = Counted(), FeatureCache(folder)
    np.testing.assert_array_equal(cache.features(counted.backbone(), IMAGES[:6]), expected(IMAGES[:6]))
    assert counted.samples == 6
    mixed = IMAGES[[8, 2, 5, 9, 2]]
    np.testing.assert_array_equal(cache.features(counted.backbone(), mixed), expected(mixed))
    assert counted.samples == 8
    np.testing.assert_array_equal(
        FeatureCache(tmp_path / "a" / "b").features(counted.backbone(), mixed), expected(mixed)
    )
    assert counted.samples == 8
    assert len(list(folder.iterdir())) == 1
    assert check_features(folder) == []


def test_other_backbones_have_other_features(tmp_path: Path) -> None:
    counted, cache = Counted(), FeatureCache(tmp_path)
    for name in ("first", "second"):
        cache.features(counted.backbone(name), IMAGES)
    assert counted.samples == 20


def test_the_shape_of_an_image_belongs_to_its_content(tmp_path: Path) -> None:
    counted, cache = Counted(), FeatureCache(tmp_path)
    cache.features(counted.backbone(), IMAGES)
    cache.features(counted.backbone(), IMAGES.reshape(10, 2, 8, 3))
    assert counted.samples == 20


def test_a_function_without_a_name_is_not_cached(tmp_path: Path) -> None:
    counted, cache = Counted(), FeatureCache(tmp_path)
    for _ in range(2):
        cache.features(counted.backbone(None), IMAGES)
    assert counted.samples == 20


def test_a_damaged_row_is_computed_again(tmp_path: Path) -> None:
    counted, cache = Counted(), FeatureCache(tmp_path)
    cache.features(counted.backbone(), IMAGES)
    change(tmp_path, "UPDATE features SET features = zeroblob(28) WHERE sample = (SELECT max(sample) FROM features)")
    assert "1 of the features" in check_features(tmp_path)[0]
    np.testing.assert_array_equal(cache.features(counted.backbone(), IMAGES), expected(IMAGES))
    assert counted.samples == 11
    assert check_features(tmp_path) == []


@pytest.mark.parametrize("value", ["'text'", "NULL", "zeroblob(0)", "zeroblob(3)", "7"])
def test_hostile_rows_are_computed_again(tmp_path: Path, value: str) -> None:
    counted, cache = Counted(), FeatureCache(tmp_path)
    cache.features(counted.backbone(), IMAGES)
    change(tmp_path, f"UPDATE features SET features = {value}, checksum = 0")
    np.testing.assert_array_equal(cache.features(counted.backbone(), IMAGES), expected(IMAGES))
    assert counted.samples == 20


def test_rows_of_another_length_are_not_believed(tmp_path: Path) -> None:
    cache = FeatureCache(tmp_path)
    cache.features(FunctionBackbone(lambda x: x.flatten(1)[:, :3], ImageInput(4), "first"), IMAGES[:5])
    np.testing.assert_array_equal(cache.features(Counted().backbone(), IMAGES), expected(IMAGES))


@pytest.mark.parametrize("damage", ["truncated", "noise", "foreign"])
def test_a_damaged_file_is_replaced(tmp_path: Path, damage: str) -> None:
    counted, cache = Counted(), FeatureCache(tmp_path)
    cache.features(counted.backbone(), IMAGES)
    data = (tmp_path / FILE).read_bytes()
    noise = np.random.default_rng(0).bytes(len(data))
    (tmp_path / FILE).write_bytes({"truncated": data[:5000], "noise": data[:100] + noise, "foreign": noise}[damage])
    assert check_features(tmp_path)
    for _ in range(2):
        np.testing.assert_array_equal(cache.features(counted.backbone(), IMAGES), expected(IMAGES))
    if damage != "truncated":  # from which SQLite recovers, but not without a trace
        assert counted.samples == 20
        assert check_features(tmp_path) == []


ENDLESS = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x AS sample, x AS features FROM c"


@pytest.mark.parametrize(
    "statements",
    [
        ["DROP TABLE features", f"CREATE VIEW features AS {ENDLESS}"],
        ["CREATE TRIGGER t AFTER INSERT ON features BEGIN DELETE FROM features; END"],
        ["ALTER TABLE features DROP COLUMN checksum"],
    ],
)
def test_a_database_with_other_tables_is_replaced(tmp_path: Path, statements: list[str]) -> None:
    counted, cache = Counted(), FeatureCache(tmp_path)
    cache.features(counted.backbone(), IMAGES)
    for statement in statements:
        change(tmp_path, statement)
    assert "other tables" in check_features(tmp_path)[0]
    for _ in range(3):
        np.testing.assert_array_equal(cache.features(counted.backbone(), IMAGES), expected(IMAGES))
    assert counted.samples == 20
    assert check_features(tmp_path) == []


def test_a_table_whose_definition_is_no_text_is_damage(tmp_path: Path) -> None:
    counted, cache = Counted(), FeatureCache(tmp_path)
    cache.features(counted.backbone(), IMAGES)
    file = tmp_path / FILE
    file.write_bytes(file.read_bytes().replace(b"CREATE TABLE", b"CREATE \xff\xffBLE"))
    assert "definition" in check_features(tmp_path)[0]
    np.testing.assert_array_equal(cache.features(counted.backbone(), IMAGES), expected(IMAGES))
    assert check_features(tmp_path) == []


def test_a_journal_that_names_another_file_does_not_remove_it(tmp_path: Path) -> None:
    counted, cache, other = Counted(), FeatureCache(tmp_path), tmp_path / "other"
    cache.features(counted.backbone(), IMAGES)
    other.write_text("precious")
    magic, name = b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7", str(other).encode()
    header = (magic + struct.pack(">IIIII", 0, 0, 3, 512, 4096)).ljust(512, b"\0")
    end = struct.pack(">I", (1 << 30) // 4096 + 1) + name + struct.pack(">II", len(name), sum(name)) + magic
    (tmp_path / f"{FILE}-journal").write_bytes(header + end)
    assert check_features(tmp_path)
    for _ in range(2):
        np.testing.assert_array_equal(cache.features(counted.backbone(), IMAGES), expected(IMAGES))
    assert other.exists()
    assert check_features(tmp_path) == []


def test_a_folder_that_cannot_be_used_is_no_error(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_bytes(b"")
    cache = FeatureCache(tmp_path / "file" / "cache")
    np.testing.assert_array_equal(cache.features(Counted().backbone(), IMAGES), expected(IMAGES))
    assert "cannot be used" in caplog.text


def test_several_writers_at_once(tmp_path: Path) -> None:
    counted, cache = Counted(), FeatureCache(tmp_path)
    found: dict[int, np.ndarray] = {}

    def write(number: int) -> None:
        found[number] = cache.features(counted.backbone(), np.roll(IMAGES, number, axis=0))

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, features in found.items():
        np.testing.assert_array_equal(features, expected(np.roll(IMAGES, number, axis=0)))
    assert len(found) == 4
    assert check_features(tmp_path) == []


def test_the_default_is_in_the_cache_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("EIGEN_REPTILE_CACHE", str(tmp_path))
    assert FeatureCache.default().folder == tmp_path / "features"
