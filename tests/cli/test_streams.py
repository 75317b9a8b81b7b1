"""Output in any encoding, and to readers that have gone."""

import contextlib
import io
import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NoReturn, TextIO

import pytest
from rich.table import Table

from command_line import SMALL
from eigen_reptile.cli import Command, run
from eigen_reptile.cli.output import logging_to_stderr, show_table
from eigen_reptile.cli.output_options import Output
from eigen_reptile.cli.streams import prepare_streams
from eigen_reptile.data import DATASETS
from patterns import Patterns

NAMES = ("[red] [/] * \N{GREEK SMALL LETTER ALPHA} ±", "\x1b[31m" + os.fsdecode(b"\xff"))


@pytest.fixture
def finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A finished run."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(DATASETS, "patterns", Patterns())
    assert run(["train", "reptile", "sine", *SMALL, "--seeds", "0", "1", "--out", "finished", "--quiet"]) == 0
    return tmp_path / "finished"


def printed_in(encoding: str, command: Sequence[str], code: int = 0) -> str:
    """What a command prints to streams of this encoding, both together."""
    streams = [io.TextIOWrapper(io.BytesIO(), encoding=encoding) for _ in range(2)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdout", streams[0])
        patch.setattr(sys, "stderr", streams[1])
        prepare_streams()
        assert run(command) == code
        for stream in streams:
            stream.flush()
    text = "".join(stream.buffer.getvalue().decode(encoding) for stream in streams)
    assert "\x1b" not in text
    return text


@pytest.mark.parametrize("name", NAMES)
def test_folders_of_any_name_are_shown_in_ascii(finished: Path, name: str) -> None:
    shutil.copytree(finished, name)
    for command in (
        ("train", "reptile", "sine", *SMALL, "--seeds", "0", "1", "--out", name),
        ("eval", name, "--evaluation.tasks", "3", "--out", f"eval {name}"),
        ("report", name),
        ("data", "noise", "patterns", "--noise.kind", "symmetric", "--noise.rate", "0.3", "--out", f"{name}.png"),
    ):
        assert printed_in("ascii", command).isascii()
    shown = "".join(
        one if " " <= one <= "~" else one.encode("unicode_escape").decode() for one in name.replace("±", "+-")
    )
    compared = printed_in("ascii", ("compare", name, "finished"))
    assert f"{shown} minus finished" in compared.replace("\\xb1", "+-")
    assert "+-" in compared
    assert "nowhere" in printed_in("ascii", ("eval", f"nowhere {name}", "--out", "x"), code=2)


@pytest.mark.parametrize(("encoding", "sign"), [("ascii", "+-"), ("cp1252", "±"), ("utf-8", "±"), ("utf-16", "±")])
def test_intervals_have_a_sign_in_every_encoding(finished: Path, encoding: str, sign: str) -> None:
    assert f"0.0000 {sign} 0.0000" in printed_in(encoding, ("compare", "finished", str(finished)))


def shell(command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    program = f"{sys.executable} -m eigen_reptile"
    variables = {name: value for name, value in os.environ.items() if name not in ("LANG", "LC_ALL", "PYTHONUTF8")}
    return subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command.replace('eigen-reptile', program)}"],
        env=variables | environment, capture_output=True, text=True, timeout=100,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("command", "code", "problem"),
    [
        ("eigen-reptile list | head -1", 0, ""),
        ("eigen-reptile train --help | head -1", 0, ""),
        ("eigen-reptile list >&-", 0, ""),
        ("eigen-reptile list 2>&-", 0, ""),
        ("eigen-reptile list <&- >&- 2>&-", 0, ""),
        ("eigen-reptile train 2>&-", 2, ""),
        ("eigen-reptile train mml >&-", 2, "eigen-reptile: no method named mml: did you mean maml?\n"),
        ("eigen-reptile list > /dev/full", 1, "eigen-reptile: [Errno 28] No space left on device\n"),
        ("eigen-reptile > /dev/full", 1, "eigen-reptile: [Errno 28] No space left on device\n"),
        ("eigen-reptile train 2> /dev/full", 2, ""),
    ],
)
def test_closed_and_full_streams(command: str, code: int, problem: str) -> None:
    done = shell(command)
    assert (done.returncode, done.stderr) == (code, problem)


@pytest.fixture
def unread() -> Iterator[TextIO]:
    """A pipe whose reader has gone."""
    reader, writer = os.pipe()
    os.close(reader)
    stream = os.fdopen(writer, "w", buffering=1, encoding="utf-8")
    yield stream
    with contextlib.suppress(BrokenPipeError):
        stream.close()


def test_a_training_goes_on_when_nobody_reads_its_messages(
    finished: Path, unread: TextIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    (finished / "result.json").unlink()  # it continues from the last checkpoint
    monkeypatch.setattr(sys, "stderr", unread)
    prepare_streams()
    with logging_to_stderr(Output()):
        for _ in range(2):
            logging.getLogger("eigen_reptile.training").warning("nobody reads this")
    assert run(["train", "reptile", "sine", *SMALL, "--seeds", "0", "1", "--out", "finished"]) == 0
    assert (finished / "result.json").exists()


def test_a_table_that_nobody_reads_is_a_broken_pipe(unread: TextIO, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", unread)
    with pytest.raises(BrokenPipeError):  # not the SystemExit of Rich
        show_table(Table("a heading"))


@pytest.mark.parametrize("environment", [{"PYTHONIOENCODING": "ascii"}, {"LANG": "C"}, {"PYTHONIOENCODING": "cp1252"}])
def test_names_of_other_alphabets_are_escaped_where_they_cannot_be_printed(environment: dict[str, str]) -> None:
    done = shell("eigen-reptile train '\N{GREEK SMALL LETTER ALPHA}' sine", **environment)
    assert done.returncode == 2
    assert done.stderr.startswith("eigen-reptile: no method named ")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("read", "code"), [(True, 1), (False, 0)])
def test_a_broken_pipe_is_a_failure_unless_it_is_that_of_the_output(
    read: bool, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(command: Command) -> NoReturn:
        raise BrokenPipeError(32, "Broken pipe")

    reader, writer = os.pipe()
    with os.fdopen(reader, "rb") as reading, os.fdopen(writer, "w", encoding="utf-8") as output:
        if not read:
            reading.close()
        monkeypatch.setattr(Command, "load", fail)
        monkeypatch.setattr(sys, "stdout", output)
        assert run(["list"]) == code
    assert capsys.readouterr().err == ("eigen-reptile: [Errno 32] Broken pipe\n" if code else "")
