"""What training and evaluation act on: an experiment with its data loaded and its network built."""

from typing import Literal, NamedTuple

import torch

from eigen_reptile.config import Experiment
from eigen_reptile.data import Banks, TaskShape
from eigen_reptile.evaluate import MODES, Scores, Start, evaluate
from eigen_reptile.learner import Learner, class_error, squared_error
from eigen_reptile.progress import Announce, Report

Device = Literal["auto", "cpu", "cuda", "mps"]


class Stage(NamedTuple):
    exp: Experiment
    learner: Learner
    banks: Banks
    device: torch.device
    training: TaskShape
    """Tasks to train on: their queries are not looked at."""
    validation: TaskShape
    tests: tuple[TaskShape, ...]
    """One for each number of shots."""


def prepare(exp: Experiment, announce: Announce, device: Device = "auto") -> Stage:
    """Load the data and build the network; whatever would stop the experiment later, stops it here."""
    banks = exp.data.load(announce)
    shapes = [TaskShape(exp.task.way, shots, exp.evaluation.queries) for shots in exp.evaluation.shots]
    outputs = exp.task.way  # one number for regression, where way is 1
    learner = Learner(
        lambda: exp.model.build(banks.train.shape, outputs),
        class_error if exp.data.classifies else squared_error,
        exp.model.batched,
    )
    place = found_device(device)
    return Stage(
        exp=exp,
        learner=learner.to(place),
        banks=banks,
        device=place,
        training=banks.train.fitted(TaskShape(exp.task.way, exp.task.shots, 0)),
        validation=banks.validation.fitted(shapes[0]),
        tests=tuple(banks.test.fitted(shape) for shape in shapes),
    )


def found_device(wanted: Device) -> torch.device:
    """The device of this name; `auto` is the fastest that there is. ValueError if it is not there."""
    there = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if wanted == "auto":
        return torch.device(next(name for name, available in there.items() if available))
    if not there[wanted]:
        raise ValueError(
            f"there is no {wanted} here: use one of auto, {', '.join(n for n, here in there.items() if here)}"
        )
    return torch.device(wanted)


def validate(stage: Stage, start: Start, tasks: int, report: Report) -> Scores:
    """Scores on the first tasks of the validation list, by the measure that decides."""
    modes = MODES[-1:] if stage.exp.data.classifies else ()
    config = stage.exp.evaluation
    bank, shape = stage.banks.validation, stage.validation
    return evaluate(stage.learner, bank, start, config, "validation", shape, tasks, modes, report)


def test(stage: Stage, start: Start, shape: TaskShape, report: Report) -> Scores:
    """Scores on the test list, by every measure."""
    modes = MODES if stage.exp.data.classifies else ()
    config = stage.exp.evaluation
    return evaluate(stage.learner, stage.banks.test, start, config, "test", shape, config.tasks, modes, report)


def better(exp: Experiment, score: torch.Tensor, best: torch.Tensor) -> torch.Tensor:
    """Where a score beats the best so far; one that is not a number never does."""
    return score > best if exp.data.classifies else score < best
