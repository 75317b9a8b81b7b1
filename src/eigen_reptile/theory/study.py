"""What a study of the theory finds: curves with intervals, to be drawn and tabulated."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from torch import Tensor

from eigen_reptile.evaluate import interval95


class Line(NamedTuple):
    name: str
    x: list[float]
    y: list[float]
    ci95: list[float]
    """Half of each interval."""


class Panel(NamedTuple):
    """One picture of a study."""

    title: str
    x: str
    y: str
    lines: list[Line]
    logarithmic: bool = False
    """Whether x is shown so."""


class Finding(NamedTuple):
    """Something that the paper says, as a difference that is below zero wherever that is so."""

    says: str
    difference: Line


class Study(NamedTuple):
    title: str
    about: str
    panels: list[Panel]
    findings: list[Finding]

    def to_json(self) -> dict[str, Any]:
        panels = [panel._asdict() | {"lines": [line._asdict() for line in panel.lines]} for panel in self.panels]
        findings = [{"says": says, "difference": difference._asdict()} for says, difference in self.findings]
        return {"title": self.title, "about": self.about, "panels": panels, "findings": findings}

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> "Study":
        """KeyError or TypeError if something is missing."""
        panels = [Panel(**panel | {"lines": [Line(**line) for line in panel["lines"]]}) for panel in value["panels"]]
        findings = [Finding(one["says"], Line(**one["difference"])) for one in value["findings"]]
        return Study(value["title"], value["about"], panels, findings)


def degrees(first: Float[Tensor, "d"], second: Float[Tensor, "d"]) -> float:
    """The angle between two directions."""
    cosine = float(first @ second / (first.norm() * second.norm()))
    return math.degrees(math.acos(min(1.0, max(-1.0, cosine))))


def line(name: str, x: Sequence[float], values: Sequence[np.ndarray]) -> Line:
    """The means of the values at each x, with their 95 % intervals."""
    means, halves = zip(*(interval95(found) for found in values), strict=True)
    return Line(name, *([float(f"{number:.6g}") for number in numbers] for numbers in (x, means, halves)))
