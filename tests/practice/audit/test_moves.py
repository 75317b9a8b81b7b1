"""Moves between classes: killed at every step, they are completed or undone, and nothing is ever overwritten."""

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from eigen_reptile.errors import ConfigError, RunError
from eigen_reptile.practice.audit import moves
from eigen_reptile.practice.audit.decisions import Decision, Verdict, content_hash
from eigen_reptile.practice.audit.moves import FILE, FOLDER, Moved, MoveLog
from eigen_reptile.runtime.files import sync_folder

Tree = dict[str, tuple[int, bytes]]


class Killed(BaseException):
    """The process ended here."""


def make(root: Path) -> list[Decision]:
    """Three classes; three suggestions are accepted, two of them for files whose name the other class has too."""
    for name in ("cat", "dog", "ant"):
        (root / name).mkdir(parents=True)
        for number in range(3):
            (root / name / f"{number}.png").write_text(f"{name} {number}")
    return [
        decision(root, "cat/0.png", "dog"),
        decision(root, "ant/0.png", "dog"),
        decision(root, "dog/1.png", "cat", "reject"),
        decision(root, "dog/2.png", "cat"),
    ]


def decision(root: Path, path: str, suggested: str, verdict: Verdict = "accept") -> Decision:
    return Decision(path, content_hash(root / path), path.split("/")[0], suggested, verdict)


def tree(root: Path) -> Tree:
    """The number and the content of every file, by its path."""
    return {
        str(file.relative_to(root)): (file.lstat().st_ino, file.read_bytes())
        for file in root.rglob("*")
        if not file.is_dir()
    }


def apply(root: Path, decisions: list[Decision], dry_run: bool = False) -> Moved:
    with MoveLog.locked(root, root.parent / "out") as log:
        return log.apply(decisions, dry_run)


def undo(root: Path, dry_run: bool = False) -> Moved:
    with MoveLog.locked(root, root.parent / "out") as log:
        return log.undo(dry_run)


@contextmanager
def killed_at(step: int, after: bool) -> Iterator[list[str]]:
    """Ends whatever runs inside at the given call of the system, before or after it has had its effect."""
    calls: list[str] = []

    def fatal(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def called(*args: Any, **kwargs: Any) -> Any:
            calls.append(name)
            if len(calls) - 1 == step and not after:
                raise Killed(name)
            found = call(*args, **kwargs)
            if len(calls) - 1 == step:
                raise Killed(name)
            return found

        return called

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "link", fatal("link", os.link))
        patch.setattr(os, "fsync", fatal("fsync", os.fsync))
        patch.setattr(Path, "unlink", fatal("unlink", Path.unlink))
        patch.setattr(moves, "sync_folder", fatal("sync", sync_folder))
        yield calls


def kills(root: Path, command: Callable[[Path], object], prepare: Callable[[Path], object]) -> Iterator[Path]:
    """Folders in which the command was killed, once at each step, before and after it."""
    for after in (False, True):
        for step in count():
            place = root / f"{after}-{step}" / "classes"
            prepare(place)
            try:
                with killed_at(step, after) as calls:
                    command(place)
            except Killed:
                yield place
            else:
                assert len(calls) >= 3 * len(("fsync", "sync", "link", "sync", "unlink", "sync"))
                break


def test_files_are_moved_without_overwriting_and_back_exactly(tmp_path: Path) -> None:
    root = tmp_path / "classes"
    decisions = make(root)
    before = tree(root)
    moved = apply(root, decisions)
    assert moved.problems == []
    assert [move.target for move in moved.done] == ["dog/0-1.png", "dog/0-2.png", "cat/2-1.png"]
    after = tree(root)
    assert sorted(after.values()) == sorted(before.values())
    assert after["dog/0-1.png"] == before["cat/0.png"]
    assert apply(root, decisions) == Moved([], [])
    assert len(undo(root).done) == 3
    assert tree(root) == before
    assert undo(root) == Moved([], [])
    assert len(apply(root, decisions).done) == 3
    assert tree(root) == after


def test_files_that_change_places_are_moved_once(tmp_path: Path) -> None:
    root = tmp_path / "classes"
    make(root)
    decisions = [decision(root, "cat/0.png", "dog"), decision(root, "dog/0.png", "cat")]
    assert len(apply(root, decisions).done) == 2
    assert (root / "cat/0.png").read_text() == "dog 0"
    before = tree(root)
    assert apply(root, decisions) == Moved([], [])
    assert tree(root) == before


@pytest.mark.parametrize("name", ["x" * 5000, "a\0b"])
def test_impossible_names_are_problems_of_one_line(tmp_path: Path, name: str) -> None:
    root = tmp_path / "classes"
    make(root)
    good = decision(root, "cat/0.png", "dog")
    hostile = [good._replace(suggested=name), good._replace(path=f"{name}/0.png"), good._replace(path=f"cat/{name}")]
    done, problems = apply(root, hostile)
    assert not done
    assert len(problems) == 3
    assert all(len(problem) < 1000 for problem in problems)


def test_dry_runs_change_nothing_and_say_the_same(tmp_path: Path) -> None:
    root = tmp_path / "classes"
    decisions = make(root)
    before = tree(root)
    planned = apply(root, decisions, dry_run=True)
    assert tree(root) == before
    assert planned == apply(root, decisions)
    after = tree(root)
    assert undo(root, dry_run=True) == Moved(*undo(root)) != Moved([], [])
    assert after != tree(root) == before


def test_undo_restores_the_tree_wherever_apply_was_killed(tmp_path: Path) -> None:
    for root in kills(tmp_path, lambda root: apply(root, decisions_of(root)), make):
        before = {path: content for path, (_, content) in tree_of_new(tmp_path).items()}
        assert undo(root).problems == []
        assert {path: content for path, (_, content) in tree(root).items()} == before


def test_apply_continues_wherever_it_was_killed(tmp_path: Path) -> None:
    for root in kills(tmp_path, lambda root: apply(root, decisions_of(root)), make):
        assert apply(root, decisions_of(root)).problems == []
        contents = {path: content for path, (_, content) in tree(root).items()}
        assert contents["dog/0-1.png"] == b"cat 0"
        assert contents["dog/0-2.png"] == b"ant 0"
        assert contents["cat/2-1.png"] == b"dog 2"
        assert len(contents) == 9


def test_undo_continues_wherever_it_was_killed(tmp_path: Path) -> None:
    def applied(root: Path) -> None:
        apply(root, make(root))

    for root in kills(tmp_path, undo, applied):
        assert undo(root).problems == []
        assert {path: content for path, (_, content) in tree(root).items()} == {
            path: content for path, (_, content) in tree_of_new(tmp_path).items()
        }


def decisions_of(root: Path) -> list[Decision]:
    """Those that `make` returned, whatever has been moved since."""
    hashes = {content: content_hash(root / path) for path, (_, content) in tree(root).items()}
    accepted = (("cat/0.png", b"cat 0", "dog"), ("ant/0.png", b"ant 0", "dog"), ("dog/2.png", b"dog 2", "cat"))
    return [Decision(path, hashes[content], path.split("/")[0], to, "accept") for path, content, to in accepted]


def tree_of_new(folder: Path) -> Tree:
    root = folder / "new"
    if not root.exists():
        make(root)
    return tree(root)


def test_a_line_that_was_being_written_is_removed(tmp_path: Path) -> None:
    root = tmp_path / "classes"
    decisions = make(root)
    before = tree(root)
    apply(root, decisions)
    log = tmp_path / "out" / FOLDER / FILE
    whole = log.read_bytes()
    log.write_bytes(whole + b'{"source": "cat/1.p')
    assert len(undo(root).done) == 3
    assert tree(root) == before
    assert log.read_bytes().startswith(whole)


def test_what_has_changed_meanwhile_is_left_alone(tmp_path: Path) -> None:
    root = tmp_path / "classes"
    decisions = [*make(root), decision(root, "cat/1.png", "gone")]
    (root / "cat" / "0.png").unlink()
    (root / "ant" / "0.png").write_text("another picture")
    moved = apply(root, decisions)
    assert [move.source for move in moved.done] == ["dog/2.png"]
    assert [problem.split(": ", 1) for problem in moved.problems] == [
        ["did not move cat/0.png", "it is no longer there"],
        ["did not move ant/0.png", "it was changed after the decision; audit it again"],
        ["did not move cat/1.png", f"there is no folder {root / 'gone'}"],
    ]


@pytest.mark.parametrize("number", [0, 1, 2])
def test_undo_does_not_overwrite_and_can_be_repeated(tmp_path: Path, number: int) -> None:
    root = tmp_path / "classes"
    decisions = make(root)
    before = tree(root)
    move = apply(root, decisions).done[number]
    (root / move.source).write_text("a new picture of this name")
    expected = undo(root, dry_run=True)
    moved = undo(root)
    assert moved.problems == [f"cannot move {move.target} to {move.source}: there is a file of this name"]
    assert len(moved.done) == 2
    assert moved == expected
    (root / move.source).unlink()
    assert len(undo(root).done) == 1
    assert tree(root) == before


def test_a_dry_run_of_undo_knows_which_names_become_free(tmp_path: Path) -> None:
    root = tmp_path / "classes"
    make(root)
    apply(root, [decision(root, "cat/0.png", "dog"), decision(root, "dog/0.png", "cat")])
    expected = undo(root, dry_run=True)
    assert expected.problems == []
    assert undo(root) == expected


def test_a_file_that_vanished_does_not_stop_the_others(tmp_path: Path) -> None:
    root = tmp_path / "classes"
    apply(root, make(root))
    (root / "dog" / "0-2.png").unlink()
    moved = undo(root)
    assert len(moved.done) == 2
    assert moved.problems == ["cannot move dog/0-2.png to ant/0.png: No such file or directory"]


@pytest.mark.parametrize("step", ["link", "unlink"])
def test_a_folder_that_cannot_be_written_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    root = tmp_path / "classes"
    decisions = make(root)
    before = tree(root)

    def refuse(path: Path, *args: Any, **kwargs: Any) -> None:
        if str(path).startswith(str(root)) and "classes/cat/0.png" in str(path):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        real(path, *args, **kwargs)

    owner: Any = os if step == "link" else Path
    real = getattr(owner, step)
    monkeypatch.setattr(owner, step, refuse)
    moved = apply(root, decisions)
    assert moved.problems == ["cannot move cat/0.png to dog/0-1.png: Permission denied"]
    assert len(moved.done) == 2
    monkeypatch.undo()
    undo(root)
    assert tree(root) == before


def test_file_systems_without_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", refuse)
    root = tmp_path / "classes"
    decisions = make(root)
    before = tree(root)
    assert len(apply(root, decisions).done) == 3
    assert len(undo(root).done) == 3
    assert tree(root) == before


def test_a_link_is_moved_itself(tmp_path: Path) -> None:
    root = tmp_path / "classes"
    make(root)
    (tmp_path / "elsewhere.png").write_text("far away")
    (root / "cat" / "link.png").symlink_to(tmp_path / "elsewhere.png")
    apply(root, [decision(root, "cat/link.png", "dog")])
    assert (root / "dog" / "link.png").is_symlink()
    assert (tmp_path / "elsewhere.png").read_text() == "far away"
    undo(root)
    assert (root / "cat" / "link.png").is_symlink()


@pytest.mark.parametrize("path", ["../x.png", "/etc/passwd", "cat/../../x.png", "cat", "cat/deep/x.png", "./x.png"])
def test_nothing_outside_of_the_classes_is_moved(tmp_path: Path, path: str) -> None:
    root = tmp_path / "classes"
    make(root)
    (tmp_path / "x.png").write_text("precious")
    before = tree(tmp_path / "classes")
    moved = apply(root, [Decision(path, "", "cat", "dog", "accept"), Decision("cat/0.png", "", "cat", "..", "accept")])
    assert moved.done == []
    assert len(moved.problems) == 2
    assert tree(root) == before
    log = tmp_path / "out" / FOLDER / FILE
    log.write_text(f'{{"source": "{path}", "target": "cat/1.png", "undoes": null}}\n')
    with pytest.raises(RunError, match="damaged"):
        undo(root)
    assert tree(root) == before
    assert (tmp_path / "x.png").exists()


def test_nothing_is_moved_through_a_link_to_another_folder(tmp_path: Path) -> None:
    root, elsewhere = tmp_path / "classes", tmp_path / "elsewhere"
    make(root)
    elsewhere.mkdir()
    (elsewhere / "key").write_text("precious")
    (root / "way out").symlink_to(elsewhere)
    before = tree(tmp_path)
    moved = apply(root, [decision(root, "cat/0.png", "way out"), decision(root, "way out/key", "dog")])
    assert moved.done == []
    assert all("is a link" in problem for problem in moved.problems)
    log = tmp_path / "out" / FOLDER / FILE
    for source, target in (("cat/0.png", "way out/new.png"), ("way out/key", "cat/key")):
        log.write_text(f'{{"source": "{source}", "target": "{target}", "undoes": null}}\n')
        undo(root)
    assert {path: content for path, content in tree(tmp_path).items() if not path.startswith("out")} == before


def test_a_log_that_moves_a_file_to_itself_removes_nothing(tmp_path: Path) -> None:
    root = tmp_path / "classes"
    make(root)
    (root / "also cat").symlink_to(root / "cat")
    before = tree(root)
    log = tmp_path / "out" / FOLDER / FILE
    log.parent.mkdir(parents=True)
    log.write_text('{"source": "also cat/0.png", "target": "cat/0.png", "undoes": null}\n')
    undo(root)
    log.write_text('{"source": "cat/0.png", "target": "cat/0.png", "undoes": null}\n')
    with pytest.raises(RunError, match=r"damaged: cat/0.png is moved to itself"):
        undo(root)
    assert tree(root) == before


def test_messages_about_long_paths_are_short(tmp_path: Path) -> None:
    root, path = tmp_path / "classes", "cat/" + "x" * 9000
    make(root)
    (problem,) = apply(root, [Decision(path, "", "cat", "dog", "accept")]).problems
    assert len(problem) < 1000
    (tmp_path / "out" / FOLDER / FILE).write_text(f'{{"source": "{path}/x", "target": "cat/1.png", "undoes": null}}\n')
    with pytest.raises(RunError, match="damaged") as refused:
        undo(root)
    assert len(str(refused.value)) < 1000


def test_two_commands_do_not_move_at_once(tmp_path: Path) -> None:
    root = tmp_path / "classes"
    decisions = make(root)
    with MoveLog.locked(root, tmp_path / "out"), pytest.raises(ConfigError, match="another process"):
        apply(root, decisions)
