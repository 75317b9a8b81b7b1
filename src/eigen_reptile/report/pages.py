"""The report as files: one HTML page, Markdown, and marked parts of other files."""

from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from urllib.parse import quote

from jinja2 import Environment

from eigen_reptile.errors import RunError
from eigen_reptile.report.collect import collect_results
from eigen_reptile.report.methods import methods_table, read_costs
from eigen_reptile.report.section import Section
from eigen_reptile.report.sections import make_sections
from eigen_reptile.report.siege import SIEGES, read_siege, siege_table
from eigen_reptile.report.table import markdown_text
from eigen_reptile.report.theory import read_studies
from eigen_reptile.runtime.files import write_atomically


def write_report(results: Path, out: Path, insert: Sequence[Path], benchmarks: Path | None = None) -> list[Path]:
    """Write the report on all results below a folder; returns the files written.

    The tables are also written into the files in `insert`, between `<!-- report:NAME -->` and `<!-- end -->`. The
    benchmarks provide the cost of each method.
    """
    studies = read_studies(results)
    groups = collect_results(results, required=not studies)
    sections = make_sections(groups, studies, out / "figures")
    table = methods_table(groups, read_costs(benchmarks) if benchmarks else {})
    insertable = [*sections, Section("methods", "All methods", "", table)]
    if benchmarks and (sieges := [*map(read_siege, sorted(benchmarks.glob(SIEGES)))]):
        insertable.append(Section("siege", "Siege", "", siege_table(sieges)))
    title = f"Results of {groups[0].title}" if len(groups) == 1 and not studies else "Results"
    page, text = out / "report.html", out / "results.md"
    template = Environment(autoescape=True).from_string(files(__package__).joinpath("page.html").read_text("utf-8"))
    write_atomically(page, template.render(title=title, sections=sections).encode(errors="backslashreplace"))
    write_atomically(text, _results_markdown(title, sections, out).encode(errors="backslashreplace"))
    written = [page, text]
    for claims in (section for section in sections if section.name == "claims"):
        written.append(out / "claims.md")
        write_atomically(written[-1], _claims_markdown(claims).encode(errors="backslashreplace"))
    for file in insert:
        write_atomically(file, _with_tables(file, insertable).encode(errors="backslashreplace"))
    drawings = [section.figure for section in sections if section.figure]
    return [*written, *drawings, *insert]


def _results_markdown(title: str, sections: Sequence[Section], out: Path) -> str:
    parts = [f"# {markdown_text(title)}\n\nWritten by `eigen-reptile report` from result files; do not edit.\n"]
    for section in sections:
        parts.append(f"## {markdown_text(section.title)}\n\n{section.text}\n")
        if section.table:
            parts.append(section.table_markdown)
        if section.figure:
            parts.append(f"![{markdown_text(section.title)}]({quote(section.figure.relative_to(out).as_posix())})\n")
    return "\n".join(parts)


def _claims_markdown(claims: Section) -> str:
    return (
        "# The paper's claims, measured\n\nWritten by `eigen-reptile report` from result files; do not edit.\n\n"
        f"{claims.text}\n\n{claims.table_markdown}"
    )


def _with_tables(file: Path, sections: Sequence[Section]) -> str:
    """The text of a file with the tables of the sections between their markers."""
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise RunError(f"cannot read {file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise RunError(f"{file} is not a text in UTF-8: {error.reason}") from error
    for section in sections:
        begin, end = f"<!-- report:{section.name} -->\n", "<!-- end -->"
        before, *parts = text.split(begin)
        if any(end not in part for part in parts):
            raise RunError(f"{file}: a part that begins with {begin.strip()} does not end with {end}")
        text = before + "".join(begin + section.table_markdown + end + part.partition(end)[2] for part in parts)
    return text
