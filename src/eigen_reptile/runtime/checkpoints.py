"""The checkpoints of a run: step-000001000.safetensors with the tensors, and .json with the step and a checksum."""

import hashlib
import logging
import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, final

import safetensors.torch
from safetensors import SafetensorError
from torch import Tensor

from eigen_reptile.errors import RunError
from eigen_reptile.runtime.files import read_json, write_json, write_tensors

log = logging.getLogger(__name__)

KEPT_CHECKPOINTS = 2


class Checkpoint(NamedTuple):
    """The state of a run after `step` iterations."""

    step: int
    tensors: dict[str, Tensor]


@final
class Checkpoints:
    """The newest checkpoints in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def save(self, step: int, tensors: Mapping[str, Tensor]) -> None:
        """Save these tensors as the state after `step` iterations, and delete all but the newest checkpoints."""
        stem = self._stem(step)
        data = write_tensors(stem.with_suffix(".safetensors"), tensors)
        # The .json file is written last: a checkpoint without it is incomplete and is ignored.
        write_json(stem.with_suffix(".json"), {"step": step, "sha256": hashlib.sha256(data).hexdigest()})
        self._delete_all_but([old for old in self._steps() if old <= step][:KEPT_CHECKPOINTS])

    def load(self) -> Checkpoint | None:
        """The newest intact checkpoint, or None; damaged ones are skipped with a warning."""
        steps = self._steps()
        for step in steps:
            try:
                return _read_checkpoint(self._stem(step))
            except RunError as error:
                log.warning("the checkpoint of step %d is damaged (%s): skipping it", step, error)
        if steps:
            log.warning("no checkpoint in %s is intact: starting from the beginning", self._folder)
        return None

    def _delete_all_but(self, steps: list[int]) -> None:
        """Delete the other checkpoints: older ones, files that a killed process left half written, and later ones.

        Later ones are damaged, or the run would have continued from them. They must not displace intact ones.
        """
        kept = {self._stem(step).name for step in steps}
        for file in self._folder.glob("*step-*"):
            if file.stem not in kept:
                file.unlink(missing_ok=True)

    def _steps(self) -> list[int]:
        """The steps of all checkpoints, newest first."""
        names = (re.fullmatch(r"step-(\d{9})\.json", file.name) for file in self._folder.glob("*"))
        return sorted((int(name[1]) for name in names if name), reverse=True)

    def _stem(self, step: int) -> Path:
        return self._folder / f"step-{step:09d}"


def _read_checkpoint(stem: Path) -> Checkpoint:
    description = read_json(stem.with_suffix(".json"))
    try:
        data = stem.with_suffix(".safetensors").read_bytes()
    except OSError as error:
        raise RunError(str(error.strerror)) from error
    try:
        if hashlib.sha256(data).hexdigest() != description["sha256"]:
            raise RunError("its checksum is wrong")
        return Checkpoint(int(description["step"]), safetensors.torch.load(data))
    except (KeyError, TypeError, ValueError, SafetensorError) as error:
        raise RunError(str(error)) from error
