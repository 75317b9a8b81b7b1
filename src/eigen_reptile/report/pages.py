"""The report as files: one HTML page, Markdown, and parts of other files."""

from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

from jinja2 import Environment

from eigen_reptile.files import RunError, write_atomically
from eigen_reptile.report.collect import collect
from eigen_reptile.report.methods import costs, methods_table
from eigen_reptile.report.sections import Section, make_sections
from eigen_reptile.report.theory import read_studies


def write_report(results: Path, out: Path, insert: Sequence[Path], benchmarks: Path | None = None) -> list[Path]:
    """Write the report on all results below a folder; returns the files written.

    The benchmarks say what each method costs.
    """
    studies = read_studies(results)
    groups = collect(results, needed=not studies)
    sections = make_sections(groups, studies, out / "figures")
    table = methods_table(groups, costs(benchmarks) if benchmarks else {})
    inserted = [*sections, Section("methods", "Every method", "", table)]
    page, text, verdicts = out / "report.html", out / "results.md", out / "claims.md"
    template = Environment(autoescape=True).from_string(files(__package__).joinpath("page.html").read_text("utf-8"))
    write_atomically(page, template.render(sections=sections).encode())
    write_atomically(text, _results_markdown(sections, out).encode())
    write_atomically(verdicts, _claims_markdown(sections).encode())
    for file in insert:
        write_atomically(file, _renewed(file, inserted).encode())
    drawn = [section.figure for section in sections if section.figure]
    return [page, text, verdicts, *drawn, *insert]


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
