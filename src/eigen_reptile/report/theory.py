"""The report on studies: of the theory, and of practice."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from eigen_reptile.errors import RunError
from eigen_reptile.recipes.study import FILE, STUDY_FORMAT, Finding, Study
from eigen_reptile.report.table import Table
from eigen_reptile.report.verdicts import HOLDS, REVERSED, Claim, verdict_on_difference
from eigen_reptile.runtime.environment import Environment
from eigen_reptile.runtime.files import read_json
from eigen_reptile.runtime.strict_json import strict_converter, structured


class StudyResult(NamedTuple):
    """A study as read from its file."""

    name: str
    study: Study
    provenance: str
    """Command, version and duration."""

    @property
    def key(self) -> str:
        """The name of its section and figure. Only studies of the theory test claims of the paper."""
        return f"{'theory' if self.study.findings else 'practice'}-{self.name}"


class Origin(NamedTuple):
    """How a study was made."""

    seconds: float
    environment: Environment


def read_studies(folder: Path) -> list[StudyResult]:
    """All studies below a folder; RunError if one cannot be read."""
    return [_read_study(file) for file in sorted(folder.glob(f"**/{FILE}"))]


def _read_study(file: Path) -> StudyResult:
    value = read_json(file)
    try:
        if not isinstance(value, dict) or value.get("format") != STUDY_FORMAT:
            raise ValueError(f"its format is not {STUDY_FORMAT}")
        origin: Origin = structured(_CONVERTER, {name: value.get(name) for name in Origin._fields}, Origin)
        study = Study.from_json(value)
    except ValueError as error:
        raise RunError(f"{file} is not a study of this version: {error}") from error
    environment = origin.environment
    version = f"version {environment.version} ({environment.commit})"
    return StudyResult(file.parent.name, study, f"`{environment.command}`, {version}, {origin.seconds:g} s")


def study_table(study: Study) -> Table:
    """A table with every point of every line."""
    rows = [
        [panel.title, line.name, f"{panel.x} = {x:g}", f"{y:.4g} ± {half:.2g}"]
        for panel in study.panels
        for line in panel.lines
        for x, y, half in zip(line.x, line.y, line.ci95, strict=True)
    ]
    return Table.of(["panel", "line", "at", "value"], rows)


def table_by_x(study: Study) -> Table:
    """One row for each line, one column for each position on the x axis, which all panels share."""
    positions = sorted({x for panel in study.panels for line in panel.lines for x in line.x})
    rows = []
    for panel in study.panels:
        for line in panel.lines:
            points = {x: f"{y:.3g} ± {half:.2g}" for x, y, half in zip(line.x, line.y, line.ci95, strict=True)}
            rows.append([panel.title, line.name, *(points.get(x, "") for x in positions)])
    return Table.of(["", "", *(f"{study.panels[0].x} {x:g}" for x in positions)], rows)


def theory_claims(studies: Sequence[StudyResult]) -> list[Claim]:
    """The claims of the theorems, with the findings of the studies."""
    return [_claim_of_finding(finding) for result in studies for finding in result.study.findings]


def _claim_of_finding(finding: Finding) -> Claim:
    """A claim holds if its difference is below zero at every point of the line, with its interval."""
    statement, difference = finding
    points = list(zip(difference.x, difference.y, difference.ci95, strict=True))
    measured = "; ".join(f"{x:g}: {y:+.3g} ± {half:.2g}" for x, y, half in points)
    at_points = [verdict_on_difference(-y, half) for _, y, half in points]
    verdict = at_points[0]
    if len(set(at_points)) > 1:
        held, reversed_ = at_points.count(HOLDS), at_points.count(REVERSED)
        verdict = f"inconclusive: holds at {held} of {len(points)} points, reversed at {reversed_}"
    return Claim(statement, f"{difference.name}: {measured}", verdict)


_CONVERTER = strict_converter()
