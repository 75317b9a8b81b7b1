"""Files of scores under damage."""

import os
from pathlib import Path

import pytest

from eigen_reptile.errors import RunError
from eigen_reptile.runtime.score_files import ScoreFile

ABOUT = {"theta": "abc", "shape": (5, 1, 15)}
LINES = [{"task": number, "scores": [[number / 3, None]]} for number in range(4)]


def stored(file: Path) -> bytes:
    scores = ScoreFile(file)
    assert scores.start(ABOUT) == []
    scores.add(LINES[:1])
    scores.add(LINES[1:])
    return file.read_bytes()


def test_what_was_stored_is_read_if_it_is_about_the_same_evaluation(tmp_path: Path) -> None:
    file = tmp_path / "scores" / "test.jsonl"
    content = stored(file)
    assert ScoreFile(file).start(ABOUT) == LINES
    assert file.read_bytes() == content
    assert ScoreFile(file).start(ABOUT | {"theta": "abd"}) == []
    assert ScoreFile(file).start(ABOUT) == []


def test_everything_from_the_first_damaged_byte_on_is_dropped(tmp_path: Path) -> None:
    file = tmp_path / "test.jsonl"
    content = stored(file)
    ends = [place + 1 for place, byte in enumerate(content) if byte == ord("\n")]
    for place in range(len(content)):
        intact = max(0, sum(end <= place for end in ends) - 1)
        for damaged in (content[:place], content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]):
            file.write_bytes(damaged)
            found = ScoreFile(file).start(ABOUT)
            assert found in (LINES[:intact], LINES[: intact + 1])  # without its last newline, a line is still whole
            ScoreFile(file).add(LINES[len(found) :])
            assert ScoreFile(file).start(ABOUT) == LINES
    file.write_bytes(b"\xff\x00" * 99)
    assert ScoreFile(file).start(ABOUT) == []


def test_a_file_is_not_read_beyond_the_limit_and_a_pipe_not_at_all(tmp_path: Path) -> None:
    with (tmp_path / "sparse.jsonl").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(RunError, match=r"sparse\.jsonl is too large"):
        ScoreFile(tmp_path / "sparse.jsonl").start(ABOUT)
    os.mkfifo(tmp_path / "pipe.jsonl")
    with pytest.raises(RunError, match=r"pipe\.jsonl: it is not a regular file"):
        ScoreFile(tmp_path / "pipe.jsonl").start(ABOUT)


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RunError, match="file"):
        ScoreFile(tmp_path / "file" / "scores.jsonl").start(ABOUT)
    with pytest.raises(RunError, match=r"cannot write .*scores\.jsonl"):
        ScoreFile(tmp_path / "nowhere" / "scores.jsonl").add(LINES)
