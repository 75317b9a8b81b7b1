"""Standard output and error that accept every text, in any encoding, whether or not anybody reads it."""

import codecs
import io
import os
import select
import sys
from pathlib import Path
from typing import TYPE_CHECKING, TextIO, final

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

IN_ASCII = "eigen_reptile.in_ascii"
REPLACEMENTS = {"±": "+-", "…": "..."}
"""ASCII replacements for characters that an encoding lacks."""


@final
class LossyFile(io.FileIO):
    """A file that loses what cannot be written to it: a message that nobody reads must not end the work."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream.fileno(), "w", closefd=False)
        self._stream = stream  # which would close the file if it were deleted

    def write(self, data: "ReadableBuffer", /) -> int:
        try:
            return super().write(data)
        except OSError:  # the reader has gone, the terminal is closed, or the disk is full
            return memoryview(data).nbytes


def prepare_streams() -> None:
    """Replace streams that the caller has closed, and let them replace characters that they cannot encode.

    What cannot be written to standard error is lost; a failure to write to standard output is an error.
    """
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:  # nor may the next file that is opened take its number
            mode = "r" if name == "stdin" else "w"
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115 (open until the end)
    codecs.register_error(IN_ASCII, _in_ascii)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=IN_ASCII)
    if isinstance(sys.stderr, io.TextIOWrapper) and isinstance(sys.stderr.buffer, io.BufferedWriter):
        file = io.BufferedWriter(LossyFile(sys.stderr))
        sys.stderr = io.TextIOWrapper(file, sys.stderr.encoding, IN_ASCII, line_buffering=True)


def _in_ascii(error: UnicodeError) -> tuple[str, int]:
    """What is written in place of characters that cannot be encoded: an ASCII look-alike or an escape sequence."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    characters = error.object[error.start : error.end]
    escaped = (REPLACEMENTS.get(one) or one.encode("ascii", "backslashreplace").decode() for one in characters)
    return "".join(escaped), error.end


def reader_has_gone(stream: TextIO) -> bool:
    """Whether a stream is a pipe that nobody reads any more."""
    ends = select.poll()
    try:
        ends.register(stream.fileno(), 0)  # asks only for what is reported anyway: that the other end is closed
    except OSError:  # not a file
        return False
    return bool(ends.poll(0))


def discard_unwritten() -> None:
    """Discard what can no longer be written, because the interpreter would complain about it when it ends."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
