"""Move files from class to class and back. A log on the disk is always one step ahead of the files.

Every move is written to the log and synced before it is made, so that at most the last line of the log is not done yet:
the next command completes it. A move never replaces a file: it makes a second name, which fails if that is taken, and
then removes the first.
"""

import errno
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import NamedTuple, TypeVar, final

from eigen_reptile.errors import RunError
from eigen_reptile.practice.audit.decisions import Decision, content_hash
from eigen_reptile.runtime.files import read_bytes, sync_folder
from eigen_reptile.runtime.folder_lock import FolderLock
from eigen_reptile.runtime.strict_json import parse_json, strict_converter, structured

T = TypeVar("T")

FOLDER, FILE = "moves", "log.jsonl"
MOST_BYTES = 1 << 28
LONGEST_SHOWN = 300
"""Characters of a path in a message."""
NO_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}
"""Errors of file systems without hard links."""


class Move(NamedTuple):
    """A line of the log. Paths are relative to the folder of the classes."""

    source: str
    target: str
    undoes: int | None
    """The number of the line that this one undoes."""


class Moved(NamedTuple):
    """What a command did, or in a dry run would do."""

    done: list[Move]
    problems: list[str]
    """Why other files were not moved, one line each."""


@final
@dataclass(frozen=True)
class MoveLog:
    """The log in the folder of an audit, which this process has locked."""

    root: Path
    """The folder of the classes."""
    file: Path

    @staticmethod
    @contextmanager
    def locked(root: Path, out: Path) -> Iterator["MoveLog"]:
        """The log, after its last line has been completed if a command was interrupted."""
        folder = out / FOLDER
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RunError(f"cannot create the folder {folder}: {error.strerror}") from error
        with FolderLock.hold(folder):
            log = MoveLog(root, folder / FILE)
            log._recover()
            yield log

    def apply(self, decisions: Sequence[Decision], dry_run: bool = False) -> Moved:
        """Move every file whose suggestion was accepted into the folder of the suggested class, if it is not there."""
        moved = {move.source for move in self.in_effect().values()}
        accepted = [one for one in decisions if one.verdict == "accept" and not self._was_made(one, moved)]
        taken: set[str] = set()  # by the moves of a dry run

        def move_of(decision: Decision) -> Move:
            self._check(decision)
            target = self._free_name(decision, taken)
            taken.add(target)
            return Move(decision.path, target, None)

        return self._make(accepted, move_of, dry_run)

    def undo(self, dry_run: bool = False) -> Moved:
        """Move everything back, the last move first. What cannot be moved back stays in the log."""
        backwards = [Move(move.target, move.source, number) for number, move in self.in_effect().items()]
        left: set[str] = set()  # by the moves of a dry run

        def checked(move: Move) -> Move:
            if move.target not in left and os.path.lexists(self.root / move.target):
                raise RunError(f"cannot move {move.source} to {move.target}: there is a file of this name")
            if dry_run:
                left.add(move.source)
            return move

        return self._make(backwards[::-1], checked, dry_run)

    def in_effect(self) -> dict[int, Move]:
        """The moves that were made and not undone, by their number."""
        lines = self._lines()
        undone = {move.undoes for move in lines}
        return {number: move for number, move in enumerate(lines) if move.undoes is None and number not in undone}

    def _make(self, subjects: Sequence[T], plan: Callable[[T], Move], dry_run: bool) -> Moved:
        """Plan and make a move for each subject. Each is planned after the moves before it."""
        done: list[Move] = []
        problems: list[str] = []
        for subject in subjects:
            try:
                move = plan(subject)
                if not dry_run:
                    self._log_and_move(move)
                done.append(move)
            except RunError as problem:
                problems.append(str(problem))
        return Moved(done, problems)

    def _log_and_move(self, move: Move) -> None:
        """Log the move to a name that is free, then make it; if that fails, the line is removed again."""
        source, target = self._place(move.source), self._place(move.target)
        length = self.file.stat().st_size if self.file.exists() else 0
        try:
            with self.file.open("ab") as stream:
                stream.write(json.dumps(move._asdict()).encode() + b"\n")
                stream.flush()
                os.fsync(stream.fileno())
            sync_folder(self.file.parent)
        except OSError as error:
            raise RunError(f"cannot write {self.file}: {error.strerror}") from error
        try:
            _rename(source, target)
        except OSError as error:
            self._shorten(length)
            reason = "there is a file of this name" if isinstance(error, FileExistsError) else error.strerror
            raise RunError(f"cannot move {_shown(move.source)} to {_shown(move.target)}: {reason}") from error

    def _recover(self) -> None:
        """Complete the last move if it was interrupted. If it is impossible now, its line is removed."""
        if not self.file.exists():
            return
        data = read_bytes(self.file, MOST_BYTES)
        whole = data.rfind(b"\n") + 1
        if whole < len(data):  # a line that was being written, so that its move was not begun
            self._shorten(whole)
        if not (lines := self._lines()):
            return
        source, target = (self.root / path for path in lines[-1][:2])
        if os.path.lexists(target) and not _same_file(source, target):
            return  # done: the name was free when the line was written, and the old one may have been taken since
        try:
            source, target = self._place(lines[-1].source), self._place(lines[-1].target)
            if _same_file(source, target):
                _remove_first_name(source, target)
            else:
                _rename(source, target)
        except (OSError, RunError):
            self._shorten(data.rfind(b"\n", 0, whole - 1) + 1)

    def _shorten(self, length: int) -> None:
        try:
            with self.file.open("r+b") as stream:
                stream.truncate(length)
                os.fsync(stream.fileno())
        except OSError as error:
            raise RunError(f"cannot write {self.file}: {error.strerror}") from error

    def _lines(self) -> list[Move]:
        if not self.file.exists():
            return []
        lines = read_bytes(self.file, MOST_BYTES).splitlines()
        try:
            moves: list[Move] = structured(_CONVERTER, [parse_json(line) for line in lines], list[Move])
        except ValueError as error:
            raise RunError(f"{self.file} is damaged: {error}") from error
        for move in moves:
            for path in (move.source, move.target):
                if not _is_in_class(path):
                    raise RunError(f"{self.file} is damaged: {_shown(path)} is not a file in the folder of a class")
            if move.source == move.target:
                raise RunError(f"{self.file} is damaged: {_shown(move.source)} is moved to itself")
        return moves

    def _place(self, path: str) -> Path:
        """Where the file is; RunError if that may be outside of the folder of the classes."""
        place = self.root / path
        try:
            is_link = place.parent.is_symlink()
        except OSError as error:  # for example if the name is too long
            raise RunError(f"did not move {_shown(path)}: {error.strerror}") from error
        if is_link:
            raise RunError(f"did not move {_shown(path)}: the folder {place.parent} is a link")
        return place

    def _was_made(self, decision: Decision, moved: set[str]) -> bool:
        """Whether the file was moved away. Another one may have its path now, if its class was suggested for that."""
        if decision.path not in moved:
            return False
        place = self._place(decision.path)
        return not os.path.lexists(place) or content_hash(place) != decision.sha256

    def _check(self, decision: Decision) -> None:
        """RunError if the file is not what was decided about."""
        shown = _shown(decision.path)
        if not _is_in_class(decision.path) or not _is_in_class(f"{decision.suggested}/file"):
            raise RunError(f"did not move {shown}: it is not a file in the folder of a class")
        if not os.path.lexists(self.root / decision.path):
            raise RunError(f"did not move {shown}: it is no longer there")
        if not self._place(f"{decision.suggested}/file").parent.is_dir():
            raise RunError(f"did not move {shown}: there is no folder {self.root / _shown(decision.suggested)}")
        if content_hash(self._place(decision.path)) != decision.sha256:
            raise RunError(f"did not move {shown}: it was changed after the decision; audit it again")

    def _free_name(self, decision: Decision, taken: set[str]) -> str:
        """The file's name in the suggested class, with a number if it is taken there."""
        name = PurePosixPath(decision.path).name
        stem, suffix = PurePosixPath(name).stem, PurePosixPath(name).suffix
        target, number = f"{decision.suggested}/{name}", 0
        while target in taken or os.path.lexists(self.root / target):
            number += 1
            target = f"{decision.suggested}/{stem}-{number}{suffix}"
        return target


def _is_in_class(path: str) -> bool:
    """Whether a path is that of a file directly in the folder of a class."""
    parts = path.split("/")
    return len(parts) == 2 and all(part not in ("", ".", "..") for part in parts)


def _shown(path: str) -> str:
    """A path for a message, which in a damaged file may have any length."""
    return path if len(path) <= LONGEST_SHOWN else f"{path[:LONGEST_SHOWN]}..."


def _rename(source: Path, target: Path) -> None:
    """Rename without replacing anything; OSError if it cannot be done, and then nothing has changed."""
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
        if os.path.lexists(target):
            raise FileExistsError(errno.EEXIST, "there is a file of this name", str(target)) from error
        source.rename(target)
        sync_folder(source.parent)
        sync_folder(target.parent)
    else:
        sync_folder(target.parent)
        _remove_first_name(source, target)


def _remove_first_name(source: Path, target: Path) -> None:
    """The second step of a move, after which the file has only its new name."""
    try:
        source.unlink()
    except OSError:
        if _same_file(source, target):
            target.unlink()
        raise
    sync_folder(source.parent)


def _same_file(source: Path, target: Path) -> bool:
    """Whether both are names of one file, as between the two steps of a move.

    One name that is reached in two ways, as on a disk where `a` and `A` are the same, is not two.
    """
    try:
        about = source.lstat()
        return about.st_nlink > 1 and os.path.samestat(about, target.lstat())
    except OSError:
        return False


_CONVERTER = strict_converter()
