"""The page on speed and memory, from benchmark files."""

from collections.abc import Mapping
from pathlib import Path

from eigen_reptile.errors import RunError
from eigen_reptile.report import figures
from eigen_reptile.report.benchmark import BenchmarkTable, check_showable, read_benchmark
from eigen_reptile.report.siege import SIEGES
from eigen_reptile.report.table import Table
from eigen_reptile.runtime.files import write_atomically

ORDER = (
    "sine",
    "conv4",
    "scaling",
    "evaluation",
    "ispl",
    "methods",
    "maml",
    "direction",
    "workers",
    "memory",
    "audit",
)
"""The order of the benchmarks on the page; others follow by name."""


def write_performance(benchmarks: Path, out: Path) -> list[Path]:
    """Write `performance.md` about the benchmark files in a folder; returns the files written."""
    files = sorted((file for file in benchmarks.glob("*.json") if not file.match(SIEGES)), key=_page_order)
    if not files:
        raise RunError(f"{benchmarks} has no benchmark files: make one with python -m benchmarks NAME --out FILE")
    tables = {file.stem: read_benchmark(file) for file in files}
    for file in files:
        check_showable(file, tables[file.stem])
    drawings = _draw_figures(tables, out / "figures")
    page = out / "performance.md"
    parts = ["# Speed and memory\n\nWritten by `eigen-reptile report` from benchmark files; do not edit.\n"]
    parts += [_section(table, drawings.get(name)) for name, table in tables.items()]
    write_atomically(page, "\n".join(parts).encode())
    return [page, *drawings.values()]


def _page_order(file: Path) -> tuple[int, str]:
    return (ORDER.index(file.stem) if file.stem in ORDER else len(ORDER)), file.stem


def _draw_figures(tables: Mapping[str, BenchmarkTable], folder: Path) -> dict[str, Path]:
    """Figures of the benchmarks that measure throughput or scaling, by name."""
    folder.mkdir(parents=True, exist_ok=True)
    drawings = {}
    for name, table in tables.items():
        path = folder / f"bench-{name}.png"
        if "per second" in table.columns:
            figures.plot_throughput(table, path)
            drawings[name] = path
        elif "number" in table.columns:
            figures.plot_scaling(table, path)
            drawings[name] = path
    return drawings


def _section(measured: BenchmarkTable, drawing: Path | None) -> str:
    environment = measured.environment
    rows = [[cell if isinstance(cell, str) else f"{cell:.4g}" for cell in row] for row in measured.rows]
    provenance = (
        f"`{environment['command']}`, {measured.repeats} repeats, {environment['threads']} threads "
        f"({environment['machine']}), torch {environment['torch']}, "
        f"version {environment['version']} ({environment['commit']})."
    )
    image = [f"![{measured.title}](figures/{drawing.name})\n"] if drawing else []
    table = Table.of(measured.columns, rows).to_markdown()
    return "\n".join([f"## {measured.title}\n\n{measured.about}\n", table, f"{provenance}\n", *image])
