"""An experiment: every setting in one frozen object."""

import math
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cached_property
from typing import Any, Literal, final

import torch

from eigen_reptile.data import Dataset, Sine
from eigen_reptile.errors import ConfigError
from eigen_reptile.inner import InnerConfig
from eigen_reptile.methods import EigenReptile, Method
from eigen_reptile.nn import Conv4, Mlp, Model
from eigen_reptile.noise import MIXED_RATES, NoiseConfig, check_support_noise, wrong_count
from eigen_reptile.tasks import TaskConfig
from eigen_reptile.training.evaluate import EvalConfig


@final
@dataclass(frozen=True)
class MetaConfig:
    """The outer loop."""

    steps: int = 30_000
    """Outer iterations (T)."""
    batch: int = 1
    """Tasks in each meta-batch (B)."""
    lr: tuple[float, ...] = (1.0,)
    """Initial outer step size (beta). Several are trained side by side, and validation chooses among them."""
    final_lr: float = 0.0
    """Outer step size after the last iteration, reached by linear decay."""
    optimizer: Literal["step", "adam"] = "step"
    """Multiply the method's direction by the step size, or pass it to Adam as a negative gradient."""
    clip: float | None = None
    """Bound on the absolute value of each entry of the direction; None: no bound."""
    keep: Literal["last", "best"] = "last"
    """Which initialisation is tested: the last one, or the best one on the monitored validation tasks."""
    patience: int = 0
    """Stop after this many points of the learning curve without a new best in any replica; 0: never."""

    def __post_init__(self) -> None:
        for name in ("steps", "batch"):
            if getattr(self, name) < 1:
                raise ConfigError(f"`meta.{name}` must be at least 1, not {getattr(self, name)}")
        if self.patience < 0:
            raise ConfigError(f"`meta.patience` must be at least 0, not {self.patience}")
        if not self.lr or not all(0 < lr < math.inf for lr in self.lr):
            raise ConfigError(f"`meta.lr` must hold one or more finite step sizes above 0, not {self.lr}")
        if len(set(self.lr)) < len(self.lr):
            raise ConfigError(f"`meta.lr` holds a step size twice: {self.lr}")
        if self.clip is not None and not self.clip > 0:
            raise ConfigError(f"`meta.clip` must be above 0, not {self.clip}")
        if not 0 <= self.final_lr < math.inf:
            raise ConfigError(f"`meta.final_lr` must be finite and at least 0, not {self.final_lr}")

    def lr_at(self, lr: float, step: int) -> float:
        """The step size at iteration `step`, counted from 0, of the replica that starts with `lr`."""
        return lr + (self.final_lr - lr) * step / self.steps


@final
@dataclass(frozen=True)
class Replica:
    """One of the trainings that run side by side."""

    lr: float
    seed: int


@final
@dataclass(frozen=True)
class Experiment:
    """One experiment: a method, a data set, and how they are trained and evaluated."""

    method: Method = EigenReptile()
    """The meta-learning method; its fields are its hyper-parameters."""
    data: Dataset = Sine()
    """The data set."""
    model: Model = Mlp()
    """The network."""
    task: TaskConfig = TaskConfig()
    """The composition of a training task."""
    noise: NoiseConfig = NoiseConfig()
    """Wrong labels in meta-training."""
    inner: InnerConfig = InnerConfig()
    """The inner loop."""
    meta: MetaConfig = field(default_factory=MetaConfig)
    """The outer loop."""
    evaluation: EvalConfig = EvalConfig()
    """Validation and test."""
    seeds: tuple[int, ...] = (0,)
    """Seeds, trained side by side. A seed determines the initial network, the tasks and the mini-batches."""
    compile: Literal["auto", "on", "off"] = "auto"
    """Whether to use torch.compile, which makes training faster, most of all on small networks, but needs a C++
    compiler and takes up to a minute to start, less the next time. `auto` uses it for the MLP from 3,000 iterations on
    and for Conv4 on a CPU from 1,000, and continues without it where it does not work."""
    precision: Literal["float32", "float64"] = "float32"
    """Floating-point type. float64 is slower, but results that should be equal agree to ten digits."""

    def __post_init__(self) -> None:
        if not self.seeds or not all(0 <= seed < 2**63 for seed in self.seeds):
            raise ConfigError(f"`seeds` must hold one or more whole numbers from 0 to 2**63 - 1, not {self.seeds}")
        if len(set(self.seeds)) < len(self.seeds):
            raise ConfigError(f"`seeds` holds a seed twice: {self.seeds}")
        check_sizes(self)
        if self.evaluation.noisy and self.noise.kind == "none":
            raise ConfigError("`evaluation.noisy` needs label noise: set `noise.kind` to symmetric, or another kind")
        self._check_support_noise()
        if self.data.is_classification and self.task.way < 2:
            raise ConfigError(f"`task.way` must be at least 2 for classification, not {self.task.way}")
        self._check_method()

    def _check_support_noise(self) -> None:
        """Refuse wrong labels in the support that tasks of this size cannot have."""
        config, mixed = self.evaluation, self.noise.kind == "mixed"
        if config.support_noise != "none":
            if not self.data.is_classification:
                raise ConfigError("`evaluation.support_noise` needs classes: use a data set of images")
            for shots in config.shots:
                check_support_noise(
                    config.support_noise, config.support_rate, self.tested_way, shots, "evaluation.support_rate"
                )
        if mixed and (config.noisy or self.task.epochs):
            setting = "evaluation.noisy" if config.noisy else "task.epochs"
            raise ConfigError(f"noise of the kind mixed is drawn for each training task: set `{setting}` to False")
        if mixed and self.data.is_classification and wrong_count(min(filter(None, MIXED_RATES)), self.task.shots) < 1:
            raise ConfigError(f"noise of the kind mixed needs more shots: `task.shots` is {self.task.shots}, use 5")

    def _check_method(self) -> None:
        """Whether the method can be used with these data, tasks and loops."""
        needs = self.method.requirements
        if needs.classification_only and not self.data.is_classification:
            raise ConfigError("this method can only classify: use it on a data set of images")
        needs.batches_to_draw(self.inner)
        if needs.queries and self.data.is_classification and self.task.queries < 1:
            raise ConfigError("this method learns from queries: `task.queries` must be above 0, for example 15")
        if self.task.epochs and not needs.supports_epochs:
            raise ConfigError(
                "this method learns from tasks, not from the whole training set: set `task.epochs` to False"
            )
        shared_state = self.inner.optimizer == "adam" and self.inner.carry == "shared"
        if shared_state and needs.inner_loop and needs.queries:
            raise ConfigError("this method starts every inner loop with a fresh optimiser: set `inner.carry` to fresh")
        headless = isinstance(self.model, Conv4) and not self.model.head
        new_head = needs.inner_loop and self.data.is_classification  # see training/head.py
        if self.tested_way != self.task.way and not (new_head or (needs.flexible_way and headless)):
            raise ConfigError(
                f"`evaluation.way` must be the way of training, {self.task.way}, not {self.tested_way}: only a method "
                "that adapts a classifier, or a metric method on a network without a head, can be tested with another"
            )

    @property
    def tested_way(self) -> int:
        """Classes in a validation or test task."""
        return self.evaluation.way or self.task.way

    @property
    def compiles(self) -> bool:
        """Whether compiling is requested, or expected to pay off."""
        least = self.model.compile_from
        pays_off = least is not None and self.meta.steps >= least
        return self.compile == "on" or (self.compile == "auto" and pays_off)

    @property
    def dtype(self) -> torch.dtype:
        return torch.float64 if self.precision == "float64" else torch.float32

    @cached_property
    def replicas(self) -> tuple[Replica, ...]:
        """Everything that is trained side by side, one outer step size after the other."""
        return tuple(Replica(lr, seed) for lr in self.meta.lr for seed in self.seeds)


def check_sizes(value: Any, name: str = "") -> None:
    """Refuse numbers that are too large for a float32 tensor or for its shape, wherever they are in an experiment."""
    if is_dataclass(value):
        for entry in fields(value):
            if not entry.name.startswith("seed"):  # seeds may have 63 bits
                check_sizes(getattr(value, entry.name), f"{name}.{entry.name}" if name else entry.name)
    elif isinstance(value, tuple):
        for item in value:
            check_sizes(item, name)
    elif isinstance(value, int) and value >= 2**31:
        raise ConfigError(f"`{name}` must be below 2**31, not {value}")
    elif isinstance(value, float) and math.isfinite(value) and abs(value) > torch.finfo(torch.float32).max:
        raise ConfigError(f"`{name}` is too large for float32: {value}")
