"""From result files to tables, figures, the verdicts on the paper's claims, and one HTML page."""

import base64
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

from jinja2 import Environment

from eigen_reptile.methods import METHODS
from eigen_reptile.report import figures, tables
from eigen_reptile.report.claims import claims_table
from eigen_reptile.report.collect import Cell, collect, find
from eigen_reptile.runs import RunError, write_atomically


class Section(NamedTuple):
    """One part of the report: some words, and a table or a figure."""

    name: str
    title: str
    text: str
    markdown: str = ""
    figure: Path | None = None

    @property
    def table(self) -> list[list[str]]:
        """The cells of the Markdown table."""
        lines = [line.strip("| ").split(" | ") for line in self.markdown.splitlines()]
        return [[cell.strip("` ") for cell in line] for line in lines if not line[0].startswith("---")]

    @property
    def image(self) -> str:
        return base64.b64encode(self.figure.read_bytes()).decode() if self.figure else ""


def write_report(results: Path, out: Path, insert: Sequence[Path]) -> list[Path]:
    """Write the report on all results below a folder; returns the files written."""
    cells = collect(results)
    sections = _sections(cells, out / "figures")
    page, text, verdicts = out / "report.html", out / "results.md", out / "claims.md"
    template = Environment(autoescape=True).from_string(files(__package__).joinpath("page.html").read_text("utf-8"))
    write_atomically(page, template.render(sections=sections).encode())
    write_atomically(text, _results_markdown(sections, out).encode())
    write_atomically(verdicts, _claims_markdown(sections).encode())
    for file in insert:
        write_atomically(file, _renewed(file, sections).encode())
    drawn = [section.figure for section in sections if section.figure]
    return [page, text, verdicts, *drawn, *insert]


def _sections(cells: list[Cell], drawings: Path) -> list[Section]:
    drawings.mkdir(parents=True, exist_ok=True)
    converged = [cell for cell in cells if cell.converged]
    sections = [
        Section(
            "errors",
            "Error on test tasks",
            "Squared error over the whole curve, mean and 95 % interval over seeds, after so many inner steps on 10 "
            "shots. The outer step size was chosen on validation tasks. The integral is the paper's loss.",
            tables.errors(cells),
        )
    ]
    if converged:
        figures.loss_of_directions(converged, drawings / "directions.png")
        sections.append(
            Section(
                "directions",
                "Error while training",
                "Validation error over the outer iterations (paper, figure 4).",
                figure=drawings / "directions.png",
            )
        )
    pair = [cell for name in ("eigen-reptile", "reptile") if (cell := find(converged, METHODS[name]))]
    if pair and all(len(cell.result["pictures"]) == len(pair[0].result["pictures"]) > 0 for cell in pair):
        figures.fitted_curves(pair, drawings / "curves.png")
        sections.append(
            Section(
                "curves",
                "Fitted curves",
                "One task, seed 0, at several outer iterations (paper, figure 3).",
                figure=drawings / "curves.png",
            )
        )
    if converged and any(len(cell.experiment.meta.lr) > 1 for cell in cells):
        figures.step_sizes(cells, drawings / "step-sizes.png")
        sections.append(
            Section(
                "step-sizes",
                "Outer step sizes",
                "Validation error after training, mean over seeds.",
                tables.step_sizes(cells),
                drawings / "step-sizes.png",
            )
        )
    sections.append(
        Section(
            "claims",
            "The paper's claims",
            "Paired over seeds: all directions saw the same tasks and batches. A claim holds if the 95 % interval of "
            "the difference lies on its side of zero. Faster means a smaller validation error, averaged over training; "
            "convergence means less than half of the validation error that the network had before training.",
            claims_table(cells),
        )
    )
    sections.append(Section("provenance", "Where this comes from", "", tables.provenance(cells)))
    return sections


def _results_markdown(sections: list[Section], out: Path) -> str:
    parts = ["# Results\n\nMade by `eigen-reptile report` from result files; do not edit.\n"]
    for section in sections:
        parts.append(f"## {section.title}\n\n{section.text}\n")
        if section.markdown:
            parts.append(section.markdown)
        if section.figure:
            parts.append(f"![{section.title}]({section.figure.relative_to(out).as_posix()})\n")
    return "\n".join(parts)


def _claims_markdown(sections: list[Section]) -> str:
    claims = next(section for section in sections if section.name == "claims")
    return (
        "# The paper's claims, measured\n\nMade by `eigen-reptile report` from result files; do not edit.\n\n"
        f"{claims.text}\n\n{claims.markdown}"
    )


def _renewed(file: Path, sections: list[Section]) -> str:
    """The file with every part between the report's marks made anew."""
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise RunError(f"cannot read {file}: {error.strerror}") from error
    for section in sections:
        begin, end = f"<!-- report:{section.name} -->\n", "<!-- end -->"
        before, *parts = text.split(begin)
        if any(end not in part for part in parts):
            raise RunError(f"{file}: a part that begins with {begin.strip()} does not end with {end}")
        text = before + "".join(begin + section.markdown + end + part.partition(end)[2] for part in parts)
    return text
