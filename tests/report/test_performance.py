"""The page on speed has the numbers of the benchmark files."""

from pathlib import Path

import pytest

from eigen_reptile.errors import RunError
from eigen_reptile.report.benchmark import BenchmarkTable
from eigen_reptile.report.performance import ORDER, write_performance
from eigen_reptile.report.siege import SIEGES
from eigen_reptile.runtime.files import write_json

HERE: dict[str, str | float | None] = {
    "command": "bench it",
    "threads": 2,
    "machine": "m",
    "torch": "2",
    "version": "1",
    "commit": "abc",
}
SPEEDS = BenchmarkTable(
    "Sine wave",
    "What it is about.",
    ("", "contender", "per second", "slowest", "fastest", "times plain PyTorch"),
    [["5 tasks", "plain PyTorch", 10.0, 9.0, 12.0, 1.0], ["5 tasks", "reptile", 150.5, 140.0, 160.0, 15.25]],
    7,
    HERE,
)
COSTS = BenchmarkTable(
    "Scaling",
    "Costs.",
    ("", "number", "Reptile, ms", "Eigen-Reptile, ms", "Eigen-Reptile adds, %"),
    [["inner steps", number, 3.0 * number, 3.1 * number, 3.3] for number in (2, 4)],
    3,
    HERE,
)
MEMORY = BenchmarkTable("Memory", "Peaks.", ("tasks", "peak, MiB"), [["1", 700.25]], 3, HERE)


def test_the_page_has_the_numbers_and_figures_of_the_files(tmp_path: Path) -> None:
    for name, table in (("sine", SPEEDS), ("scaling", COSTS), ("memory", MEMORY)):
        write_json(tmp_path / f"{name}.json", table._asdict())
    page, *drawings = write_performance(tmp_path, tmp_path / "out")
    text = page.read_text()
    assert "| 5 tasks | reptile | 150.5 | 140 | 160 | 15.25 |" in text
    assert "| inner steps | 4 | 12 | 12.4 | 3.3 |" in text
    assert "| 1 | 700.2 |" in text
    assert "`bench it`, 7 repeats, 2 threads (m), torch 2, version 1 (abc)" in text
    assert [drawing.name for drawing in drawings] == ["bench-sine.png", "bench-scaling.png"]
    assert all(f"(figures/{drawing.name})" in text for drawing in drawings)
    assert all(drawing.read_bytes().startswith(b"\x89PNG") for drawing in drawings)


def test_benchmarks_have_a_fixed_order_and_others_follow_by_name(tmp_path: Path) -> None:
    for name in ("memory", "zebra", "aardvark", "conv4", "sine"):
        write_json(tmp_path / f"{name}.json", MEMORY._replace(title=name)._asdict())
    page, *_ = write_performance(tmp_path, tmp_path / "out")
    titles = [line.removeprefix("## ") for line in page.read_text().splitlines() if line.startswith("## ")]
    assert titles == ["sine", "conv4", "memory", "aardvark", "zebra"]


def test_every_committed_benchmark_has_a_place_on_the_page() -> None:
    files = (Path(__file__).parents[2] / "benchmarks").glob("*.json")
    assert set(ORDER) == {file.stem for file in files if not file.match(SIEGES)}


def test_rows_that_do_not_match_the_columns_are_an_error(tmp_path: Path) -> None:
    write_json(tmp_path / "memory.json", MEMORY._replace(rows=[["1"]])._asdict())
    with pytest.raises(RunError, match=r"memory\.json has rows that do not match its columns"):
        write_performance(tmp_path, tmp_path / "out")


def test_a_benchmark_without_speeds_has_no_figure(tmp_path: Path) -> None:
    write_json(tmp_path / "memory.json", MEMORY._asdict())
    assert write_performance(tmp_path, tmp_path / "new" / "out") == [tmp_path / "new" / "out" / "performance.md"]


@pytest.mark.parametrize("content", [{"title": "old", "rows": []}, [1, 2]])
def test_a_file_of_another_kind_is_an_error_that_names_it(tmp_path: Path, content: object) -> None:
    write_json(tmp_path / "sine.json", content)
    with pytest.raises(RunError, match=r"sine\.json is not a benchmark file"):
        write_performance(tmp_path, tmp_path / "out")


def test_a_folder_without_benchmarks_is_an_error_that_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="python -m benchmarks NAME"):
        write_performance(tmp_path, tmp_path / "out")
