"""What a person has decided about suspects, in a file that is replaced as a whole with every decision."""

import hashlib
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple, final, get_args

from eigen_reptile.data.io.archives import read_file
from eigen_reptile.data.io.images import MAX_BYTES
from eigen_reptile.errors import RunError
from eigen_reptile.runtime.files import read_json, write_json
from eigen_reptile.runtime.strict_json import strict_converter, structured

FILE = "decisions.json"
Verdict = Literal["accept", "reject"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)


class Decision(NamedTuple):
    """A suggestion, and whether it was accepted."""

    path: str
    """Path of the file, relative to the folder of the classes."""
    sha256: str
    """SHA-256 of the content of the file."""
    given: str
    suggested: str
    verdict: Verdict


class Suggestion(NamedTuple):
    """What can be accepted or rejected; a decision holds for exactly this content and these two classes."""

    path: str
    sha256: str
    given: str
    suggested: str


def content_hash(file: Path) -> str:
    """SHA-256 of a file; RunError if it cannot be read."""
    try:
        return hashlib.sha256(read_file(file, MAX_BYTES)).hexdigest()
    except OSError as error:
        raise RunError(f"cannot read {file}: {error.strerror}") from error
    except ValueError as error:
        raise RunError(f"{file} {error}") from error


def read_decisions(folder: Path) -> list[Decision]:
    """All decisions in the folder of an audit; RunError if the file is damaged."""
    file = folder / FILE
    if not file.exists():
        return []
    try:
        found: list[Decision] = structured(_CONVERTER, read_json(file), list[Decision])
    except ValueError as error:
        raise RunError(f"{file} is damaged: {error}; repair or remove it") from error
    return found


@final
class DecisionFile:
    """The decisions about the suggestions of an audit; several threads may decide at once.

    A decision is found again by path and content, or by the content alone if the file was renamed. Decisions about what
    is not suggested now, such as files that have been moved, stay in the file.
    """

    def __init__(self, folder: Path, suggestions: Sequence[Suggestion]) -> None:
        known = read_decisions(folder)
        matches = _matches(known, suggestions)
        self.suggestions = tuple(suggestions)
        self._folder = folder
        self._verdicts = {position: known[number].verdict for position, number in matches.items()}
        self._others = [one for number, one in enumerate(known) if number not in matches.values()]
        self._lock = threading.Lock()

    def decide(self, position: int, verdict: Verdict | None) -> None:
        """Accept or reject a suggestion, or take the decision back; it is on the disk when this returns."""
        with self._lock:
            changed = {place: old for place, old in self._verdicts.items() if place != position}
            if verdict is not None:
                changed[position] = verdict
            decided = [Decision(*self.suggestions[place], found) for place, found in sorted(changed.items())]
            write_json(self._folder / FILE, [one._asdict() for one in (*decided, *self._others)])
            self._verdicts = changed

    def verdicts(self) -> dict[int, Verdict]:
        """The decisions by the position of the suggestion."""
        with self._lock:
            return dict(self._verdicts)


def _matches(known: Sequence[Decision], suggestions: Sequence[Suggestion]) -> dict[int, int]:
    """For the position of each suggestion about which there is a decision, the position of that decision."""
    present = {one.path for one in suggestions}
    by_place = {(one.path, *_subject(one)): number for number, one in enumerate(known)}
    renamed = {_subject(one): number for number, one in enumerate(known) if one.path not in present}
    found = {
        position: by_place.get((one.path, *_subject(one)), renamed.get(_subject(one)))
        for position, one in enumerate(suggestions)
    }
    return {position: number for position, number in found.items() if number is not None}


def _subject(one: Decision | Suggestion) -> tuple[str, str, str]:
    return one.sha256, one.given, one.suggested


_CONVERTER = strict_converter()
