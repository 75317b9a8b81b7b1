"""The cache of features: damaged databases, rows and tables of other kinds, journals that nobody has written."""

import random
import sqlite3
import struct
import tempfile
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from eigen_reptile.practice.backbones.feature_cache import FILE, FeatureCache, check_features
from eigen_reptile.practice.backbones.trained_run import Pixels
from siege.case import BrokenPromiseError
from siege.mutate import mutated

BACKBONE = Pixels(6, "L")
IMAGES = np.random.default_rng(0).integers(0, 256, (6, 6, 6, 1), dtype=np.uint8)
STATEMENTS = (
    "DROP TABLE features",
    "CREATE INDEX i ON features (checksum)",
    "CREATE TRIGGER t AFTER INSERT ON features BEGIN DELETE FROM features; END",
    "CREATE TRIGGER t BEFORE INSERT ON features BEGIN SELECT RAISE(ABORT, 'no'); END",
    "ALTER TABLE features ADD COLUMN more",
    "ALTER TABLE features DROP COLUMN checksum",
    "ALTER TABLE features RENAME TO f; CREATE VIEW features AS SELECT * FROM f",
    "DROP TABLE features; CREATE VIEW features AS WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) "
    "SELECT 'b' AS backbone, x AS sample, x AS features, x AS checksum FROM c",
    "DROP TABLE features; CREATE VIEW features AS SELECT backbone, sample, zeroblob(4000000) AS features, 0 AS checksum"
    " FROM (SELECT 1 AS backbone, 2 AS sample)",
    "UPDATE features SET features = zeroblob(5000000)",
    "UPDATE features SET features = 'text'",
    "UPDATE features SET features = NULL, checksum = 'x'",
    "UPDATE features SET sample = hex(sample)",
    "UPDATE features SET checksum = 0.5",
    "PRAGMA writable_schema = ON; UPDATE sqlite_schema SET sql = 'CREATE TABLE features (x)'",
    "PRAGMA writable_schema = ON; UPDATE sqlite_schema SET rootpage = 1",
    "PRAGMA user_version = 7",
    "PRAGMA journal_mode = WAL",
)
JOURNAL = b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7"
PAGE, LOCK_PAGE = 4096, 262_145
"""Bytes of a page, and the number of the page that is never used."""


def damaged(rng: random.Random, folder: Path) -> str:
    (folder / FILE).write_bytes(mutated(rng, _database()))
    return _read(folder)


def generated(rng: random.Random, folder: Path) -> str:
    """Other tables and rows than the software writes, or a journal of changes that are to be taken back."""
    file = folder / FILE
    file.write_bytes(_database())
    if rng.random() < 0.3:
        file.with_name(f"{FILE}-journal").write_bytes(_journal(rng, folder / "kept"))
        return _read(folder)
    with closing(sqlite3.connect(file, isolation_level=None)) as database:
        database.execute("PRAGMA synchronous = OFF")
        for statement in rng.sample(STATEMENTS, rng.randint(1, 2)):
            try:
                database.executescript(statement)
            except sqlite3.Error:  # after the statement before it
                continue
    if rng.random() < 0.2:
        file.write_bytes(mutated(rng, file.read_bytes()))
    return _read(folder)


def prepare() -> None:
    _database()


@cache
def _expected() -> Any:
    return BACKBONE.features(IMAGES)


@cache
def _database() -> bytes:
    """A cache with all features, as a file."""
    with tempfile.TemporaryDirectory() as name:
        FeatureCache(Path(name)).features(BACKBONE, IMAGES)
        return (Path(name) / FILE).read_bytes()


def _journal(rng: random.Random, other: Path) -> bytes:
    """A journal that tells to restore pages, and that it belongs to another file, which is then to be removed."""
    header = JOURNAL + struct.pack(">IIIII", rng.choice((2**32 - 1, 0, 1, 2**31)), 0, rng.choice((3, 0)), 512, PAGE)
    page = rng.choice((bytes(PAGE), rng.randbytes(PAGE), _database()[:PAGE]))
    checksum = sum(page[place] for place in range(PAGE - 200, 0, -200)) % 2**32
    record = struct.pack(">I", rng.choice((1, 2, 3, 2**31))) + page + struct.pack(">I", checksum)
    name = str(other).encode()
    end = struct.pack(">I", LOCK_PAGE) + name + struct.pack(">II", len(name), sum(name)) + JOURNAL
    data = header.ljust(512, b"\0") + record * rng.choice((0, 1)) + end
    return mutated(rng, data) if rng.random() < 0.3 else data


def _read(folder: Path) -> str:
    """The same features as without a cache, twice, because the first time may have mended it."""
    kept = folder / "kept"
    kept.write_text("kept")
    problems = check_features(folder)
    for _ in range(2):
        found = FeatureCache(folder).features(BACKBONE, IMAGES)
        if not np.array_equal(found, _expected()):
            raise BrokenPromiseError("other features than without a cache")
    if not kept.exists():
        raise BrokenPromiseError("a file beside the cache was removed")
    return "computed again" if problems else "read"
