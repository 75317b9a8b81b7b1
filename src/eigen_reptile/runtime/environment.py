"""The environment in which a result was computed."""

import platform
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import cast, final

import numpy as np
import torch

from eigen_reptile.errors import RunError
from eigen_reptile.runtime.files import read_json
from eigen_reptile.runtime.strict_json import LONGEST_TEXT, strict_converter, structured


@final
@dataclass(frozen=True)
class Environment:
    """What a result may depend on besides the experiment. Files of early versions lack the last fields."""

    command: str
    """The command line, with absolute paths reduced to their last part."""
    version: str
    commit: str | None
    """The commit of the source tree, marked if it had uncommitted changes; None if there is no source tree."""
    python: str
    torch: str
    numpy: str
    machine: str
    threads: int
    time: str
    device: str = "cpu"
    workers: int = 1
    compiled: bool | None = None
    """Whether training was compiled, and did not have to go on without; None if it was not to be, or nothing was
    trained."""


def current_environment(device: torch.device, workers: int = 1) -> Environment:
    """The environment of a result that is computed now, on this device."""
    return Environment(
        command=recorded_command(sys.argv),
        version=version("eigen-reptile"),
        commit=_source_commit(),
        python=platform.python_version(),
        torch=torch.__version__,
        numpy=np.__version__,
        machine=platform.machine(),
        threads=torch.get_num_threads(),
        time=datetime.now(UTC).isoformat(timespec="seconds"),
        device=str(device),
        workers=workers,
    )


def read_environments(file: Path) -> list[Environment]:
    """The environments of all starts of a run; RunError if the file does not hold any."""
    try:
        found = cast(list[Environment], structured(_CONVERTER, read_json(file), list[Environment]))
        if not found:
            raise ValueError("it is empty")
        return found
    except ValueError as error:
        raise RunError(f"{file} is damaged: {error}. Delete it and repeat the command") from error


def recorded_command(words: Sequence[str]) -> str:
    """The command line, with absolute paths reduced to their last part, because results are shared between machines."""
    typed = " ".join(re.sub(r"(^|=)/.*/(?=.)", r"\1", word) for word in words)
    return re.sub(r"^__main__\.py\b", f"python -m {Path(words[0]).parent.name}", typed)[:LONGEST_TEXT]


def _source_commit() -> str | None:
    """The commit of the source tree that contains this file, marked if it has uncommitted changes; None without one."""
    tracked = _run_git("ls-files", "--error-unmatch", Path(__file__).name)
    return _run_git("describe", "--always", "--dirty", "--abbrev=12", "--exclude=*") if tracked else None


def _run_git(*words: str) -> str | None:
    """The output of git in the folder of this file; None if it is empty or git is not installed."""
    # Without locks, one of which would be left behind if git were interrupted together with this process.
    command = ["git", "--no-optional-locks", "-C", str(Path(__file__).parent), *words]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return answer.stdout.strip() or None


_CONVERTER = strict_converter()
