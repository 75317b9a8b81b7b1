"""The checkpoints of a run: step-000001000.safetensors with the tensors, and .json which vouches for them.

The .json file holds the step, the checksum of the tensors, the experiment that they belong to, the clock, and the
length and checksum of the metrics up to there, all under a checksum of its own.
"""

import hashlib
import logging
import math
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, final

from torch import Tensor

from eigen_reptile.errors import RunError
from eigen_reptile.runtime.checksums import with_checksum, without_checksum
from eigen_reptile.runtime.files import read_json, read_tensors, write_json, write_tensors
from eigen_reptile.runtime.metrics import Metrics, Written
from eigen_reptile.runtime.strict_json import strict_converter, structured

log = logging.getLogger(__name__)

KEPT_CHECKPOINTS = 2
EARLY = {"step", "sha256"}
"""The entries of descriptions without a checksum."""


class Clock(NamedTuple):
    """Seconds that a run has taken up to a checkpoint, over all of its starts."""

    training: float = 0.0
    """In outer iterations only."""
    total: float = 0.0
    """With validation and everything else."""


class Checkpoint(NamedTuple):
    """The state of a run after `step` iterations."""

    step: int
    tensors: dict[str, Tensor]
    clock: Clock


@final
@dataclass(frozen=True)
class Description:
    """What the .json file of a checkpoint holds. Early versions wrote the first two entries only."""

    step: int
    sha256: str
    """Of the file with the tensors."""
    experiment: str | None = None
    """Digest of the run's config."""
    clock: Clock | None = None
    metrics: Written | None = None
    """The metrics when the checkpoint was saved."""


@final
class Checkpoints:
    """The newest checkpoints of the run of one experiment."""

    def __init__(self, folder: Path, metrics: Metrics) -> None:
        self._folder = folder
        self._metrics = metrics

    def save(self, step: int, tensors: Mapping[str, Tensor], experiment: str, clock: Clock) -> None:
        """Save these tensors as the state after `step` iterations, and delete all but the newest checkpoints."""
        self._metrics.flush()
        stem = self._stem(step)
        data = write_tensors(stem.with_suffix(".safetensors"), tensors)
        sha256 = hashlib.sha256(data).hexdigest()
        description = Description(step, sha256, experiment, clock, self._metrics.written())
        # The .json file is written last: a checkpoint without it is incomplete and is ignored.
        write_json(stem.with_suffix(".json"), with_checksum(_CONVERTER.unstructure(description)))
        self._delete_all_but([old for old in self.steps() if old <= step][:KEPT_CHECKPOINTS])

    def load(self, experiment: str) -> Checkpoint | None:
        """The newest intact checkpoint, or None; damaged ones are skipped with a warning.

        RunError if the metrics up to each of the intact ones are damaged: half of a history must not be continued.
        """
        steps, damaged_metrics = self.steps(), ""
        for step in steps:
            try:
                tensors = self._read(step, experiment)
                if damaged_metrics := self._damaged_metrics(step):
                    log.warning("%s: skipping the checkpoint of step %d", damaged_metrics, step)
                else:
                    return Checkpoint(step, tensors, self.clock(step))
            except RunError as error:
                log.warning("the checkpoint of step %d is damaged (%s): skipping it", step, error)
        if damaged_metrics:
            raise RunError(
                f"{damaged_metrics}. Restore it from a copy; or delete {self._folder} to train from the beginning"
            )
        if steps:
            log.warning("no checkpoint in %s is intact: starting from the beginning", self._folder)
        return None

    def _read(self, step: int, experiment: str) -> dict[str, Tensor]:
        """The tensors of a step; RunError if they are damaged or belong to another experiment."""
        description = self.describe(step)
        if description.experiment not in (None, experiment):
            raise RunError("it belongs to a run with other settings")
        return read_tensors(self._stem(step).with_suffix(".safetensors"), description.sha256)

    def describe(self, step: int) -> Description:
        """The description of the checkpoint of a step; RunError if it is damaged."""
        file = self._stem(step).with_suffix(".json")
        value = read_json(file)
        try:
            if not isinstance(value, dict):
                raise ValueError("it is not an object")
            found: Description = structured(_CONVERTER, without_checksum(value, value.keys() == EARLY), Description)
        except ValueError as error:
            raise RunError(f"{file.name}: {error}") from error
        if found.step != step:
            raise RunError(f"{file.name} says that it is of step {found.step}")
        return found

    def clock(self, step: int) -> Clock:
        """The clock at the checkpoint of a step. Early versions did not save it, but logged the training time."""
        if clock := self.describe(step).clock:
            return clock
        logged = [line.get("seconds") for line in self._metrics.read() if line["step"] <= step]
        finite = (seconds for seconds in logged if isinstance(seconds, float) and math.isfinite(seconds))
        training = max(finite, default=0.0)
        return Clock(training, training)

    def damage(self, experiment: str) -> list[str]:
        """What is wrong with the checkpoints, and with the metrics up to them, one line each."""
        found = []
        for step in self.steps():
            try:
                self._read(step, experiment)
                found += [problem] if (problem := self._damaged_metrics(step)) else []
            except RunError as error:
                found.append(f"the checkpoint of step {step} in {self._folder} is damaged: {error}")
        return list(dict.fromkeys(found))

    def _damaged_metrics(self, step: int) -> str:
        """What is wrong with the metrics up to the checkpoint of a step; empty if nothing is."""
        return self._metrics.damage(self.describe(step).metrics)

    def steps(self) -> list[int]:
        """The steps of all checkpoints, newest first."""
        names = (re.fullmatch(r"step-(\d{9})\.json", file.name) for file in self._folder.glob("*"))
        return sorted((int(name[1]) for name in names if name), reverse=True)

    def delete_after(self, step: int) -> None:
        """Delete all checkpoints of later steps: the run continues from this one, so they are damaged."""
        self._delete_all_but([old for old in self.steps() if old <= step])

    def _delete_all_but(self, steps: list[int]) -> None:
        """Delete the other checkpoints: older ones, files that a killed process left half written, and later ones.

        Later ones are damaged, or the run would have continued from them. They must not displace intact ones.
        """
        kept = {self._stem(step).name for step in steps}
        for file in self._folder.glob("*step-*"):
            if file.stem not in kept:
                file.unlink(missing_ok=True)

    def _stem(self, step: int) -> Path:
        return self._folder / f"step-{step:09d}"


@contextmanager
def progress_is_saved() -> Iterator[None]:
    """What goes wrong here ends a run that can be continued, and the RunError says so."""
    try:
        yield
    except RunError as error:
        raise RunError(
            f"{error}. Progress up to the last checkpoint is saved: fix the problem and repeat the command"
        ) from error


_CONVERTER = strict_converter()
