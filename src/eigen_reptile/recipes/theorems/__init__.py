"""Experiments that test the theory in the paper's appendices, one file each."""

import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from eigen_reptile.recipes.theorems.discarding import discarding
from eigen_reptile.recipes.theorems.gradient_noise import gradient_noise
from eigen_reptile.recipes.theorems.spectrum import spectrum
from eigen_reptile.recipes.theorems.study import Finding, Panel, Study
from eigen_reptile.runtime.environment import current_environment
from eigen_reptile.runtime.files import read_json, write_json
from eigen_reptile.runtime.progress import StartProgress

STUDIES: dict[str, Callable[[StartProgress], Study]] = {
    "gradient-noise": gradient_noise,
    "discarding": discarding,
    "spectrum": spectrum,
}
STUDY_FORMAT = 2
FILE = "study.json"


def run_study(name: str, folder: Path, start_progress: StartProgress) -> Path:
    """Run a study, unless its folder has the file of one in the present format; returns the file."""
    file = folder / FILE
    if not file.exists() or not _is_present(read_json(file)):
        started = time.monotonic()
        study = STUDIES[name](start_progress)
        folder.mkdir(parents=True, exist_ok=True)
        environment = asdict(current_environment(torch.device("cpu")))
        origin = {"seconds": round(time.monotonic() - started, 1), "environment": environment}
        write_json(file, {"format": STUDY_FORMAT, **study.to_json(), **origin})
    return file


def _is_present(value: Any) -> bool:
    """Whether this is a study in the present format."""
    return isinstance(value, dict) and value.get("format") == STUDY_FORMAT


__all__ = ["FILE", "STUDIES", "STUDY_FORMAT", "Finding", "Panel", "Study", "run_study"]
