"""Presets: the settings that suit a method on a data set."""

from dataclasses import dataclass, replace
from typing import final

from eigen_reptile.data import Dataset
from eigen_reptile.inner import InnerConfig
from eigen_reptile.methods import (
    Gnn,
    GradientMethod,
    Maml,
    MetaCurvature,
    MetaDropout,
    Metal,
    Method,
    MetricMethod,
    MixtFsl,
    RobustLoss,
    SparseMask,
    WarpedSteps,
    WithSampleSelection,
)
from eigen_reptile.nn import Conv4
from eigen_reptile.tasks import TaskConfig
from eigen_reptile.training.config import Experiment, MetaConfig
from eigen_reptile.training.evaluate import EvalConfig

WAY = 5


@final
@dataclass(frozen=True)
class ImagePreset:
    """Settings that suit a method on images, where they are not the paper's for Reptile and Eigen-Reptile.

    The first three concern the inner loop; methods without one do not use them.
    """

    steps: int = 1
    """Inner steps on the whole support, by plain gradient descent."""
    lr: float = 1.0
    """Their learning rate, for the mean loss."""
    evaluation_steps: int = 1
    """Inner steps in evaluation."""
    outer_lr: float = 1e-3
    """Initial learning rate of the outer Adam; it decays to zero."""
    full_outer_lr: float | None = None
    """The authors' own rate, for runs as long as theirs; None if shorter runs use it too."""
    clip: float | None = None
    """Bound on the entries of the meta-gradient."""
    tasks: int = 4
    """Tasks in a meta-batch."""
    shots: int = 1
    """Support samples of each class."""
    queries: int = 15
    """Queries of each class."""
    epochs: bool = False
    """Train on batches of the whole training set."""
    model: Conv4 = Conv4(pooling="valid")
    iterations: int = 60_000
    """Outer iterations of the authors, for the scale `full`."""
    on_characters: "ImagePreset | None" = None
    """Settings for characters, where they are known."""

    def for_characters(self) -> "ImagePreset":
        """Settings for short runs on characters: by default larger steps, and more tasks with fewer queries."""
        return self.on_characters or replace(self, outer_lr=3 * self.outer_lr, tasks=2 * self.tasks, queries=5)


ONE_STEP = ImagePreset(steps=1, lr=0.4, evaluation_steps=3, outer_lr=3e-3, clip=10.0, tasks=16, queries=5)
"""For characters: one large inner step, as MAML's authors use on Omniglot, with 32 tasks of fewer queries."""
MAML = ImagePreset(steps=5, lr=0.05, evaluation_steps=10, clip=10.0, on_characters=ONE_STEP)
"""The settings of MAML's authors, whose loss is N times the mean: their inner rate of 0.01 is 0.05 here."""
CURVATURE = replace(MAML, model=Conv4(128, "valid"), on_characters=replace(ONE_STEP, model=Conv4(128, "valid")))
SPARSE = ImagePreset(steps=35, lr=0.1, evaluation_steps=35, tasks=2, model=Conv4(64, "valid"), iterations=40_000)
WARP = ImagePreset(steps=5, lr=0.1, evaluation_steps=5, tasks=1, shots=5, model=Conv4(64, "valid", layers="warp"))
"""The settings of others who ran it on mini-ImageNet; the authors published no code for that."""
METAL = ImagePreset(steps=5, lr=0.01, evaluation_steps=5, tasks=2, model=Conv4(48, "valid"), iterations=50_000)
DROPOUT = ImagePreset(
    steps=5, lr=0.01, evaluation_steps=5, full_outer_lr=1e-4, clip=3.0, model=Conv4(pooling="valid", layers="noise")
)
METRIC = ImagePreset(model=Conv4(64, "valid", head=False))
MIXTFSL = replace(METRIC, tasks=2, queries=19, epochs=True, iterations=115_200)
"""Two batches of 100 images, in passes over the training set; the authors' 600 epochs are 115,200 batches of 200."""


def image_preset(method: Method) -> ImagePreset | None:
    """What suits this method on images; None: the paper's settings for Reptile and Eigen-Reptile."""
    match method:
        case WithSampleSelection() | RobustLoss():
            return image_preset(method.method)
        case Maml(transform=MetaCurvature()):
            return CURVATURE
        case Maml(transform=SparseMask()):
            return SPARSE
        case Maml(objective=WarpedSteps()):
            return WARP
        case Metal():
            return METAL
        case MetaDropout():
            return replace(DROPOUT, on_characters=replace(DROPOUT.for_characters(), lr=0.1))
        case Gnn():
            return replace(METRIC, iterations=80_000)
        case MixtFsl():
            return replace(MIXTFSL, on_characters=replace(MIXTFSL, outer_lr=3 * MIXTFSL.outer_lr))
        case MetricMethod():
            return METRIC
        case GradientMethod():
            return MAML
    return None


def preset(data: Dataset, method: Method, filters: int | None = None) -> Experiment:
    """The experiment to begin with: the paper's settings, for images scaled down to what a laptop can do.

    The differences from section 5.2 are the number of iterations (there 100,000), the inner learning rate (there
    0.0005, which suits long runs) and the number of tasks in evaluation. The network is as wide as suits the method,
    unless its number of filters is given.
    """
    return _image_experiment(data, method, filters) if data.is_classification else _regression_experiment(data, method)


def _regression_experiment(data: Dataset, method: Method) -> Experiment:
    needs, default = method.requirements, Experiment(data=data)
    assert default.inner.batch is not None
    samples = needs.batches_to_draw(default.inner) * default.inner.batch
    meta = MetaConfig(lr=(1e-3,), final_lr=1e-3, optimizer="adam") if needs.queries else default.meta
    meta = replace(meta, batch=max(meta.batch, needs.min_tasks))
    return replace(default, method=method, task=TaskConfig(shots=max(default.task.shots, samples)), meta=meta)


def _image_experiment(data: Dataset, method: Method, filters: int | None) -> Experiment:
    needs, own = method.requirements, image_preset(method)
    inner = InnerConfig(steps=7, batch=10, lr=0.002, optimizer="adam")
    task, model = TaskConfig(WAY, shots=15, queries=15), Conv4(filters or Conv4.filters)
    meta = MetaConfig(steps=3000, batch=5, keep="best")
    evaluation = EvalConfig(
        tasks=200, monitor_tasks=100, every=500, shots=(1, 5), queries=15, inner_steps=(50,), snapshot_steps=()
    )
    if own is not None:
        own = own.for_characters() if data.has_characters else own
        # A selector needs mini-batches to select from; everything else takes the whole support in each step.
        inner = InnerConfig(own.steps, WAY * own.shots if needs.distinct_samples else None, own.lr, carry="fresh")
        task, model = TaskConfig(WAY, own.shots, own.queries, own.epochs), own.model
        model = replace(model, filters=filters or model.filters)
        meta = replace(meta, batch=own.tasks, lr=(own.outer_lr,), optimizer="adam", clip=own.clip)
        evaluation = replace(evaluation, inner_steps=(own.evaluation_steps,), batch=None)
    if needs.distinct_samples:
        assert inner.batch is not None
        task = replace(task, shots=max(task.shots, -(-needs.batches_to_draw(inner) * inner.batch // WAY)))
    if not needs.queries:
        task = replace(task, queries=0)
    return Experiment(method=method, data=data, model=model, task=task, inner=inner, meta=meta, evaluation=evaluation)
