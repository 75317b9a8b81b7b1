"""The page on speed says what the benchmarks' files say."""

from pathlib import Path

import pytest

from eigen_reptile.bench import Figures
from eigen_reptile.files import RunError, write_json
from eigen_reptile.report.performance import write_performance

HERE = {"command": "bench it", "threads": 2, "machine": "m", "torch": "2", "version": "1", "commit": "abc"}
SPEEDS = Figures(
    "Sine wave",
    "What it is about.",
    ("", "contender", "per second", "slowest", "fastest", "times plain PyTorch"),
    [["5 tasks", "plain PyTorch", 10.0, 9.0, 12.0, 1.0], ["5 tasks", "reptile", 150.5, 140.0, 160.0, 15.25]],
    7,
    HERE,
)
COSTS = Figures(
    "Scaling",
    "Costs.",
    ("", "number", "Reptile, ms", "Eigen-Reptile, ms", "Eigen-Reptile adds, %"),
    [["inner steps", number, 3.0 * number, 3.1 * number, 3.3] for number in (2, 4)],
    3,
    HERE,
)
MEMORY = Figures("Memory", "Peaks.", ("tasks", "peak, MiB"), [["1", 700.25]], 3, HERE)


def test_the_page_holds_the_files_numbers_and_shows_their_pictures(tmp_path: Path) -> None:
    for name, figures in (("sine", SPEEDS), ("scaling", COSTS), ("memory", MEMORY)):
        write_json(tmp_path / f"{name}.json", figures._asdict())
    page, *drawings = write_performance(tmp_path, tmp_path / "out")
    text = page.read_text()
    assert "| 5 tasks | reptile | 150.5 | 140 | 160 | 15.25 |" in text
    assert "| inner steps | 4 | 12 | 12.4 | 3.3 |" in text
    assert "| 1 | 700.2 |" in text
    assert "`bench it`, 7 repeats, 2 threads (m), torch 2, version 1 (abc)" in text
    assert [drawing.name for drawing in drawings] == ["bench-sine.png", "bench-scaling.png"]
    assert all(f"(figures/{drawing.name})" in text for drawing in drawings)
    assert all(drawing.read_bytes().startswith(b"\x89PNG") for drawing in drawings)


def test_what_has_no_speed_gets_no_picture(tmp_path: Path) -> None:
    write_json(tmp_path / "memory.json", MEMORY._asdict())
    assert write_performance(tmp_path, tmp_path / "new" / "out") == [tmp_path / "new" / "out" / "performance.md"]


@pytest.mark.parametrize("content", [{"title": "old", "rows": []}, [1, 2]])
def test_a_file_of_another_kind_is_refused_by_name(tmp_path: Path, content: object) -> None:
    write_json(tmp_path / "sine.json", content)
    with pytest.raises(RunError, match=r"sine\.json is not a benchmark's file"):
        write_performance(tmp_path, tmp_path / "out")


def test_a_folder_without_benchmarks_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="eigen-reptile bench NAME"):
        write_performance(tmp_path, tmp_path / "out")
