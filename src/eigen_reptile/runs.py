"""The run folder.

config.json          the resolved experiment
environment.json     versions, commit, machine and command of each start
metrics.jsonl        one line per logged step
events.out.*         the same numbers for TensorBoard
checkpoints/         step-000001000.safetensors and .json, the newest two
example.safetensors  a test task of pictures with predictions, to be looked at
result.json          what came out; its presence says that the run is finished
"""

import hashlib
import json
import logging
import os
import re
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, final

import safetensors.torch
from filelock import FileLock, Timeout
from safetensors import SafetensorError
from tensorboardX.proto.event_pb2 import Event, SessionLog
from tensorboardX.proto.summary_pb2 import Summary
from tensorboardX.record_writer import RecordWriter
from torch import Tensor

from eigen_reptile.files import FolderError, RunError, differences, read_json, write_atomically, write_json

log = logging.getLogger(__name__)

KEPT_CHECKPOINTS = 2


class Checkpoint(NamedTuple):
    step: int
    tensors: dict[str, Tensor]


class RunLog(ABC):
    """Where a run keeps what must not be lost."""

    @abstractmethod
    def result(self) -> dict[str, Any] | None: ...

    @abstractmethod
    def save_result(self, value: Mapping[str, Any]) -> None: ...

    @abstractmethod
    def save_tensors(self, name: str, tensors: Mapping[str, Tensor]) -> None: ...

    @abstractmethod
    def save_environment(self, value: Mapping[str, Any]) -> None: ...

    @abstractmethod
    def load_checkpoint(self) -> Checkpoint | None: ...

    @abstractmethod
    def save_checkpoint(self, step: int, tensors: Mapping[str, Tensor]) -> None: ...

    @abstractmethod
    def start_metrics(self, step: int) -> None: ...

    @abstractmethod
    def log(self, kind: str, step: int, values: Mapping[str, Any]) -> None: ...

    @abstractmethod
    def metrics(self) -> list[dict[str, Any]]: ...


@final
class Elsewhere(RunLog):
    """What a worker has whose lead keeps the run: nothing."""

    def result(self) -> dict[str, Any] | None:
        return None

    def save_result(self, value: Mapping[str, Any]) -> None:
        pass

    def save_tensors(self, name: str, tensors: Mapping[str, Tensor]) -> None:
        pass

    def save_environment(self, value: Mapping[str, Any]) -> None:
        pass

    def load_checkpoint(self) -> Checkpoint | None:
        return None

    def save_checkpoint(self, step: int, tensors: Mapping[str, Tensor]) -> None:
        pass

    def start_metrics(self, step: int) -> None:
        pass

    def log(self, kind: str, step: int, values: Mapping[str, Any]) -> None:
        pass

    def metrics(self) -> list[dict[str, Any]]:
        return []


@final
class RunDir(RunLog):
    """One run's folder, held by one process at a time. Use `RunDir.open`, unless to read what a finished one holds."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._metrics = path / "metrics.jsonl"
        self._checkpoints = path / "checkpoints"
        self._events: RecordWriter | None = None

    @classmethod
    @contextmanager
    def open(
        cls, path: Path, config: Mapping[str, Any], completed: Callable[[Any], Any] = lambda saved: saved
    ) -> Iterator["RunDir"]:
        """Create the folder, or continue in it if it belongs to the same config.

        `completed` adds to a saved config what has become part of configs since; ValueError if it makes no sense of it.
        """
        try:
            path.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=path):
                pass
        except OSError as error:
            raise FolderError(f"cannot write to the folder {path}: {error.strerror}; choose another") from error
        lock = FileLock(path / ".lock")
        try:
            lock.acquire(timeout=0)
        except Timeout:
            raise FolderError(f"another process is using {path}: wait for it, or choose another folder") from None
        run = cls(path)
        try:
            run._claim(config, completed)
            yield run
        finally:
            run.close()
            lock.release()

    def _claim(self, config: Mapping[str, Any], completed: Callable[[Any], Any]) -> None:
        file = self.path / "config.json"
        if not file.exists():
            if any(not entry.name.startswith(".") for entry in self.path.iterdir()):
                raise FolderError(f"{self.path} is not empty, but no run of ours: choose another folder")
            write_json(file, config)
        elif different := self._differences(config, read_json(file), completed):
            raise FolderError(
                f"{self.path} belongs to another experiment: " + "; ".join(different) + ". Choose another folder."
            )
        self._checkpoints.mkdir(exist_ok=True)

    def _differences(self, config: Mapping[str, Any], saved: Any, completed: Callable[[Any], Any]) -> list[str]:
        """Where the saved config is another, one line each."""
        if saved == config:
            return []
        try:
            return differences(config, completed(saved))
        except ValueError as error:
            raise FolderError(
                f"{self.path} belongs to an experiment that cannot be read: {error}. Choose another folder."
            ) from error

    def close(self) -> None:
        if self._events is not None:
            with suppress(OSError):  # what matters was flushed with the checkpoint; a full disk is reported there
                self._events.close()
            self._events = None

    # Results

    def result(self) -> dict[str, Any] | None:
        """What a finished run found, or None."""
        file = self.path / "result.json"
        if not file.exists():
            return None
        value: dict[str, Any] = read_json(file)
        return value

    def save_result(self, value: Mapping[str, Any]) -> None:
        """Keep the result, one line for each of its parts, because most of them are long lists of numbers."""
        lines = [f"{json.dumps(name)}: {json.dumps(part, allow_nan=False)}" for name, part in value.items()]
        write_atomically(self.path / "result.json", ("{\n" + ",\n".join(lines) + "\n}\n").encode())

    def save_tensors(self, name: str, tensors: Mapping[str, Tensor]) -> None:
        """Keep tensors in a file of this name."""
        data = safetensors.torch.save({key: tensor.contiguous() for key, tensor in tensors.items()})
        write_atomically(self.path / name, data)

    def save_environment(self, value: Mapping[str, Any]) -> None:
        """Add this start's environment to those before it."""
        file = self.path / "environment.json"
        starts = read_json(file) if file.exists() else []
        write_json(file, [*starts, value])

    # Checkpoints

    def save_checkpoint(self, step: int, tensors: Mapping[str, Tensor]) -> None:
        """Keep these tensors as the state after `step` iterations, and drop all but the newest checkpoints."""
        self._flush_metrics()
        data = safetensors.torch.save({name: tensor.contiguous() for name, tensor in tensors.items()})
        stem = self._checkpoints / f"step-{step:09d}"
        write_atomically(stem.with_suffix(".safetensors"), data)
        # The description comes last: a checkpoint without it is not there.
        write_json(stem.with_suffix(".json"), {"step": step, "sha256": hashlib.sha256(data).hexdigest()})
        # With the old ones goes what a killed process left half written, and damaged ones of steps yet to come:
        # those must not crowd out whole ones.
        kept = [old for old in self._steps() if old <= step][:KEPT_CHECKPOINTS]
        stems = {f"step-{old:09d}" for old in kept}
        for file in self._checkpoints.glob("*step-*"):
            if file.stem not in stems:
                file.unlink(missing_ok=True)

    def load_checkpoint(self) -> Checkpoint | None:
        """The newest checkpoint that is whole; a damaged one is reported and passed over."""
        steps = self._steps()
        for step in steps:
            stem = self._checkpoints / f"step-{step:09d}"
            try:
                return self._read_checkpoint(stem)
            except RunError as error:
                log.warning("checkpoint of step %d is damaged (%s): passing over it", step, error)
        if steps:
            log.warning("no checkpoint in %s is whole: starting from the beginning", self._checkpoints)
        return None

    def _steps(self) -> list[int]:
        names = (re.fullmatch(r"step-(\d{9})\.json", file.name) for file in self._checkpoints.glob("*"))
        return sorted((int(name[1]) for name in names if name), reverse=True)

    @staticmethod
    def _read_checkpoint(stem: Path) -> Checkpoint:
        about = read_json(stem.with_suffix(".json"))
        try:
            data = stem.with_suffix(".safetensors").read_bytes()
        except OSError as error:
            raise RunError(str(error.strerror)) from error
        try:
            if hashlib.sha256(data).hexdigest() != about["sha256"]:
                raise RunError("its checksum is wrong")
            return Checkpoint(int(about["step"]), safetensors.torch.load(data))
        except (KeyError, TypeError, ValueError, SafetensorError) as error:
            raise RunError(str(error)) from error

    # Metrics

    def start_metrics(self, step: int) -> None:
        """Make ready to log what comes after `step`: later lines, left by a run that was killed, are dropped."""
        kept = [line for line in self.metrics() if line["step"] <= step]
        write_atomically(self._metrics, b"".join(json.dumps(line).encode() + b"\n" for line in kept))
        with self._reporting_events():
            self._events = RecordWriter(str(self.path / f"events.out.tfevents.{time.time_ns()}"))
        self._event(Event(file_version="brain.Event:2", wall_time=time.time()))
        # TensorBoard forgets what earlier files hold from the step of this mark on.
        start = SessionLog(status=SessionLog.START)
        self._event(Event(step=step + 1, session_log=start, wall_time=time.time()))

    def log(self, kind: str, step: int, values: Mapping[str, Any]) -> None:
        """One line of metrics; its numbers also go to TensorBoard."""
        line = json.dumps({"kind": kind, "step": step, **values}, allow_nan=False) + "\n"
        try:
            with self._metrics.open("a", encoding="utf-8") as file:
                file.write(line)
        except OSError as error:
            raise RunError(f"cannot write {self._metrics}: {error.strerror}") from error
        numbers = {f"{kind}/{name}": value for name, value in values.items() if isinstance(value, float | int)}
        summary = Summary(value=[Summary.Value(tag=tag, simple_value=value) for tag, value in numbers.items()])
        self._event(Event(step=step, summary=summary, wall_time=time.time()))

    def metrics(self) -> list[dict[str, Any]]:
        """All whole lines that were logged."""
        if not self._metrics.exists():
            return []
        lines = []
        for line in self._metrics.read_bytes().splitlines():
            try:
                found = json.loads(line)
            except ValueError:
                break  # torn by a crash; it and what follows will be logged again
            if not (isinstance(found, dict) and {"kind", "step"} <= found.keys()):
                raise RunError(f"{self._metrics} holds what no run has logged: {line[:60]!r}")
            lines.append(found)
        return lines

    def _event(self, event: Event) -> None:
        if self._events is None:
            raise RuntimeError("start_metrics comes before log")
        with self._reporting_events():
            self._events.write(event.SerializeToString())

    def _flush_metrics(self) -> None:
        """Put on the disk what was logged, so that no checkpoint is ever ahead of its metrics."""
        if self._metrics.exists():
            with self._metrics.open("rb") as file:
                os.fsync(file.fileno())
        if self._events is not None:
            with self._reporting_events():
                self._events.flush()

    @contextmanager
    def _reporting_events(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise RunError(f"cannot write TensorBoard's file in {self.path}: {error.strerror}") from error
