"""Read the opcodes of a pickle without trusting the lengths that it claims."""

import io
from typing import final

SPARE_BYTES = 1 << 24
"""Bytes that a file may allocate in addition to twice its length: once as text or bytes, once as an array."""
TEXT_LENGTHS = {"BINSTRING": 4, "SHORT_BINUNICODE": 1, "BINUNICODE": 4, "BINUNICODE8": 8}
"""Bytes of the length in front of strings that are decoded here."""
_WIDE = bytes(range(0xC4))
"""Bytes of UTF-8 that occur in text of Latin-1; other text takes up to four bytes a character in memory."""


@final
class PickleReader:
    """The file, and the bytes that it may still allocate, which are charged before they are."""

    def __init__(self, file: io.BytesIO | io.BufferedReader) -> None:
        self._file = file
        start = file.tell()
        self._length = file.seek(0, io.SEEK_END) - start
        file.seek(start)
        self._budget = 2 * self._length + SPARE_BYTES

    def charge(self, size: int) -> None:
        self._budget -= size
        if self._budget < 0:
            raise ValueError("it unpacks to far more than its own length")

    def read(self, size: int) -> bytes:
        """At most `size` bytes; fewer at the end of the file."""
        if not 0 <= size <= self._length:
            raise ValueError(f"it claims to contain {size:.3g} bytes in {self._length}")
        self.charge(size)
        return self._file.read(size)

    def readline(self) -> bytes:
        line = self._file.readline()
        self.charge(4 * len(line))  # as text, which may be wide
        return line

    def read_text(self, opcode: str) -> str | bytes:
        """A string with its length in front. Long strings of Python 2 are data, and stay bytes."""
        size = int.from_bytes(self.read(TEXT_LENGTHS[opcode]), "little")
        data = self.read(size)
        if len(data) < size:
            raise ValueError("it ends too early")
        if opcode == "BINSTRING":
            return data
        if data.translate(None, _WIDE):
            self.charge(4 * size)
        return data.decode("utf-8", "surrogatepass")
