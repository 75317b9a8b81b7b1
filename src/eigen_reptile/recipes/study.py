"""Studies: measurements whose outcome is curves with 95 % intervals, to be drawn and tabulated."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from eigen_reptile.errors import ConfigError
from eigen_reptile.runtime.environment import current_environment
from eigen_reptile.runtime.files import read_json, write_json
from eigen_reptile.runtime.progress import StartProgress
from eigen_reptile.runtime.strict_json import strict_converter, structured
from eigen_reptile.training.evaluate import interval95

STUDY_FORMAT = 2
FILE = "study.json"


class Line(NamedTuple):
    """One curve."""

    name: str
    x: list[float]
    y: list[float]
    ci95: list[float]
    """Half-widths of the 95 % intervals."""


class Panel(NamedTuple):
    """One plot of a study."""

    title: str
    x: str
    """Label of the x axis."""
    y: str
    """Label of the y axis."""
    lines: list[Line]
    logarithmic: bool = False
    """Whether the x axis is logarithmic."""


class Finding(NamedTuple):
    """A claim of the paper, and a difference that is negative wherever the claim holds."""

    says: str
    difference: Line


class Study(NamedTuple):
    """The outcome of a study."""

    title: str
    about: str
    """How it was measured, and what is known about it."""
    panels: list[Panel]
    findings: list[Finding]

    def to_json(self) -> dict[str, Any]:
        return cast(dict[str, Any], _CONVERTER.unstructure(self))

    @staticmethod
    def from_json(value: Any) -> "Study":
        """The study in this JSON object, which may have other entries too; ConfigError if it is not a study."""
        try:
            known = {name: part for name, part in value.items() if name in Study._fields}
            study: Study = structured(_CONVERTER, known, Study)
        except (AttributeError, ValueError) as error:
            raise ConfigError(f"not a valid study: {error}") from error
        lines = [line for panel in study.panels for line in panel.lines]
        for line in (*lines, *(finding.difference for finding in study.findings)):
            if not 0 < len(line.x) == len(line.y) == len(line.ci95):
                raise ConfigError("not a valid study: a line must have one or more points, each with its interval")
        if not all(panel.lines for panel in study.panels):
            raise ConfigError("not a valid study: a panel must have lines")
        return study


def angle_in_degrees(first: Float[Tensor, "d"], second: Float[Tensor, "d"]) -> float:
    """The angle between two directions."""
    cosine = float(first @ second / (first.norm() * second.norm()))
    return math.degrees(math.acos(min(1.0, max(-1.0, cosine))))


def mean_line(name: str, x: Sequence[float], values: Sequence[np.ndarray]) -> Line:
    """The mean of the values at each x, with 95 % intervals."""
    means, halves = zip(*(interval95(samples) for samples in values), strict=True)
    return Line(name, *([float(f"{number:.6g}") for number in numbers] for numbers in (x, means, halves)))


def run_study(measure: Callable[[StartProgress], Study], folder: Path, start_progress: StartProgress) -> Path:
    """Make a study, unless its folder has the file of one in the present format; returns the file."""
    file = folder / FILE
    if not file.exists() or not _is_present(read_json(file)):
        started = time.monotonic()
        study = measure(start_progress)
        folder.mkdir(parents=True, exist_ok=True)
        environment = asdict(current_environment(torch.device("cpu")))
        origin = {"seconds": round(time.monotonic() - started, 1), "environment": environment}
        write_json(file, {"format": STUDY_FORMAT, **study.to_json(), **origin})
    return file


def _is_present(value: Any) -> bool:
    """Whether this is a study in the present format."""
    return isinstance(value, dict) and value.get("format") == STUDY_FORMAT


_CONVERTER = strict_converter()
