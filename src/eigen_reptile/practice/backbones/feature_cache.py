"""Features that were computed once, on disk by the content of the sample and the fingerprint of the backbone.

The cache is an SQLite database, to which several processes may write at once; each batch is one transaction. Every row
has a checksum. What is damaged is computed again, and the cache may be deleted at any time.
"""

import hashlib
import logging
import sqlite3
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np
from jaxtyping import Float, Shaped

from eigen_reptile.data.io.cache import cache_folder
from eigen_reptile.practice.backbones.backbone import Backbone

log = logging.getLogger(__name__)

FILE = "features.sqlite"
MOST_BYTES = 1 << 22
"""Limit for a row: a million features."""
SECONDS = 30.0
"""How long to wait for another process that is writing."""
TABLE = "features (backbone TEXT, sample BLOB, features BLOB, checksum INTEGER, PRIMARY KEY (backbone, sample))"
SCHEMA = {("table", f"CREATE TABLE {TABLE}"), ("index", None)}
"""Types and definitions of all that the database holds; the index is that of the primary key."""
JOURNAL_END = b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7"
"""The last bytes of a journal that names another file."""
SUFFIXES = ("-journal", "-wal", "-shm", "")
"""Suffixes of all files that belong to a database, its own last."""


@final
@dataclass(frozen=True)
class FeatureCache:
    """Features in a file of this folder."""

    folder: Path

    @staticmethod
    def default() -> "FeatureCache":
        return FeatureCache(cache_folder() / "features")

    def features(self, backbone: Backbone, x: Shaped[np.ndarray, "N *shape"]) -> Float[np.ndarray, "N F"]:
        """The features of a batch; those that are not in the cache are computed together, and added to it."""
        if backbone.fingerprint is None or backbone.image_format is None:
            return backbone.features(x)
        keys = [hashlib.sha256(repr((one.dtype.str, one.shape)).encode() + one.tobytes()).digest() for one in x]
        found = self._read(backbone.fingerprint, keys)
        if missing := [row for row, key in enumerate(keys) if key not in found]:
            computed = backbone.features(x[missing])
            added = {keys[row]: one for row, one in zip(missing, computed, strict=True)}
            self._write(backbone.fingerprint, added)
            found |= added
        if len({len(one) for one in found.values()}) > 1:  # somebody has written to the cache
            return backbone.features(x)
        return np.stack([found[key] for key in keys])

    def _read(self, fingerprint: str, keys: Sequence[bytes]) -> dict[bytes, Float[np.ndarray, "F"]]:
        """The features of those samples that are in the cache, undamaged."""
        found: dict[bytes, np.ndarray] = {}

        def read(database: sqlite3.Connection) -> None:
            query = "SELECT features, checksum FROM features WHERE backbone = ? AND sample = ?"
            for key in keys:
                for data, checksum in database.execute(query, (fingerprint, key)):
                    if _is_intact(key, data, checksum):
                        found[key] = np.frombuffer(data, dtype="<f4").astype(np.float32)

        self._use(read)
        return found

    def _write(self, fingerprint: str, added: Mapping[bytes, Float[np.ndarray, "F"]]) -> None:
        data = {key: one.astype("<f4").tobytes() for key, one in added.items()}
        rows = [(fingerprint, key, one, _checksum(key, one)) for key, one in data.items()]
        self._use(lambda database: database.executemany("INSERT OR REPLACE INTO features VALUES (?, ?, ?, ?)", rows))

    def _use(self, action: Callable[[sqlite3.Connection], object]) -> None:
        """Read or write in one transaction. A cache that cannot be used is left alone, a damaged one is deleted."""
        file = self.folder / FILE
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with closing(_connected(file)) as database, database:
                database.execute(f"CREATE TABLE IF NOT EXISTS {TABLE}")
                action(database)
        except (OSError, sqlite3.OperationalError) as error:
            log.warning("features are not cached, because %s cannot be used: %s", file, error)
        except sqlite3.Error as error:
            log.warning("the cached features in %s are damaged (%s): computing them again", file, error)
            for suffix in SUFFIXES:
                file.with_name(FILE + suffix).unlink(missing_ok=True)


def _connected(file: Path) -> sqlite3.Connection:
    """The database; DatabaseError if it holds anything that this module does not write."""
    _check_journal(file.with_name(f"{FILE}-journal"))
    database = sqlite3.connect(file, timeout=SECONDS)
    try:
        database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MOST_BYTES)
        database.execute("PRAGMA trusted_schema = OFF")
        database.execute("PRAGMA cell_size_check = ON")
        # A view could have any number of rows, and a trigger change what is written.
        if not SCHEMA.issuperset(database.execute("SELECT type, sql FROM sqlite_schema").fetchmany(len(SCHEMA) + 1)):
            raise sqlite3.DatabaseError("it has other tables than this version writes")
    except UnicodeDecodeError as error:  # raised by sqlite3 for a table whose definition is no text
        database.close()
        raise sqlite3.DatabaseError("the definition of a table is damaged") from error
    except sqlite3.Error:
        database.close()
        raise
    return database


def _check_journal(journal: Path) -> None:
    """DatabaseError if an interrupted change is said to belong to another file too, which SQLite would remove."""
    with suppress(FileNotFoundError), journal.open("rb") as stream:
        stream.seek(max(0, journal.stat().st_size - len(JOURNAL_END)))
        if stream.read() == JOURNAL_END:
            raise sqlite3.DatabaseError("its journal belongs to another file")


def _checksum(key: bytes, data: bytes) -> int:
    return zlib.crc32(data, zlib.crc32(key))


def _is_intact(key: object, data: object, checksum: object) -> bool:
    if not (isinstance(key, bytes) and isinstance(data, bytes) and data and len(data) % 4 == 0):
        return False
    return _checksum(key, data) == checksum


def check_features(folder: Path) -> list[str]:
    """What is damaged in the cache of features in this folder, one line each; nothing is changed."""
    file = folder / FILE
    try:
        with closing(_connected(file)) as database:
            (state,) = database.execute("PRAGMA integrity_check(1)").fetchone()
            if state != "ok":  # its pages may form a circle
                return [f"{file} is damaged ({state}): delete it, features will be computed again"]
            rows = database.execute("SELECT sample, features, checksum FROM features")
            damaged = sum(not _is_intact(*row) for row in rows)
    except (OSError, sqlite3.Error) as error:
        return [f"{file} cannot be read ({error}): delete it, features will be computed again"]
    return [f"{damaged} of the features in {file} are damaged: they will be computed again"] if damaged else []
