"""Decisions in a file: found again after a restart, and only for what they were made about."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from eigen_reptile.errors import RunError
from eigen_reptile.practice.audit.decisions import FILE, DecisionFile, Suggestion, content_hash, read_decisions

FIRST = Suggestion("cat/1.png", "aa", "cat", "dog")
SECOND = Suggestion("cat/2.png", "bb", "cat", "dog")


def test_decisions_survive_a_restart(tmp_path: Path) -> None:
    decisions = DecisionFile(tmp_path, [FIRST, SECOND])
    decisions.decide(1, "accept")
    decisions.decide(0, "reject")
    assert DecisionFile(tmp_path, [SECOND, FIRST]).verdicts() == {0: "accept", 1: "reject"}
    decisions.decide(0, None)
    assert DecisionFile(tmp_path, [FIRST, SECOND]).verdicts() == {1: "accept"}


@pytest.mark.parametrize(
    ("now", "found"),
    [
        (FIRST, True),
        (FIRST._replace(path="cat/renamed.png"), True),
        (FIRST._replace(sha256="cc"), False),
        (FIRST._replace(suggested="ant"), False),
        (FIRST._replace(given="ant"), False),
    ],
)
def test_a_decision_holds_for_this_content_and_these_classes(tmp_path: Path, now: Suggestion, found: bool) -> None:
    DecisionFile(tmp_path, [FIRST]).decide(0, "accept")
    assert DecisionFile(tmp_path, [now]).verdicts() == ({0: "accept"} if found else {})


def test_a_copy_is_another_picture(tmp_path: Path) -> None:
    """As long as the one that was decided about is there."""
    DecisionFile(tmp_path, [FIRST]).decide(0, "accept")
    copied = FIRST._replace(path="cat/copy.png")
    assert DecisionFile(tmp_path, [copied, FIRST]).verdicts() == {1: "accept"}


def test_decisions_about_other_files_are_kept(tmp_path: Path) -> None:
    DecisionFile(tmp_path, [FIRST]).decide(0, "accept")
    DecisionFile(tmp_path, [SECOND]).decide(0, "reject")
    assert {one.path: one.verdict for one in read_decisions(tmp_path)} == {"cat/1.png": "accept", "cat/2.png": "reject"}


def test_concurrent_decisions_are_all_kept(tmp_path: Path) -> None:
    suggestions = [Suggestion(f"cat/{number}.png", str(number), "cat", "dog") for number in range(40)]
    decisions = DecisionFile(tmp_path, suggestions)
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda number: decisions.decide(number, "accept"), range(40)))
    assert len(read_decisions(tmp_path)) == 40
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize(
    "content",
    ["", "{}", "[1]", '[{"path": "a"}]', json.dumps([{**FIRST._asdict(), "verdict": "maybe"}]), "[" * 10_000],
)
def test_a_damaged_file_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / FILE).write_text(content)
    with pytest.raises(RunError, match=FILE):
        DecisionFile(tmp_path, [FIRST])
    assert (tmp_path / FILE).read_text() == content


def test_hash_of_what_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="No such file"):
        content_hash(tmp_path / "missing.png")
    with pytest.raises(RunError, match="is not a file"):
        content_hash(tmp_path)
