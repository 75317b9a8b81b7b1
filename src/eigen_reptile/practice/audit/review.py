"""What the page of suspects shows, and the pictures it may show."""

import io
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, final

from eigen_reptile.data.io.archives import FolderSource
from eigen_reptile.data.io.images import read_thumbnail
from eigen_reptile.practice.audit.audit import Audit
from eigen_reptile.practice.audit.decisions import DecisionFile, Suggestion, content_hash
from eigen_reptile.runtime.text import printable

log = logging.getLogger(__name__)

THUMBNAIL = 320
"""Height and width that pictures are reduced to."""
QUALITY = 88
"""JPEG quality of the pictures that are sent."""


@final
@dataclass(frozen=True)
class Review:
    """The suspects of an audit, and what was decided about them."""

    root: Path
    """The folder of the classes."""
    audit: Audit
    paths: tuple[str, ...]
    """Paths of all samples, relative to the root."""
    suspects: tuple[int, ...]
    """The samples that can be decided about, the least trusted first; suggestions have the same order."""
    decisions: DecisionFile
    commands: dict[str, str]
    """The commands that apply the decisions and undo that."""

    def state(self) -> dict[str, Any]:
        """All that the page needs, as JSON."""
        verdicts = self.decisions.verdicts()
        audit = self.audit
        return {
            "folder": printable(str(self.root)),
            "commands": self.commands,
            "typical": {audit.classes[number]: list(audit.typical[number]) for number in self._classes_shown()},
            "suspects": [
                {
                    "sample": sample,
                    "path": self.paths[sample],
                    "given": audit.classes[audit.given[sample]],
                    "suggested": audit.classes[audit.suggested[sample]],
                    "trust": float(audit.trust[sample]),
                    "evidence": int(audit.evidence[sample]),
                    "evidencePath": printable(self.paths[audit.evidence[sample]]),
                    "verdict": verdicts.get(position),
                }
                for position, sample in enumerate(self.suspects)
            ],
        }

    @cached_property
    def pictures(self) -> frozenset[int]:
        """The samples whose pictures may be shown."""
        typical = (sample for number in self._classes_shown() for sample in self.audit.typical[number])
        return frozenset((*self.suspects, *(int(self.audit.evidence[one]) for one in self.suspects), *typical))

    def thumbnail(self, sample: int) -> bytes:
        """A small JPEG of a picture; UnreadableFileError if it has been removed or is broken."""
        stream = io.BytesIO()
        read_thumbnail(FolderSource(self.root, depth=1), self.paths[sample], THUMBNAIL).save(
            stream, "JPEG", quality=QUALITY
        )
        return stream.getvalue()

    def _classes_shown(self) -> list[int]:
        rows = list(self.suspects)
        return sorted({*map(int, self.audit.given[rows]), *map(int, self.audit.suggested[rows])})


def review_of(root: Path, audit: Audit, paths: Sequence[str], out: Path, commands: dict[str, str]) -> Review:
    """The suspects with the decisions that were made about them before."""
    suspects = tuple(_decidable(audit.suspects, paths))
    suggestions = [
        Suggestion(
            paths[sample],
            content_hash(root / paths[sample]),
            audit.classes[audit.given[sample]],
            audit.classes[audit.suggested[sample]],
        )
        for sample in suspects
    ]
    return Review(root, audit, tuple(paths), suspects, DecisionFile(out, suggestions), commands)


def _decidable(suspects: Iterable[int], paths: Sequence[str]) -> list[int]:
    """Without files whose names are not UTF-8, because a decision about them could not be written as JSON."""
    found, odd = [], 0
    for sample in suspects:
        try:
            paths[sample].encode()
            found.append(sample)
        except UnicodeEncodeError:
            odd += 1
    if odd:
        log.warning("%d suspects have a name that is not UTF-8: rename them to decide about them", odd)
    return found
