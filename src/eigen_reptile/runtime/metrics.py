"""The metrics of a run: lines of JSON in metrics.jsonl, and the same numbers in TensorBoard's event files."""

import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, final

from tensorboardX.proto.event_pb2 import Event, SessionLog
from tensorboardX.proto.summary_pb2 import Summary
from tensorboardX.record_writer import RecordWriter

from eigen_reptile.errors import RunError
from eigen_reptile.runtime.files import write_atomically


@final
class Metrics:
    """The metrics in a run folder; call `start` before `log`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file = folder / "metrics.jsonl"
        self._events: RecordWriter | None = None

    def start(self, step: int) -> None:
        """Prepare to log what follows `step`; later lines, left by a run that was killed, are deleted."""
        self.close()
        kept = [line for line in self.read() if line["step"] <= step]
        write_atomically(self._file, b"".join(json.dumps(line).encode() + b"\n" for line in kept))
        with self._reporting_events():
            self._events = RecordWriter(str(self._folder / f"events.out.tfevents.{time.time_ns()}"))
        self._write_event(Event(file_version="brain.Event:2", wall_time=time.time()))
        # From the step of this mark on, TensorBoard ignores what earlier files hold.
        start = SessionLog(status=SessionLog.START)
        self._write_event(Event(step=step + 1, session_log=start, wall_time=time.time()))

    def log(self, kind: str, step: int, values: Mapping[str, Any]) -> None:
        """Append one line; its numbers also go to TensorBoard."""
        line = json.dumps({"kind": kind, "step": step, **values}, allow_nan=False) + "\n"
        try:
            with self._file.open("a", encoding="utf-8") as file:
                file.write(line)
        except OSError as error:
            raise RunError(f"cannot write {self._file}: {error.strerror}") from error
        numbers = {f"{kind}/{name}": value for name, value in values.items() if isinstance(value, float | int)}
        summary = Summary(value=[Summary.Value(tag=tag, simple_value=value) for tag, value in numbers.items()])
        self._write_event(Event(step=step, summary=summary, wall_time=time.time()))

    def read(self) -> list[dict[str, Any]]:
        """All complete lines."""
        if not self._file.exists():
            return []
        lines = []
        for line in self._file.read_bytes().splitlines():
            try:
                value = json.loads(line)
            except ValueError:
                break  # cut short by a crash; this line and the following ones will be logged again
            if not (isinstance(value, dict) and {"kind", "step"} <= value.keys()):
                raise RunError(f"{self._file} has a line that is not a log entry: {line[:60]!r}")
            lines.append(value)
        return lines

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
