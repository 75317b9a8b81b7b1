"""The table of all labels as a CSV file, which a spreadsheet shows and never executes."""

import csv
import io
from collections.abc import Sequence
from pathlib import Path

from eigen_reptile.practice.audit.audit import Audit
from eigen_reptile.runtime.files import write_atomically
from eigen_reptile.runtime.text import name_cell, path_cell

COLUMNS = ("path", "given", "suggested", "trust", "nearest evidence")


def write_labels(file: Path, audit: Audit, paths: Sequence[str]) -> None:
    """Write one row for each label, the least trusted first. Paths are those of the samples, relative to the folder.

    A path that looks like a formula gets a ./ in front, and a class a quotation mark. Bytes that are not UTF-8 are
    escaped.
    """
    text = io.StringIO(newline="")
    table = csv.writer(text, quoting=csv.QUOTE_NONNUMERIC)
    table.writerow(COLUMNS)
    for row in audit.rows():
        evidence = "" if row.evidence is None else path_cell(paths[row.evidence])
        trust: float | str = "" if row.trust is None else round(row.trust, 4)
        table.writerow((path_cell(paths[row.sample]), name_cell(row.given), name_cell(row.suggested), trust, evidence))
    write_atomically(file, text.getvalue().encode("utf-8", errors="backslashreplace"))
