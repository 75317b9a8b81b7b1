"""The run folder.

config.json          the experiment, with all settings
environment.json     versions, commit, machine and command of each start
metrics.jsonl        one line per logged step
events.out.*         the same numbers for TensorBoard
checkpoints/         step-000001000.safetensors and .json, the newest two; see checkpoints.py
scores/              scores of evaluated tasks, until the result contains them
example.safetensors  one test task of images with predictions, for the report
result.json          the result; only a finished run has it
"""

import hashlib
import json
import shutil
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, final

from torch import Tensor

from eigen_reptile.errors import ConfigError
from eigen_reptile.runtime.checkpoints import Checkpoint, Checkpoints, Clock
from eigen_reptile.runtime.checksums import digest, with_checksum
from eigen_reptile.runtime.environment import read_environments
from eigen_reptile.runtime.files import sync_folder, write_atomically, write_json, write_tensors
from eigen_reptile.runtime.folder_lock import FolderLock
from eigen_reptile.runtime.metrics import Metrics
from eigen_reptile.runtime.run_files import read_config, read_result_file, save_or_check_config
from eigen_reptile.runtime.score_files import ScoreFile


class RunLog(ABC):
    """Where a run stores its checkpoints, metrics and results."""

    @abstractmethod
    def result(self) -> dict[str, Any] | None:
        """The result of a finished run, or None."""

    @abstractmethod
    def save_result(self, value: Mapping[str, Any]) -> None:
        """Save the result, which marks the run as finished."""

    @abstractmethod
    def save_tensors(self, name: str, tensors: Mapping[str, Tensor]) -> str:
        """Save tensors in a file of this name, and return its SHA-256."""

    @abstractmethod
    def save_environment(self, value: Mapping[str, Any]) -> None:
        """Add the environment of this start to those of earlier starts."""

    @abstractmethod
    def amend_environment(self, values: Mapping[str, Any]) -> None:
        """Replace values in the environment of this start that are known only now."""

    @abstractmethod
    def load_checkpoint(self) -> Checkpoint | None:
        """The newest intact checkpoint, or None."""

    @abstractmethod
    def save_checkpoint(self, step: int, tensors: Mapping[str, Tensor], clock: Clock) -> None:
        """Save these tensors as the state after `step` iterations, which have taken this long."""

    @abstractmethod
    def seconds(self, step: int) -> float:
        """The duration of all starts up to the checkpoint of this step."""

    @abstractmethod
    def start_metrics(self, step: int) -> None:
        """Prepare to log what follows `step`."""

    @abstractmethod
    def log(self, kind: str, step: int, values: Mapping[str, Any]) -> None:
        """Log one line of metrics."""

    @abstractmethod
    def metrics(self) -> list[dict[str, Any]]:
        """All lines of metrics."""

    @abstractmethod
    def load_scores(self, name: str, about: Mapping[str, Any]) -> list[Any]:
        """What `add_scores` has stored under this name, if that was for the evaluation that `about` describes."""

    @abstractmethod
    def add_scores(self, name: str, tasks: Sequence[Any]) -> None:
        """Store the scores of further tasks under this name, after `load_scores`."""


@final
class NoRunFolder(RunLog):
    """Stores nothing: for all workers but the lead."""

    def result(self) -> dict[str, Any] | None:
        return None

    def save_result(self, value: Mapping[str, Any]) -> None:
        pass

    def save_tensors(self, name: str, tensors: Mapping[str, Tensor]) -> str:
        return ""

    def save_environment(self, value: Mapping[str, Any]) -> None:
        pass

    def amend_environment(self, values: Mapping[str, Any]) -> None:
        pass

    def load_checkpoint(self) -> Checkpoint | None:
        return None

    def save_checkpoint(self, step: int, tensors: Mapping[str, Tensor], clock: Clock) -> None:
        pass

    def seconds(self, step: int) -> float:
        return 0.0

    def start_metrics(self, step: int) -> None:
        pass

    def log(self, kind: str, step: int, values: Mapping[str, Any]) -> None:
        pass

    def metrics(self) -> list[dict[str, Any]]:
        return []

    def load_scores(self, name: str, about: Mapping[str, Any]) -> list[Any]:
        return []

    def add_scores(self, name: str, tasks: Sequence[Any]) -> None:
        pass


@final
class RunFolder(RunLog):
    """The folder of one run.

    `RunFolder.open` locks it, so that only one process at a time writes to it; reading a finished run needs no lock.
    """

    def __init__(self, path: Path, lock: FolderLock | None = None) -> None:
        self.path = path
        self._lock = lock
        self._metrics = Metrics(path)
        self._checkpoints = Checkpoints(path / "checkpoints", self._metrics)

    @classmethod
    @contextmanager
    def open(
        cls, path: Path, config: Mapping[str, Any], upgrade: Callable[[Any], Any] = lambda saved: saved
    ) -> Iterator["RunFolder"]:
        """Create the folder, or continue in it if it was created for the same config.

        `upgrade` adds settings to a saved config that did not exist when it was saved, and raises ValueError if it
        cannot read it.
        """
        try:
            path.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=path):
                pass
            sync_folder(path.parent)
        except OSError as error:
            raise ConfigError(f"cannot write to the folder {path}: {error.strerror}; choose another one") from error
        with FolderLock.hold(path) as lock:
            run = cls(path, lock)
            try:
                save_or_check_config(path, config, upgrade)
                yield run
            finally:
                run.close()

    def close(self) -> None:
        self._metrics.close()

    def result(self) -> dict[str, Any] | None:
        file = self.path / "result.json"
        return read_result_file(file) if file.exists() else None

    def save_result(self, value: Mapping[str, Any]) -> None:
        self._check_lock()
        # One line for each entry, because most of them are long lists of numbers.
        entries = with_checksum(value).items()
        lines = [f"{json.dumps(name)}: {json.dumps(part, allow_nan=False)}" for name, part in entries]
        write_atomically(self.path / "result.json", ("{\n" + ",\n".join(lines) + "\n}\n").encode())
        shutil.rmtree(self.path / "scores", ignore_errors=True)  # the result contains them

    def save_tensors(self, name: str, tensors: Mapping[str, Tensor]) -> str:
        self._check_lock()
        return hashlib.sha256(write_tensors(self.path / name, tensors)).hexdigest()

    def save_environment(self, value: Mapping[str, Any]) -> None:
        self._check_lock()
        file = self.path / "environment.json"
        starts = read_environments(file) if file.exists() else []
        write_json(file, [*map(asdict, starts), value])

    def amend_environment(self, values: Mapping[str, Any]) -> None:
        self._check_lock()
        file = self.path / "environment.json"
        *earlier, this = map(asdict, read_environments(file))
        write_json(file, [*earlier, {**this, **values}])

    def load_checkpoint(self) -> Checkpoint | None:
        return self._checkpoints.load(self._experiment())

    def save_checkpoint(self, step: int, tensors: Mapping[str, Tensor], clock: Clock) -> None:
        self._check_lock()
        self._checkpoints.save(step, tensors, self._experiment(), clock)

    def seconds(self, step: int) -> float:
        return self._checkpoints.clock(step).total

    def start_metrics(self, step: int) -> None:
        self._check_lock()
        self._checkpoints.delete_after(step)
        written = self._checkpoints.describe(step).metrics if step in self._checkpoints.steps() else None
        self._metrics.start(step, written)

    def log(self, kind: str, step: int, values: Mapping[str, Any]) -> None:
        self._check_lock()
        self._metrics.log(kind, step, values)

    def metrics(self) -> list[dict[str, Any]]:
        return self._metrics.read()

    def load_scores(self, name: str, about: Mapping[str, Any]) -> list[Any]:
        self._check_lock()
        return self._score_file(name).start(about)

    def add_scores(self, name: str, tasks: Sequence[Any]) -> None:
        self._check_lock()
        self._score_file(name).add(tasks)

    def _score_file(self, name: str) -> ScoreFile:
        return ScoreFile(self.path / "scores" / f"{name}.jsonl")

    def damage(self) -> list[str]:
        """What is wrong with the checkpoints and metrics, one line each."""
        return self._checkpoints.damage(self._experiment())

    def _experiment(self) -> str:
        """The digest of the config, which does not change when a later version adds settings."""
        return digest(read_config(self.path / "config.json"))

    def _check_lock(self) -> None:
        if self._lock is not None:
            self._lock.check()
