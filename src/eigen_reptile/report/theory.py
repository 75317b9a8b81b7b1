"""What the report says of the studies of the theory."""

from pathlib import Path
from typing import NamedTuple

from eigen_reptile.files import RunError, read_json
from eigen_reptile.report.tables import markdown
from eigen_reptile.theory import FILE, STUDY_FORMAT, Line, Panel, Study


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
        panels = [Panel(**panel | {"lines": [Line(**line) for line in panel["lines"]]}) for panel in value["panels"]]
        here = value["environment"]
        origin = f"`{here['command']}`, version {here['version']} ({here['commit']}), {value['seconds']:g} s"
        return Found(file.parent.name, Study(value["title"], value["about"], panels), origin)
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
