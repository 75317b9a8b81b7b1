"""An experiment with its data loaded and its network built: what training and evaluation work on."""

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import pad

from eigen_reptile.data import Bank, Banks, TaskShape, require_finite
from eigen_reptile.errors import ConfigError
from eigen_reptile.methods import TaskSpec
from eigen_reptile.nn import Conv4, CrossEntropy, FlatModule, Network, SquaredError
from eigen_reptile.nn.compiler import OPTIONS, Compiler
from eigen_reptile.noise import LabelFlipper, add_noise
from eigen_reptile.runtime.distributed import ALONE, Workers
from eigen_reptile.runtime.memory import check_memory, out_of_memory_as_run_error
from eigen_reptile.runtime.progress import ReportProgress, StartProgress
from eigen_reptile.runtime.rng import Purpose
from eigen_reptile.training.config import Experiment
from eigen_reptile.training.evaluate import MODES, Initialisation, Mode, Scores, evaluate

Device = Literal["auto", "cpu", "cuda", "mps"]


class Setup(NamedTuple):
    """An experiment that is ready to run."""

    exp: Experiment
    network: Network
    compiler: Compiler | None
    """Compiles the meta-update as a whole if the networks of all tasks are batched, otherwise parts of it."""
    banks: Banks
    flipper: LabelFlipper | None
    """Noise in the labels of each training mini-batch."""
    device: torch.device
    workers: Workers
    training: TaskShape
    validation: TaskShape
    tests: tuple[TaskShape, ...]
    """One for each number of shots."""

    @property
    def spec(self) -> TaskSpec:
        """What the method may know about its tasks beforehand."""
        bank = self.banks.train
        return TaskSpec(bank.shape, self.training.way, bank.n_classes)

    @property
    def compiled(self) -> bool | None:
        """Whether training is compiled; None if it is not to be, or has not begun."""
        return None if self.compiler is None else self.compiler.works

    def running_statistics(self, theta: Float[Tensor, "S D"]) -> Bool[Tensor, "D"] | None:
        """Which entries of theta are running statistics; None if there are none."""
        module = self.network.module
        if not module.running:
            return None
        return pad(module.mask(module.running, theta.device), (0, theta.shape[1] - module.d))


@out_of_memory_as_run_error()
def set_up(
    exp: Experiment,
    start_progress: StartProgress,
    device: Device = "auto",
    workers: Workers = ALONE,
    trains: bool = True,
) -> Setup:
    """Load the data and build the network; whatever would stop the experiment later is reported here.

    `trains` is False if the experiment is only evaluated, which needs no training tasks.
    """
    if trains:
        _check_training(exp, workers)
    place = find_device(device)
    banks, flipper = add_noise(exp.data.load(start_progress), exp.noise, exp.evaluation.noisy)
    if trains and exp.task.epochs:
        require_finite(banks.train)
    training = TaskShape(exp.task.way, exp.task.shots, exp.task.queries)
    compiler = _compiler(exp, place)
    shapes = [TaskShape(exp.tested_way, shots, exp.evaluation.queries) for shots in exp.evaluation.shots]
    return Setup(
        exp=exp,
        network=build_network(exp, banks.train.shape, place, None if exp.model.batched else compiler),
        compiler=compiler,
        banks=banks,
        flipper=flipper,
        device=place,
        workers=workers,
        training=training if exp.task.epochs or not trains else banks.train.feasible_shape(training),
        validation=banks.validation.feasible_shape(shapes[0]),
        tests=tuple(banks.test.feasible_shape(shape) for shape in shapes),
    )


def _check_training(exp: Experiment, workers: Workers) -> None:
    needs = exp.method.requirements
    if workers.count > exp.meta.batch:
        raise ConfigError(
            f"{workers.count} `workers` cannot share the {exp.meta.batch} tasks of a meta-batch: use at most "
            f"{exp.meta.batch} workers, or a larger `meta.batch`"
        )
    if exp.meta.batch < needs.min_tasks:
        raise ConfigError(
            f"this method compares tasks: `meta.batch` must be at least {needs.min_tasks}, not {exp.meta.batch}"
        )
    if needs.distinct_samples and exp.inner.batch is not None:
        drawn = needs.batches_to_draw(exp.inner) * exp.inner.batch
        if drawn > exp.task.support:
            raise ConfigError(
                f"this method selects among {drawn} different samples of a task, but a task has {exp.task.support}: "
                f"`task.shots` must be at least {-(-drawn // exp.task.way)}"
            )


def _compiler(exp: Experiment, device: torch.device) -> Compiler | None:
    if not exp.compiles or not (exp.model.batched or device.type == "cpu"):
        return None
    required = exp.compile == "on"
    if not exp.model.batched:
        return Compiler(required)
    return Compiler(required, fullgraph=False, dynamic=False, options=OPTIONS if device.type == "cpu" else None)


def build_network(
    exp: Experiment, shape: tuple[int, ...], device: torch.device, compiler: Compiler | None = None
) -> Network:
    """The experiment's network for inputs of this shape."""
    outputs = exp.task.way  # one output for regression, where way is 1
    with torch.device("meta"):  # which allocates nothing
        parameters = sum(parameter.numel() for parameter in exp.model.build(shape, outputs).parameters())
    check_memory(parameters * exp.dtype.itemsize, f"a network of {parameters:,} parameters")
    module = FlatModule(lambda: exp.model.build(shape, outputs).to(exp.dtype), device)
    if exp.method.requirements.inner_loop:
        if module.running:
            raise ConfigError("an inner loop needs the statistics of its mini-batches: set `model.statistics` to batch")
        if isinstance(exp.model, Conv4) and not exp.model.head:
            raise ConfigError("this method adapts a classifier: `model.head` must be true")
    loss = CrossEntropy() if exp.data.is_classification else SquaredError()
    return Network(module, loss, exp.model.batched, compiler)


def find_device(wanted: Device) -> torch.device:
    """The device of this name; `auto` is the fastest available. ConfigError if it is not available."""
    available = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if wanted == "auto":
        return torch.device(next(name for name, there in available.items() if there))
    if not available[wanted]:
        others = ", ".join(name for name, there in available.items() if there)
        raise ConfigError(f"`device` {wanted} is not available on this machine: use auto or {others}")
    return torch.device(wanted)


def validate(setup: Setup, initialisation: Initialisation, tasks: int, report: ReportProgress) -> Scores:
    """Scores on the first tasks of the validation list, by the decisive measure."""
    modes = MODES[-1:] if setup.exp.data.is_classification else ()
    bank, shape = setup.banks.validation, setup.validation
    return _evaluate_on_all_workers(setup, bank, initialisation, "validation", shape, tasks, modes, report)


def evaluate_test(setup: Setup, initialisation: Initialisation, shape: TaskShape, report: ReportProgress) -> Scores:
    """Scores on the test list, by every measure."""
    modes = MODES if setup.exp.data.is_classification else ()
    count = setup.exp.evaluation.tasks
    return _evaluate_on_all_workers(setup, setup.banks.test, initialisation, "test", shape, count, modes, report)


def _evaluate_on_all_workers(
    setup: Setup,
    bank: Bank,
    initialisation: Initialisation,
    purpose: Purpose,
    shape: TaskShape,
    count: int,
    modes: Sequence[Mode],
    report: ReportProgress,
) -> Scores:
    """Scores on the first `count` tasks of a list, which are shared between the workers."""
    workers = setup.workers
    numbers = workers.own_indices(count)

    def report_all(done: int, metrics: Mapping[str, float]) -> None:
        report(min(done * workers.count, count), metrics)

    config = setup.exp.evaluation
    own = evaluate(setup.network, bank, initialisation, config, purpose, shape, numbers, modes, report_all)
    values = torch.zeros((own.values.shape[0], count, own.values.shape[2]), dtype=torch.float64)
    values[:, numbers] = torch.from_numpy(own.values)
    (values,) = workers.all_reduce([values.to(setup.device)])
    return own._replace(values=values.cpu().numpy())


def is_better(exp: Experiment, score: torch.Tensor, best: torch.Tensor) -> torch.Tensor:
    """Where a score is better than the best so far; NaN never is."""
    return score > best if exp.data.is_classification else score < best
