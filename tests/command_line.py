"""What the tests of the command line have in common."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch

SMALL = (
    *("--meta.steps", "3", "--compile", "off", "--model.hidden", "4", "4", "--inner.steps", "2"),
    *("--evaluation.tasks", "2", "--evaluation.monitor-tasks", "2", "--evaluation.inner-steps", "0", "2"),
)
"""Settings of a run on sine waves that takes less than a second."""

FEW = (
    *("--data.size", "12", "--model.filters", "8", "--task.shots", "5", "--meta.steps", "6", "--meta.batch", "2"),
    *("--evaluation.shots", "1", "2", "--evaluation.queries", "5", "--evaluation.inner-steps", "3"),
    *("--evaluation.tasks", "6", "--evaluation.monitor-tasks", "2", "--evaluation.every", "3"),
)
"""Settings of a run on the fixture `images` that takes about a second."""

ENOUGH = ("--evaluation.inner-steps", "20")
"""Added to these: inner steps with which its test tasks are learnt."""

ABSENT = "mps" if torch.cuda.is_available() else "cuda"
"""A device that this machine does not have; no machine has both."""


class Printed(NamedTuple):
    """The exit code of a command, and what it printed on standard output and standard error."""

    code: int
    out: str
    err: str

    def problem(self) -> str:
        """The one line that reports the error."""
        (line,) = (line for line in self.err.splitlines() if line.startswith("eigen-reptile: "))
        return line


Cli = Callable[..., Printed]
"""Runs a command."""


def plain(text: str) -> str:
    """Without the marks of fields (`task.way`) and of flags (--task.way)."""
    return text.replace("`", "").replace("--", "").replace("_", "-")


def files(folder: str) -> dict[Path, tuple[int, bytes]]:
    """All files, with their modification time and content."""
    found = (path for path in Path(folder).rglob("*") if path.is_file() and path.name != ".lock")
    return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in found}


def saved(file: str) -> dict[str, Any]:
    """The content of a JSON file."""
    value: dict[str, Any] = json.loads(Path(file).read_text())
    return value


def without_tasks(test: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Test scores as the command line prints them: without those of single tasks."""
    return [{key: value for key, value in part.items() if key != "per_task"} for part in test]
