"""What the report says of the studies of the theory."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from eigen_reptile.files import RunError, read_json
from eigen_reptile.report.tables import markdown
from eigen_reptile.report.verdicts import HOLDS, REVERSED, Claim, verdict
from eigen_reptile.theory import FILE, STUDY_FORMAT, Finding, Study


class Found(NamedTuple):
    """A study as its file has it."""

    name: str
    study: Study
    origin: str
    """How it came about."""


def read_studies(folder: Path) -> list[Found]:
    """All studies below the folder."""
    return [_read(file) for file in sorted(folder.glob(f"**/{FILE}"))]


def _read(file: Path) -> Found:
    value = read_json(file)
    try:
        if value["format"] != STUDY_FORMAT:
            raise ValueError(f"its format is not {STUDY_FORMAT}")
        here = value["environment"]
        origin = f"`{here['command']}`, version {here['version']} ({here['commit']}), {value['seconds']:g} s"
        return Found(file.parent.name, Study.from_json(value), origin)
    except (KeyError, TypeError, ValueError) as error:
        raise RunError(f"{file} is not a study of this version: {error}") from error


def study_table(study: Study) -> str:
    """Every point of every line."""
    rows = [
        [panel.title, line.name, f"{panel.x} = {x:g}", f"{y:.4g} ± {half:.2g}"]
        for panel in study.panels
        for line in panel.lines
        for x, y, half in zip(line.x, line.y, line.ci95, strict=True)
    ]
    return markdown(["panel", "line", "at", "found"], rows)


def about_theory(studies: Sequence[Found]) -> list[Claim]:
    """What the studies say of the theorems."""
    return [_judged(finding) for found in studies for finding in found.study.findings]


def _judged(finding: Finding) -> Claim:
    """A claim holds if it does at every point of the line, with its interval."""
    says, difference = finding
    points = list(zip(difference.x, difference.y, difference.ci95, strict=True))
    measured = "; ".join(f"{x:g}: {y:+.3g} ± {half:.2g}" for x, y, half in points)
    at_points = [verdict(-y, half) for _, y, half in points]
    outcome = at_points[0]
    if len(set(at_points)) > 1:
        held, turned = at_points.count(HOLDS), at_points.count(REVERSED)
        outcome = f"not clear: holds at {held} of {len(points)}, the other way round at {turned}"
    return Claim(says, f"{difference.name}: {measured}", outcome)
