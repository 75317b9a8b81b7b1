"""What training and evaluation act on: an experiment with its data loaded and its network built."""

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import pad

from eigen_reptile.config import Experiment
from eigen_reptile.data import Bank, Banks, TaskShape
from eigen_reptile.distributed import ALONE, Workers
from eigen_reptile.evaluate import MODES, Mode, Scores, Start, evaluate
from eigen_reptile.files import RunError
from eigen_reptile.learner import Learner, class_error, squared_error
from eigen_reptile.methods import Domain, Selected
from eigen_reptile.models import Conv4
from eigen_reptile.noise import Flips, with_noise
from eigen_reptile.progress import Announce, Report
from eigen_reptile.streams import Purpose

Device = Literal["auto", "cpu", "cuda", "mps"]


class Stage(NamedTuple):
    exp: Experiment
    learner: Learner
    banks: Banks
    flips: Flips | None
    """What is to be done to the labels of each mini-batch in training."""
    device: torch.device
    workers: Workers
    training: TaskShape
    """Tasks to train on."""
    validation: TaskShape
    tests: tuple[TaskShape, ...]
    """One for each number of shots."""

    @property
    def domain(self) -> Domain:
        """What the method may know of its tasks beforehand."""
        bank = self.banks.train
        return Domain(bank.shape, self.training.way, bank.class_numbers)

    def running(self, theta: Float[Tensor, "S D"]) -> Bool[Tensor, "D"] | None:
        """Which numbers of theta are running statistics, or None if there are none."""
        learner = self.learner
        if not learner.statistics:
            return None
        return pad(learner.where(learner.statistics), (0, theta.shape[1] - learner.d)).to(theta.device)


def prepare(
    exp: Experiment, announce: Announce, device: Device = "auto", workers: Workers = ALONE, trains: bool = True
) -> Stage:
    """Load the data and build the network; whatever would stop the experiment later, stops it here.

    One that is only evaluated, because it has been trained elsewhere, needs no training tasks.
    """
    if workers.count > exp.meta.batch:
        raise RunError(
            f"{workers.count} workers cannot share the {exp.meta.batch} tasks of a meta-batch: "
            f"use at most --workers {exp.meta.batch}"
        )
    if trains and exp.meta.batch < exp.method.least_tasks:
        raise RunError(f"this method compares tasks: use --meta.batch {exp.method.least_tasks} or more")
    drawn, there = exp.method.batches(exp.inner) * exp.inner.batch, exp.task.way * exp.task.shots
    if trains and isinstance(exp.method, Selected) and drawn > there:
        raise RunError(
            f"this method chooses among {drawn} different samples of a task, but a task has {there}: "
            f"use --task.shots {-(-drawn // exp.task.way)} or more"
        )
    banks, flips = with_noise(exp.data.load(announce), exp.noise, exp.evaluation.noisy)
    training = TaskShape(exp.task.way, exp.task.shots, exp.task.queries)
    shapes = [TaskShape(exp.tested_way, shots, exp.evaluation.queries) for shots in exp.evaluation.shots]
    outputs = exp.task.way  # one number for regression, where way is 1
    learner = Learner(
        lambda: exp.model.build(banks.train.shape, outputs).to(exp.dtype),
        class_error if exp.data.classifies else squared_error,
        exp.model.batched,
    )
    if exp.method.has_inner_loop:
        if learner.statistics:
            raise RunError("an inner loop goes by the statistics of its mini-batches: use --model.statistics batch")
        if isinstance(exp.model, Conv4) and not exp.model.head:
            raise RunError("this method adapts a network that says classes: leave out --model.no-head")
    place = found_device(device)
    if exp.compiles and place.type == "cpu":
        learner = learner.compiled(required=exp.compile == "on")
    return Stage(
        exp=exp,
        learner=learner.to(place),
        banks=banks,
        flips=flips,
        device=place,
        workers=workers,
        training=training if exp.task.epochs or not trains else banks.train.fitted(training),
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
    return _shared_out(stage, stage.banks.validation, start, "validation", stage.validation, tasks, modes, report)


def test(stage: Stage, start: Start, shape: TaskShape, report: Report) -> Scores:
    """Scores on the test list, by every measure."""
    modes = MODES if stage.exp.data.classifies else ()
    return _shared_out(stage, stage.banks.test, start, "test", shape, stage.exp.evaluation.tasks, modes, report)


def _shared_out(
    stage: Stage,
    bank: Bank,
    start: Start,
    purpose: Purpose,
    shape: TaskShape,
    count: int,
    modes: Sequence[Mode],
    report: Report,
) -> Scores:
    """Scores on the first `count` tasks of a list; each worker evaluates its share of them."""
    workers = stage.workers
    numbers = workers.share(count)

    def report_all(done: int, metrics: Mapping[str, float]) -> None:
        report(min(done * workers.count, count), metrics)

    own = evaluate(stage.learner, bank, start, stage.exp.evaluation, purpose, shape, numbers, modes, report_all)
    values = torch.zeros((own.values.shape[0], count, own.values.shape[2]), dtype=torch.float64)
    values[:, numbers] = torch.from_numpy(own.values)
    (values,) = workers.summed([values.to(stage.device)])
    return own._replace(values=values.cpu().numpy())


def better(exp: Experiment, score: torch.Tensor, best: torch.Tensor) -> torch.Tensor:
    """Where a score beats the best so far; one that is not a number never does."""
    return score > best if exp.data.classifies else score < best
