"""An experiment: every setting in one frozen object, and its JSON form."""

import math
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from typing import Any, Literal, cast

import cattrs
import torch
from cattrs.strategies import configure_tagged_union, include_subclasses

from eigen_reptile.data import Dataset, Sine
from eigen_reptile.evaluate import EvalConfig
from eigen_reptile.inner import InnerConfig
from eigen_reptile.methods import EigenReptile, Method, Selected, Selector
from eigen_reptile.models import Conv4, Mlp, Model
from eigen_reptile.noise import NoiseConfig
from eigen_reptile.tasks import TaskConfig


@dataclass(frozen=True)
class MetaConfig:
    """The outer loop."""

    steps: int = 30_000
    """Outer iterations (T)."""
    batch: int = 1
    """Tasks in each meta-batch (B)."""
    lr: tuple[float, ...] = (1.0,)
    """Outer step size (beta) at the start. Several are trained side by side, and validation chooses among them."""
    final_lr: float = 0.0
    """Outer step size after the last iteration; in between it falls along a straight line."""
    optimizer: Literal["step", "adam"] = "step"
    """Take the method's direction as it is, times the step size; or let Adam make a step out of it."""
    clip: float | None = None
    """What each number of the direction is cut to, either way; default: it is not."""
    keep: Literal["last", "best"] = "last"
    """Which initialisation is tested: the last one, or the one that did best on the monitored validation tasks."""
    patience: int = 0
    """Stop after this many points of the learning curve without a new best in any lane; 0: never."""

    def __post_init__(self) -> None:
        for name in ("steps", "batch"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")
        if self.patience < 0:
            raise ValueError(f"patience must be at least 0, not {self.patience}")
        if not self.lr or not all(0 < lr < math.inf for lr in self.lr):
            raise ValueError(f"lr must hold one or more finite step sizes above 0, not {self.lr}")
        if len(set(self.lr)) < len(self.lr):
            raise ValueError(f"lr names a step size twice: {self.lr}")
        if self.clip is not None and not self.clip > 0:
            raise ValueError(f"clip must be above 0, not {self.clip}")
        if not 0 <= self.final_lr < math.inf:
            raise ValueError(f"final_lr must be finite and at least 0, not {self.final_lr}")

    def lr_at(self, lr: float, step: int) -> float:
        """The step size of iteration `step`, counted from 0, in the lane that starts with `lr`."""
        return lr + (self.final_lr - lr) * step / self.steps


@dataclass(frozen=True)
class Lane:
    """One of the trainings that run side by side."""

    lr: float
    seed: int


@dataclass(frozen=True)
class Experiment:
    """One experiment: a method, a data set, and how they are trained and judged."""

    method: Method = EigenReptile()
    """The meta-learning method; its fields are its settings."""
    data: Dataset = Sine()
    """The data set."""
    model: Model = Mlp()
    """The network."""
    task: TaskConfig = TaskConfig()
    """What one training task holds."""
    noise: NoiseConfig = NoiseConfig()
    """Wrong labels in training."""
    inner: InnerConfig = InnerConfig()
    """The inner loop."""
    meta: MetaConfig = field(default_factory=MetaConfig)
    """The outer loop."""
    evaluation: EvalConfig = EvalConfig()
    """Validation and test."""
    seeds: tuple[int, ...] = (0,)
    """Seeds, trained side by side. A seed settles the initial network, the tasks and the batches."""
    compile: Literal["auto", "on", "off"] = "auto"
    """torch.compile: needs a C++ compiler and some 20 s to start, fewer the next time. Then it is many times faster on
    small networks, and half as fast again on pictures. With `auto` it is used for the MLP from 3,000 iterations on and
    for Conv4 on a CPU from 1,000, and done without where it does not work."""

    precision: Literal["float32", "float64"] = "float32"
    """Numbers to compute with. In float64 it is slower, but what should be the same is so to ten digits."""

    def __post_init__(self) -> None:
        if not self.seeds or not all(0 <= seed < 2**63 for seed in self.seeds):
            raise ValueError(f"seeds must hold one or more whole numbers from 0 to 2**63 - 1, not {self.seeds}")
        if len(set(self.seeds)) < len(self.seeds):
            raise ValueError(f"seeds names a seed twice: {self.seeds}")
        if self.method.classifies and not self.data.classifies:
            raise ValueError("this method tells classes apart: use it on a data set of pictures")
        self.method.batches(self.inner)  # a ValueError if it cannot have them
        if self.evaluation.noisy and self.noise.kind == "none":
            raise ValueError("there is no noise to evaluate with: --noise.kind symmetric, or another")
        if self.method.wants_queries and self.data.classifies and self.task.queries < 1:
            raise ValueError("this method learns from queries: use --task.queries 15, or another number above 0")
        if self.task.epochs and not self.method.takes_whole_set:
            raise ValueError("this method learns from tasks, not from the whole training set: leave out --task.epochs")
        if self.data.classifies and self.task.way < 2:
            raise ValueError(f"task.way must be at least 2, not {self.task.way}: there must be classes to tell apart")
        memory = self.inner.optimizer == "adam" and self.inner.carry == "shared"
        if memory and self.method.has_inner_loop and self.method.wants_queries:
            raise ValueError("this method starts each inner loop without memory: use --inner.carry fresh")
        headless = isinstance(self.model, Conv4) and not self.model.head
        if self.tested_way != self.task.way and not (self.method.any_way and headless):
            raise ValueError(
                f"this method answers in as many classes as it was trained on, {self.task.way}: leave out "
                "--evaluation.way, or use it for a metric method on a network without a head"
            )

    @property
    def tested_way(self) -> int:
        """Classes in a task of validation and test."""
        return self.evaluation.way or self.task.way

    @property
    def compiles(self) -> bool:
        """Whether compiling is asked for, or would pay."""
        least = self.model.compile_from
        pays = least is not None and self.meta.steps >= least
        return self.compile == "on" or (self.compile == "auto" and pays)

    @property
    def dtype(self) -> torch.dtype:
        return torch.float64 if self.precision == "float64" else torch.float32

    @cached_property
    def lanes(self) -> tuple[Lane, ...]:
        """All that is trained side by side, one outer step size after the other."""
        return tuple(Lane(lr, seed) for lr in self.meta.lr for seed in self.seeds)


def standard(data: Dataset, method: Method, filters: int | None = None) -> Experiment:
    """The settings to begin with on a data set: the paper's, but for pictures in a size that a laptop can do.

    What differs from section 5.2 is the number of iterations (there 100,000), the inner rate (there 0.0005, which
    suits long runs) and the number of tasks in the evaluation. The network is as wide as suits the method, unless
    its filters are given.
    """
    if not data.classifies:
        curves = Experiment(data=data)
        samples = method.batches(curves.inner) * curves.inner.batch
        meta = MetaConfig(lr=(1e-3,), final_lr=1e-3, optimizer="adam") if method.wants_queries else curves.meta
        meta = replace(meta, batch=max(meta.batch, method.least_tasks))
        return replace(curves, method=method, task=TaskConfig(shots=max(curves.task.shots, samples)), meta=meta)
    way, inner = 5, InnerConfig(steps=7, batch=10, lr=0.002, optimizer="adam")
    shots, model, meta = 15, Conv4(filters or Conv4.filters), MetaConfig(steps=3000, batch=5, keep="best")
    queries, after, batch, epochs = 15, 50, 15, False
    if own := method.suggests:
        own = own.for_characters() if data.characters else own
        inner = InnerConfig(own.steps, way * own.shots, own.lr, carry="fresh")
        shots, model = own.shots, replace(own.model, filters=filters or own.model.filters)
        meta = replace(meta, batch=own.tasks, lr=(own.outer_lr,), optimizer="adam", clip=own.clip)
        queries, after, batch, epochs = own.queries, own.after, WHOLE, own.epochs
    if isinstance(method, Selected):  # enough for no picture to come twice
        shots = max(shots, -(-method.batches(inner) * inner.batch // way))
    return Experiment(
        method=method,
        data=data,
        model=model,
        task=TaskConfig(way, shots, queries if method.wants_queries else 0, epochs),
        inner=inner,
        meta=meta,
        evaluation=EvalConfig(
            tasks=200, monitor_tasks=100, every=500, shots=(1, 5), queries=15, after=(after,), batch=batch, pictures=()
        ),
    )


WHOLE = 1000
"""More samples than any support has: all of it."""


KINDS = (Selector, Method, Dataset, Model)
"""Whatever comes in several kinds, each a class of its own."""


def _converter() -> cattrs.Converter:
    return _converter_for(tuple(known for kind in KINDS for known in _subclasses(kind)))


@cache
def _converter_for(known: tuple[type, ...]) -> cattrs.Converter:
    """A converter that knows these classes, among them those that a user has added since the last one was made."""
    converter = cattrs.Converter(forbid_extra_keys=True)
    for kind in KINDS:
        include_subclasses(kind, converter, union_strategy=partial(configure_tagged_union, tag_name="kind"))
    return converter


def _subclasses(kind: type) -> list[type]:
    children: list[type] = kind.__subclasses__()
    return [found for child in children for found in (child, *_subclasses(child))]


def to_json(experiment: Experiment) -> dict[str, Any]:
    """The experiment as plain dicts, lists and numbers; the method carries its class as `kind`."""
    return cast(dict[str, Any], _listed(_converter().unstructure(experiment, Experiment)))


def from_json(value: Any) -> Experiment:
    """The experiment that `to_json` wrote, with defaults for settings that are missing; ValueError if it is not one."""
    if not isinstance(value, dict):
        raise ValueError(f"not a valid experiment: a {type(value).__name__} in place of named settings")
    try:
        return _converter().structure(value, Experiment)
    except cattrs.BaseValidationError as error:
        reasons = cattrs.transform_error(error, format_exception=lambda reason, _: str(reason))
        raise ValueError("not a valid experiment: " + "; ".join(reasons)) from error


def _listed(value: Any) -> Any:
    """Tuples as lists and infinity as text, as JSON will have them, so that what is written equals what is read."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {key: _listed(item) for key, item in value.items()}
    return [_listed(item) for item in value] if isinstance(value, tuple | list) else value
