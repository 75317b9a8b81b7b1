"""The metrics of a run: lines of JSON in metrics.jsonl, and the same numbers in TensorBoard's event files."""

import hashlib
import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, final

from tensorboardX.proto.event_pb2 import Event, SessionLog
from tensorboardX.proto.summary_pb2 import Summary
from tensorboardX.record_writer import RecordWriter

from eigen_reptile.errors import RunError
from eigen_reptile.runtime.files import read_bytes, write_atomically
from eigen_reptile.runtime.strict_json import parse_json

MOST_BYTES = 1 << 27
MOST_LINES = 500_000
"""A file of metrics that is larger or has more lines is neither written nor read."""


class Written(NamedTuple):
    """A file up to some moment."""

    bytes: int
    sha256: str


@final
class Metrics:
    """The metrics in a run folder; call `start` before `log`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file = folder / "metrics.jsonl"
        self._remember(b"")
        self._events: RecordWriter | None = None

    def start(self, step: int, written: Written | None = None) -> None:
        """Prepare to log what follows `step`; what a killed run has logged after it is deleted.

        `written` is the file at that step; early versions did not record it.
        """
        self.close()
        kept = b""
        if written is not None:
            kept = self._data()[: written.bytes]
        elif step >= 0:
            kept = b"".join(json.dumps(line).encode() + b"\n" for line in self.read() if line["step"] <= step)
        write_atomically(self._file, kept)
        self._remember(kept)
        with self._reporting_events():
            self._events = RecordWriter(str(self._folder / f"events.out.tfevents.{time.time_ns()}"))
        self._write_event(Event(file_version="brain.Event:2", wall_time=time.time()))
        # From the step of this mark on, TensorBoard ignores what earlier files hold.
        start = SessionLog(status=SessionLog.START)
        self._write_event(Event(step=step + 1, session_log=start, wall_time=time.time()))

    def _remember(self, data: bytes) -> None:
        """What the file contains from now on, so that it need not be read again to be continued."""
        self._length, self._lines, self._sha256 = len(data), data.count(b"\n"), hashlib.sha256(data)

    def log(self, kind: str, step: int, values: Mapping[str, Any]) -> None:
        """Append one line; its numbers also go to TensorBoard."""
        line = json.dumps({"kind": kind, "step": step, **values}, allow_nan=False).encode() + b"\n"
        if self._length + len(line) > MOST_BYTES or self._lines >= MOST_LINES:
            raise RunError(
                f"{self._file} is full: it may have {MOST_BYTES} bytes and {MOST_LINES} lines; "
                "start a new run with a larger `evaluation.every`"
            )
        try:
            with self._file.open("r+b") as file:  # not "a", which would begin a new file in place of a lost one
                if file.seek(0, os.SEEK_END) != self._length:
                    raise RunError(f"{self._file} was changed by another process")
                file.write(line)
        except OSError as error:
            raise RunError(f"cannot write {self._file}: {error.strerror}") from error
        self._length += len(line)
        self._lines += 1
        self._sha256.update(line)
        numbers = {f"{kind}/{name}": value for name, value in values.items() if isinstance(value, float | int)}
        summary = Summary(value=[Summary.Value(tag=tag, simple_value=value) for tag, value in numbers.items()])
        self._write_event(Event(step=step, summary=summary, wall_time=time.time()))

    def read(self) -> list[dict[str, Any]]:
        """All complete lines; RunError if one before the last is damaged."""
        data = self._data()
        if data.count(b"\n") > MOST_LINES:
            raise RunError(f"{self._file} is too large: at most {MOST_LINES} lines are read")
        *complete, _ = data.split(b"\n")  # what follows the last line break was cut short by a crash
        lines = []
        for number, line in enumerate(complete, 1):
            try:
                value = parse_json(line)
            except ValueError as error:
                raise RunError(f"line {number} of {self._file} is damaged: {error}") from error
            if not (isinstance(value, dict) and isinstance(value.get("kind"), str) and _is_step(value.get("step"))):
                raise RunError(f"{self._file} has a line that is not a log entry: {line[:60]!r}")
            lines.append(value)
        return lines

    def written(self) -> Written:
        """What was logged up to now."""
        return Written(self._length, self._sha256.hexdigest())

    def damage(self, written: Written | None) -> str:
        """What is wrong with the file up to some moment; empty if nothing is. Early versions recorded no moment."""
        if written is None:
            try:
                return "" if self.read() else f"{self._file} is missing or empty"
            except RunError as error:
                return str(error)
        if not self._file.exists() and written.bytes:
            return f"{self._file} is missing"
        data = self._data()
        if len(data) < written.bytes:
            return f"{self._file} is incomplete: it has {len(data)} of {written.bytes} bytes"
        intact = hashlib.sha256(data[: written.bytes]).hexdigest() == written.sha256
        return "" if intact else f"{self._file} was changed: its checksum is wrong"

    def _data(self) -> bytes:
        return read_bytes(self._file, MOST_BYTES) if self._file.exists() else b""

    def flush(self) -> None:
        """Write everything logged so far to the disk, so that no checkpoint is ever ahead of its metrics."""
        if self._file.exists():
            with self._file.open("rb") as file:
                os.fsync(file.fileno())
        if self._events is not None:
            with self._reporting_events():
                self._events.flush()

    def close(self) -> None:
        if self._events is not None:
            with suppress(OSError):  # a full disk was already reported by the flush before the checkpoint
                self._events.close()
            self._events = None

    def _write_event(self, event: Event) -> None:
        if self._events is None:
            raise RuntimeError("`start` must be called before `log`")
        with self._reporting_events():
            self._events.write(event.SerializeToString())

    @contextmanager
    def _reporting_events(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise RunError(f"cannot write TensorBoard's event file in {self._folder}: {error.strerror}") from error


def _is_step(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63
