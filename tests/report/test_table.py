"""Tables in Markdown and on the HTML page."""

import re
from html import unescape
from importlib.resources import files
from pathlib import Path

import pytest
from jinja2 import Environment

from eigen_reptile.report.section import Section
from eigen_reptile.report.table import Table


def html_of(table: Table) -> str:
    template = files("eigen_reptile.report").joinpath("page.html").read_text("utf-8")
    return Environment(autoescape=True).from_string(template).render(sections=[Section("a", "A", "text", table)])


def html_cells(page: str, tag: str) -> list[list[str]]:
    """The contents of the cells in each row of a page's table that has such cells."""
    found = [re.findall(f"<{tag}>(.*?)</{tag}>", row) for row in re.findall("<tr>(.*?)</tr>", page, re.DOTALL)]
    return [row for row in found if row]


def test_a_table_in_markdown() -> None:
    table = Table.of(["a", "b"], [["1", ""], ["", "2"]])
    assert table.to_markdown() == "| a | b |\n| --- | --- |\n| 1 |  |\n|  | 2 |\n"


def test_a_vertical_bar_or_a_line_break_does_not_end_a_cell() -> None:
    text = Table.of(["a|b", "c"], [["`x | y`", "two\nlines"]]).to_markdown()
    lines = text.splitlines()
    assert lines[0] == r"| a\|b | c |"
    assert lines[2] == r"| `x \| y` | two lines |"
    assert all(len(re.split(r"(?<!\\)\|", line)) == 4 for line in lines)


def test_names_are_shown_as_they_are_in_markdown() -> None:
    names = ["<script>alert(1)</script>", "<!-- x -->", "[a](javascript:b)", "\x1b[2J", "a < b", "\udcff", "`<b>`"]
    names += ["*a*", "**a", "_a_ b_c __d", "x `y`", "$5 or $6", "~~a~~", "&lt;b> R&D", "\\*", "a\\b", "mean ± 1 (n_1)"]
    lines = Table.of(["class"], [[name] for name in names]).to_markdown().encode().decode().splitlines()[2:]
    assert lines == [
        r"| \<script>alert(1)\</script> |",
        r"| \<!-- x --> |",
        r"| \[a](javascript:b) |",
        r"| \x1b\[2J |",
        "| a < b |",
        r"| \udcff |",
        "| `<b>` |",
        r"| \*a\* |",
        r"| \*\*a |",
        r"| \_a\_ b_c \_\_d |",
        r"| x \`y\` |",
        r"| \$5 or \$6 |",
        r"| \~\~a\~\~ |",
        r"| \&lt;b> R&D |",
        r"| \\\* |",
        r"| a\b |",
        "| mean ± 1 (n_1) |",
    ]


def test_empty_cells_survive_in_html() -> None:
    rows = [["1", "", ""], ["", "", ""], ["", "2", ""]]
    page = html_of(Table.of(["a", "b", "c"], rows))
    assert html_cells(page, "th") == [["a", "b", "c"]]
    assert html_cells(page, "td") == rows


def test_html_is_escaped_and_code_is_marked() -> None:
    page = html_of(Table.of(["<b>"], [["a < b & c"], ["`x | <y>`"]]))
    assert html_cells(page, "th") == [["&lt;b&gt;"]]
    (plain,), (code,) = html_cells(page, "td")
    assert unescape(plain) == "a < b & c"
    assert "<b>" not in page
    assert code == "<code>x | &lt;y&gt;</code>"


def test_every_row_needs_a_cell_for_each_heading() -> None:
    with pytest.raises(ValueError, match="1 cells for 2 headings"):
        Table.of(["a", "b"], [["1"]])


def test_the_page_has_as_many_cells_as_headings(sine_report: Path) -> None:
    """Also in the row of a direction that always diverges, whose last cells are empty."""
    page = (sine_report / "report.html").read_text()
    for table in re.findall("<table>(.*?)</table>", page, re.DOTALL):
        (headings,) = html_cells(table, "th")
        assert {len(row) for row in html_cells(table, "td")} == {len(headings)}
    (diverged,) = (row for row in html_cells(page, "td") if "all diverge" in row)
    assert diverged[-1] == ""
