"""What a result depends on besides the experiment."""

import platform
import re
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch


def environment(device: torch.device) -> dict[str, Any]:
    """The command, the versions and the machine of a result that is made now on this device."""
    return {
        "command": command(sys.argv),
        "version": version("eigen-reptile"),
        "commit": _commit(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "machine": platform.machine(),
        "device": str(device),
        "threads": torch.get_num_threads(),
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def command(words: Sequence[str]) -> str:
    """The command line, without the folders above a full path: they are one machine's own, and results are shared."""
    typed = " ".join(re.sub(r"(^|=)/.*/(?=.)", r"\1", word) for word in words)
    return re.sub(r"^__main__\.py\b", "python -m eigen_reptile", typed)


def _commit() -> str | None:
    """The commit of the source tree that this file belongs to, marked if the tree was changed since; else None."""
    tracked = _git("ls-files", "--error-unmatch", Path(__file__).name)
    return _git("describe", "--always", "--dirty", "--abbrev=12", "--exclude=*") if tracked else None


def _git(*words: str) -> str | None:
    """What git says in this file's folder; None if it has nothing to say or is not there."""
    command = ["git", "-C", str(Path(__file__).parent), *words]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return answer.stdout.strip() or None
