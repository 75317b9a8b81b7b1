"""An experiment with its data loaded and its network built: what training and evaluation work on."""

from typing import Literal, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import pad

from eigen_reptile.data import Bank, Banks, TaskShape, require_finite
from eigen_reptile.data.image_bank import images_by_class
from eigen_reptile.errors import ConfigError
from eigen_reptile.inner import InnerState
from eigen_reptile.methods import TaskSpec
from eigen_reptile.nn import Conv4, CrossEntropy, FlatModule, Network, SquaredError
from eigen_reptile.nn.compiler import OPTIONS, Compiler
from eigen_reptile.noise import LabelFlipper, add_noise, outside_task, wrong_count
from eigen_reptile.runtime.distributed import ALONE, Workers
from eigen_reptile.runtime.memory import check_memory, out_of_memory_as_run_error
from eigen_reptile.runtime.progress import StartProgress, phase
from eigen_reptile.training.config import Experiment
from eigen_reptile.training.evaluate import Initialisation
from eigen_reptile.training.footprint import check_footprint, evaluation_bytes, training_bytes
from eigen_reptile.training.head import check_new_head, with_new_head

Device = Literal["auto", "cpu", "cuda", "mps"]


class Setup(NamedTuple):
    """An experiment that is ready to run."""

    exp: Experiment
    network: Network
    tested: Network
    """The network of validation and test tasks: another one if these have another number of classes."""
    compiler: Compiler | None
    """Compiles the meta-update as a whole if the networks of all tasks are batched, otherwise parts of it."""
    banks: Banks
    classes: dict[str, dict[str, int]] | None
    """The number of images of each class of each split, without label noise; None if classes have no names."""
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

    def initialisation(self, theta: Float[Tensor, "S D"], state: InnerState) -> Initialisation:
        """What was learnt, as validation and test tasks need it."""
        exp = self.exp
        if self.tested is not self.network:
            seeds = [replica.seed for replica in exp.replicas]
            theta, state = with_new_head(self.network.module, self.tested.module, theta, state, seeds)
        return Initialisation(theta, state, exp.inner, exp.method)

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
    with phase(start_progress, "loading data"):
        loaded = exp.data.load(start_progress)
        banks, flipper = add_noise(loaded, exp.noise, exp.evaluation.noisy)
    if trains and exp.task.epochs:
        require_finite(banks.train)
    training = TaskShape(exp.task.way, exp.task.shots, exp.task.queries)
    if not exp.task.epochs and trains:
        training = banks.train.feasible_shape(training)
    shapes = [TaskShape(exp.tested_way, shots, exp.evaluation.queries) for shots in exp.evaluation.shots]
    validation, tests = banks.validation.feasible_shape(shapes[0]), [*map(banks.test.feasible_shape, shapes)]
    sizes = exp, count_parameters(exp, banks.train.shape, exp.task.way), banks.train.shape
    if trains:
        check_footprint("training", training_bytes(*sizes, training))
    check_footprint("evaluation", evaluation_bytes(*sizes, (validation, *tests)))
    compiler = _compiler(exp, place)
    network = build_network(exp, banks.train.shape, place, exp.task.way, compiler)
    setup = Setup(
        exp=exp,
        network=network,
        tested=_tested_network(exp, network, banks.train, place),
        compiler=compiler,
        banks=banks,
        classes=_classes(loaded),
        flipper=flipper,
        device=place,
        workers=workers,
        training=training,
        validation=validation,
        tests=tuple(tests),
    )
    _check_outliers(setup)
    return setup


def _check_outliers(setup: Setup) -> None:
    """DataError if the support of validation and test tasks is to have outliers, and there are no other classes."""
    config = setup.exp.evaluation
    if config.support_noise == "outlier":
        for bank, shape in [(setup.banks.validation, setup.validation), *((setup.banks.test, x) for x in setup.tests)]:
            outside_task(bank, shape, wrong_count(config.support_rate, shape.shots))


def _classes(banks: Banks) -> dict[str, dict[str, int]] | None:
    named = {split: images for split, bank in banks._asdict().items() if (images := images_by_class(bank)) is not None}
    return named if len(named) == len(banks) else None


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


def count_parameters(exp: Experiment, shape: tuple[int, ...], outputs: int) -> int:
    """Parameters of the experiment's network for inputs of this shape, without allocating them."""
    with torch.device("meta"):
        return sum(parameter.numel() for parameter in exp.model.build(shape, outputs).parameters())


def build_network(
    exp: Experiment, shape: tuple[int, ...], device: torch.device, outputs: int, compiler: Compiler | None
) -> Network:
    """The experiment's network for inputs of this shape. For regression, where way is 1, it has one output."""
    parameters = count_parameters(exp, shape, outputs)
    check_memory(parameters * exp.dtype.itemsize, f"a network of {parameters:,} parameters", "use a smaller network")
    module = FlatModule(lambda: exp.model.build(shape, outputs).to(exp.dtype), device)
    if exp.method.requirements.inner_loop:
        if module.running:
            raise ConfigError("an inner loop needs the statistics of its mini-batches: set `model.statistics` to batch")
        if isinstance(exp.model, Conv4) and not exp.model.head:
            raise ConfigError("this method adapts a classifier: `model.head` must be true")
    loss = CrossEntropy() if exp.data.is_classification else SquaredError()
    return Network(module, loss, exp.model.batched, None if exp.model.batched else compiler)


def _tested_network(exp: Experiment, network: Network, train: Bank, device: torch.device) -> Network:
    """The same network, unless a classifier is to be adapted to tasks with another number of classes."""
    needs = exp.method.requirements
    if exp.tested_way == exp.task.way or not needs.inner_loop:
        return network
    if needs.extra_parameters(network, 0, TaskSpec(train.shape, exp.task.way, train.n_classes)).numel():
        raise ConfigError(
            f"`evaluation.way` must be the way of training, {exp.task.way}, not {exp.tested_way}: this method learns "
            "parameters beside the network that depend on the number of classes"
        )
    tested = build_network(exp, train.shape, device, exp.tested_way, _compiler(exp, device))
    check_new_head(network.module, tested.module)
    return tested


def find_device(wanted: Device) -> torch.device:
    """The device of this name; `auto` is the fastest available. ConfigError if it is not available."""
    available = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if wanted == "auto":
        return torch.device(next(name for name, there in available.items() if there))
    if not available[wanted]:
        others = ", ".join(name for name, there in available.items() if there)
        raise ConfigError(f"`device` {wanted} is not available on this machine: use auto or {others}")
    return torch.device(wanted)


def is_better(exp: Experiment, score: torch.Tensor, best: torch.Tensor) -> torch.Tensor:
    """Where a score is better than the best so far; NaN never is."""
    return score > best if exp.data.is_classification else score < best
