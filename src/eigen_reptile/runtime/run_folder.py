"""The run folder.

config.json          the experiment, with all settings
environment.json     versions, commit, machine and command of each start
metrics.jsonl        one line per logged step
events.out.*         the same numbers for TensorBoard
checkpoints/         step-000001000.safetensors and .json, the newest two
example.safetensors  one test task of images with predictions, for the report
result.json          the result; only a finished run has it
"""

import json
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, final

from filelock import FileLock, Timeout
from torch import Tensor

from eigen_reptile.errors import ConfigError
from eigen_reptile.runtime.checkpoints import Checkpoint, Checkpoints
from eigen_reptile.runtime.files import differences, read_json, write_atomically, write_json, write_tensors
from eigen_reptile.runtime.metrics import Metrics


class RunLog(ABC):
    """Where a run stores its checkpoints, metrics and results."""

    @abstractmethod
    def result(self) -> dict[str, Any] | None:
        """The result of a finished run, or None."""

    @abstractmethod
    def save_result(self, value: Mapping[str, Any]) -> None:
        """Save the result, which marks the run as finished."""

    @abstractmethod
    def save_tensors(self, name: str, tensors: Mapping[str, Tensor]) -> None:
        """Save tensors in a file of this name."""

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
    def save_checkpoint(self, step: int, tensors: Mapping[str, Tensor]) -> None:
        """Save these tensors as the state after `step` iterations."""

    @abstractmethod
    def start_metrics(self, step: int) -> None:
        """Prepare to log what follows `step`."""

    @abstractmethod
    def log(self, kind: str, step: int, values: Mapping[str, Any]) -> None:
        """Log one line of metrics."""

    @abstractmethod
    def metrics(self) -> list[dict[str, Any]]:
        """All lines of metrics."""


@final
class NoRunFolder(RunLog):
    """Stores nothing: for all workers but the lead."""

    def result(self) -> dict[str, Any] | None:
        return None

    def save_result(self, value: Mapping[str, Any]) -> None:
        pass

    def save_tensors(self, name: str, tensors: Mapping[str, Tensor]) -> None:
        pass

    def save_environment(self, value: Mapping[str, Any]) -> None:
        pass

    def amend_environment(self, values: Mapping[str, Any]) -> None:
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
class RunFolder(RunLog):
    """The folder of one run.

    `RunFolder.open` locks it, so that only one process at a time writes to it; reading a finished run needs no lock.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._checkpoints = Checkpoints(path / "checkpoints")
        self._metrics = Metrics(path)

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
        except OSError as error:
            raise ConfigError(f"cannot write to the folder {path}: {error.strerror}; choose another one") from error
        lock = FileLock(path / ".lock")
        try:
            lock.acquire(timeout=0)
        except Timeout:
            raise ConfigError(f"another process is using {path}: wait for it, or choose another folder") from None
        run = cls(path)
        try:
            _save_or_check_config(path, config, upgrade)
            yield run
        finally:
            run.close()
            lock.release()

    def close(self) -> None:
        self._metrics.close()

    def result(self) -> dict[str, Any] | None:
        file = self.path / "result.json"
        if not file.exists():
            return None
        value: dict[str, Any] = read_json(file)
        return value

    def save_result(self, value: Mapping[str, Any]) -> None:
        # One line for each entry, because most of them are long lists of numbers.
        lines = [f"{json.dumps(name)}: {json.dumps(part, allow_nan=False)}" for name, part in value.items()]
        write_atomically(self.path / "result.json", ("{\n" + ",\n".join(lines) + "\n}\n").encode())

    def save_tensors(self, name: str, tensors: Mapping[str, Tensor]) -> None:
        write_tensors(self.path / name, tensors)

    def save_environment(self, value: Mapping[str, Any]) -> None:
        file = self.path / "environment.json"
        starts = read_json(file) if file.exists() else []
        write_json(file, [*starts, value])

    def amend_environment(self, values: Mapping[str, Any]) -> None:
        file = self.path / "environment.json"
        *earlier, this = read_json(file)
        write_json(file, [*earlier, {**this, **values}])

    def load_checkpoint(self) -> Checkpoint | None:
        return self._checkpoints.load()

    def save_checkpoint(self, step: int, tensors: Mapping[str, Tensor]) -> None:
        self._metrics.flush()
        self._checkpoints.save(step, tensors)

    def start_metrics(self, step: int) -> None:
        self._metrics.start(step)

    def log(self, kind: str, step: int, values: Mapping[str, Any]) -> None:
        self._metrics.log(kind, step, values)

    def metrics(self) -> list[dict[str, Any]]:
        return self._metrics.read()


def _save_or_check_config(path: Path, config: Mapping[str, Any], upgrade: Callable[[Any], Any]) -> None:
    """Save the config in an empty folder; in the folder of a run, check that it is the same."""
    file = path / "config.json"
    if not file.exists():
        if any(not entry.name.startswith(".") for entry in path.iterdir()):
            raise ConfigError(f"{path} is not empty and not the folder of a run: choose another folder")
        write_json(file, config)
    elif different := _differences(path, config, read_json(file), upgrade):
        raise ConfigError(f"{path} belongs to another experiment: {'; '.join(different)}. Choose another folder.")
    (path / "checkpoints").mkdir(exist_ok=True)


def _differences(path: Path, config: Mapping[str, Any], saved: Any, upgrade: Callable[[Any], Any]) -> list[str]:
    """The settings in which the saved config differs, one line each."""
    if saved == config:
        return []
    try:
        return differences(upgrade(saved), config, ("its config.json", "this experiment"))
    except ValueError as error:
        raise ConfigError(f"the experiment in {path} cannot be read: {error}. Choose another folder.") from error
