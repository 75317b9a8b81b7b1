"""The command line of the benchmarks."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import benchmarks.__main__ as command_line
from benchmarks import BENCHMARKS
from eigen_reptile.report.benchmark import BenchmarkTable, read_benchmark
from eigen_reptile.runtime.environment import recorded_command
from eigen_reptile.runtime.progress import StartProgress

ROOT = Path(__file__).parents[2]
MEASURED = BenchmarkTable("Title", "about", ("", "contender", "per second"), [["group", "one", 12.3456]], 3, {"a": "b"})


@pytest.fixture
def stubbed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A benchmark that returns at once; the repeats it is called with are in the list."""
    calls: list[int] = []

    def stub(repeats: int, start_progress: StartProgress) -> BenchmarkTable:
        """Returns a fixed table."""
        calls.append(repeats)
        start_progress("Title", 1)(1, {})
        return MEASURED

    monkeypatch.setitem(BENCHMARKS, "sine", stub)
    return calls


def test_help_lists_every_benchmark_with_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line.main([]) == 0
    text = capsys.readouterr().out
    for name, run in BENCHMARKS.items():
        assert re.search(rf"^  {name} +{re.escape((run.__doc__ or '').splitlines()[0])}$", text, re.MULTILINE)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ("sin", "no benchmark named sin: did you mean sine?"),
        ("--json", "name a benchmark: sine, conv4,"),
        ("sine --repeats 0", "--repeats must be at least 1, not 0"),
        ("sine --repeats two", "invalid int value: 'two'"),
        ("sine --repeat 2", "no option named --repeat: did you mean --repeats?"),
        ("sine conv4", "unexpected argument conv4"),
        ("sine --out no/folder/file.json", "there is no folder no/folder"),
    ],
)
def test_wrong_arguments_are_one_line_and_exit_code_2(
    args: str, message: str, stubbed: list[int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert command_line.main(args.split()) == 2
    out, err = capsys.readouterr()
    assert message in err
    assert err.count("\n") == 1
    assert out == ""
    assert not stubbed


def test_a_table_is_shown_and_written(tmp_path: Path, stubbed: list[int], capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "sine.json"
    assert command_line.main(["sine", "--repeats", "3", "--out", str(file)]) == 0
    assert stubbed == [3]
    out = capsys.readouterr().out
    assert all(text in out for text in ("Title", "per second", "group", "12.35"))
    assert read_benchmark(file)._replace(columns=MEASURED.columns) == MEASURED
    assert json.loads(file.read_text())["environment"] == {"a": "b"}


def test_json_and_quiet_print_no_progress(stubbed: list[int], capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line.main(["sine", "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["rows"] == MEASURED.rows
    assert err == ""
    assert command_line.main(["sine", "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("name", BENCHMARKS)
def test_the_committed_table_of_every_benchmark_can_be_read(name: str) -> None:
    table = read_benchmark(ROOT / "benchmarks" / f"{name}.json")
    assert table.rows
    assert all(len(row) == len(table.columns) for row in table.rows)
    assert {"command", "version", "threads", "torch", "machine", "commit"} <= set(table.environment)


def test_the_recorded_command_can_be_typed_again() -> None:
    assert recorded_command(["/clone/benchmarks/__main__.py", "sine", "--out", "/clone/a.json"]) == (
        "python -m benchmarks sine --out a.json"
    )
    assert recorded_command(["/lib/eigen_reptile/__main__.py", "list"]) == "python -m eigen_reptile list"


def test_a_benchmark_records_its_command(tmp_path: Path) -> None:
    """In a process of its own, because the command is that of the process."""
    script = (
        "from benchmarks.timing import measured_table; print(measured_table('', '', (), [], 1).environment['command'])"
    )
    package = tmp_path / "some_package"
    package.mkdir()
    (package / "__main__.py").write_text(script)
    ended = subprocess.run(
        [
            sys.executable,
            "-c",
            f"import runpy, sys; sys.path[:0] = [{str(tmp_path)!r}, {str(ROOT)!r}]; "
            "sys.argv = ['x', 'sine']; runpy.run_module('some_package', run_name='__main__', alter_sys=True)",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    assert ended.stdout == "python -m some_package sine\n"
