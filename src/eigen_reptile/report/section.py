"""One part of the report."""

import base64
from pathlib import Path
from typing import NamedTuple

from eigen_reptile.report.table import Table


class Section(NamedTuple):
    """One part of the report: text, and a table or a figure."""

    name: str
    """Its name in the markers of other files."""
    title: str
    text: str
    table: Table | None = None
    figure: Path | None = None

    @property
    def table_markdown(self) -> str:
        return self.table.to_markdown() if self.table else ""

    @property
    def figure_base64(self) -> str:
        return base64.b64encode(self.figure.read_bytes()).decode() if self.figure else ""
