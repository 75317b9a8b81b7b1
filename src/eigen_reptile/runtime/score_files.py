"""Files to which each evaluated task adds a line with its scores, so that an interrupted evaluation can continue."""

import io
import json
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, final

from eigen_reptile.errors import RunError
from eigen_reptile.runtime.files import read_bytes, write_atomically
from eigen_reptile.runtime.strict_json import parse_json

MOST_BYTES = 1 << 27
"""A larger file is not read; the result could not contain its scores."""


@final
class ScoreFile:
    """A first line about the evaluation, then one for each task; every line begins with a checksum of the rest."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def start(self, about: Mapping[str, Any]) -> list[Any]:
        """The lines of the tasks, up to the first that is damaged; none if the file is about another evaluation.

        Whatever else is in the file is deleted.
        """
        lines = list(self._intact_lines())
        if not lines or lines[0] != _plain(about):
            lines = [about]
        try:
            self._file.parent.mkdir(exist_ok=True)
        except OSError as error:
            raise RunError(f"cannot create {self._file.parent}: {error.strerror}") from error
        write_atomically(self._file, _encoded(lines))
        return lines[1:]

    def add(self, lines: Iterable[Any]) -> None:
        """Add the lines of further tasks."""
        try:
            with self._file.open("ab") as file:
                file.write(_encoded(lines))
        except OSError as error:
            raise RunError(f"cannot write {self._file}: {error.strerror}") from error

    def _intact_lines(self) -> Iterable[Any]:
        if not self._file.exists():
            return
        for line in io.BytesIO(read_bytes(self._file, MOST_BYTES)):
            checksum, _, text = line.removesuffix(b"\n").partition(b" ")
            if checksum != _checksum(text):
                return  # cut short by a crash, or the end
            try:
                yield parse_json(text)
            except ValueError:
                return


def _encoded(lines: Iterable[Any]) -> bytes:
    texts = (json.dumps(line, allow_nan=False).encode() for line in lines)
    return b"".join(_checksum(text) + b" " + text + b"\n" for text in texts)


def _checksum(text: bytes) -> bytes:
    return b"%08x" % zlib.crc32(text)


def _plain(value: Mapping[str, Any]) -> Any:
    """As it is read from a file: tuples are lists there."""
    return json.loads(json.dumps(value))
