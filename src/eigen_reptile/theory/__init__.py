"""The theory of the paper's appendices as experiments, one file each."""

import time
from collections.abc import Callable
from pathlib import Path

import torch

from eigen_reptile.environment import environment
from eigen_reptile.files import read_json, write_json
from eigen_reptile.progress import Announce
from eigen_reptile.theory.discarding import discarding
from eigen_reptile.theory.gradient_noise import gradient_noise
from eigen_reptile.theory.spectrum import spectrum
from eigen_reptile.theory.study import Finding, Panel, Study

STUDIES: dict[str, Callable[[Announce], Study]] = {
    "gradient-noise": gradient_noise,
    "discarding": discarding,
    "spectrum": spectrum,
}
STUDY_FORMAT = 2
FILE = "study.json"


def made(name: str, folder: Path, announce: Announce) -> Path:
    """The file of a study, which is made if it is not there, or is that of another version."""
    file = folder / FILE
    if not file.exists() or read_json(file).get("format") != STUDY_FORMAT:
        started = time.monotonic()
        found = STUDIES[name](announce)
        folder.mkdir(parents=True, exist_ok=True)
        took = {"seconds": round(time.monotonic() - started, 1), "environment": environment(torch.device("cpu"))}
        write_json(file, {"format": STUDY_FORMAT, **found.to_json(), **took})
    return file


__all__ = ["FILE", "STUDIES", "STUDY_FORMAT", "Finding", "Panel", "Study", "made"]
