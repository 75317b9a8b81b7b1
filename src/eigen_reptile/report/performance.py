"""From the benchmarks' figures to a page with tables and plots."""

from collections.abc import Mapping
from pathlib import Path

from eigen_reptile.bench import BENCHMARKS, Figures
from eigen_reptile.files import RunError, read_json, write_atomically
from eigen_reptile.report import figures
from eigen_reptile.report.tables import markdown


def write_performance(benchmarks: Path, out: Path) -> list[Path]:
    """Write `performance.md` about the benchmarks' files in a folder; returns the files written."""
    found = {name: read_benchmark(file) for name in BENCHMARKS if (file := benchmarks / f"{name}.json").exists()}
    if not found:
        raise RunError(f"{benchmarks} has no file of a benchmark: make one with eigen-reptile bench NAME --out FILE")
    drawings = {name: out / "figures" / f"bench-{name}.png" for name in found if _drawn(found[name])}
    (out / "figures").mkdir(parents=True, exist_ok=True)
    for name, path in drawings.items():
        draw = figures.scaling if name == "scaling" else figures.speeds
        draw(found[name], path)
    page = out / "performance.md"
    parts = ["# Speed and memory\n\nMade by `eigen-reptile report` from the benchmarks' files; do not edit.\n"]
    parts += [_part(name, measured, drawings) for name, measured in found.items()]
    write_atomically(page, "\n".join(parts).encode())
    return [page, *drawings.values()]


def _part(name: str, measured: Figures, drawings: Mapping[str, Path]) -> str:
    here = measured.environment
    rows = [[cell if isinstance(cell, str) else f"{cell:.4g}" for cell in row] for row in measured.rows]
    origin = (
        f"`{here['command']}`, {measured.repeats} repeats, {here['threads']} threads ({here['machine']}), "
        f"torch {here['torch']}, version {here['version']} ({here['commit']})."
    )
    picture = [f"![{measured.title}](figures/{drawings[name].name})\n"] if name in drawings else []
    table = markdown(measured.columns, rows)
    return "\n".join([f"## {measured.title}\n\n{measured.about}\n", table, f"{origin}\n", *picture])


def _drawn(measured: Figures) -> bool:
    """Whether there is a speed to be drawn."""
    return "per second" in measured.columns or "number" in measured.columns


def read_benchmark(file: Path) -> Figures:
    """A benchmark's file; RunError if it is not one."""
    value = read_json(file)
    if not isinstance(value, dict) or set(value) != set(Figures._fields):
        raise RunError(f"{file} is not a benchmark's file of this version: make it anew")
    return Figures(**value)
