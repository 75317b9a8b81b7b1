"""Small experiments, their first meta-batches, and what the tests of methods compute from them."""

import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from eigen_reptile.data import Sine
from eigen_reptile.inner import InnerConfig, InnerState
from eigen_reptile.methods import GradientMethod, LossInequality, Maml, MetaBatch, MetaUpdate, Method, TrajectoryMethod
from eigen_reptile.methods.gradient.gradient_method import META_LOSS
from eigen_reptile.methods.gradient.task_agnostic import FIRST, SECOND, inequality
from eigen_reptile.methods.trajectory.trajectory_method import DIRECTION
from eigen_reptile.nn import Conv4, Mlp
from eigen_reptile.runtime.progress import no_progress
from eigen_reptile.tasks import TaskConfig
from eigen_reptile.training.config import Experiment
from eigen_reptile.training.data import TrainingData
from eigen_reptile.training.evaluate import EvalConfig
from eigen_reptile.training.experiment import run
from eigen_reptile.training.setup import set_up
from eigen_reptile.training.state import TrainState
from patterns import Patterns

WAY, SHOTS = 3, 2
CPU = torch.device("cpu")
THREE_FILTERS = Conv4(3)


def image_experiment(method: Method, model: Conv4 = THREE_FILTERS) -> Experiment:
    return Experiment(
        method,
        Patterns(),
        model,
        TaskConfig(WAY, SHOTS, queries=3),
        inner=InnerConfig(steps=2, batch=WAY * SHOTS, lr=0.1, carry="fresh"),
        evaluation=EvalConfig(tasks=2, monitor_tasks=2, shots=(1,), queries=2, inner_steps=(2,), snapshot_steps=()),
        compile="off",
        precision="float64",
    )


def sine_experiment(method: Method) -> Experiment:
    inner = InnerConfig(steps=3, batch=10, lr=0.05)
    return Experiment(method, Sine(), Mlp((5, 4)), TaskConfig(shots=10), inner=inner, precision="float64")


def meta_batch_of(exp: Experiment, tasks: int = 3) -> MetaBatch:
    """The first meta-batch of an experiment, at a point near its initialisation."""
    setup = set_up(replace(exp, meta=replace(exp.meta, batch=tasks)), no_progress, "cpu")
    state = TrainState.fresh(setup)
    theta = state.theta
    # Away from where extra parameters start, so that nothing is the identity by chance.
    theta = theta + 0.05 * torch.randn(theta.shape, generator=torch.Generator().manual_seed(1), dtype=theta.dtype)
    data = TrainingData(setup).at(0)
    return MetaBatch(setup.network, theta, state.inner_state, *data, exp.inner, torch.tensor(0))


def gradient_of(method: Method, batch: MetaBatch) -> Tensor:
    """The meta-gradient of the first replica."""
    with torch.no_grad():
        return -method.meta_update(batch).direction[0]


def meta_loss(method: GradientMethod, batch: MetaBatch) -> float:
    """What is minimised, from the losses themselves; an inequality of losses is measured over all tasks."""
    means = {name: losses[:1].mean(1) for name, losses in method.meta_losses(batch).terms.items()}
    loss = float(means[META_LOSS])
    if isinstance(method, Maml) and isinstance(method.objective, LossInequality):
        objective = method.objective
        loss += objective.strength * float(inequality(objective.measure, means[FIRST], means[SECOND]))
    return loss


def finite_difference(method: GradientMethod, batch: MetaBatch, direction: Tensor, h: float) -> float:
    """The slope of the meta-loss along a direction."""
    high, low = (meta_loss(method, batch._replace(theta=batch.theta + sign * h * direction)) for sign in (1, -1))
    return (high - low) / (2 * h)


def random_direction(like: Tensor, generator: torch.Generator) -> Tensor:
    """A unit vector."""
    direction = torch.randn(like.shape, generator=generator, dtype=torch.float64)
    unit: Tensor = direction / direction.norm()
    return unit


def adapted(method: Method, batch: MetaBatch) -> Tensor:
    return method.adapt(batch.adaptation)[0]


def predictions(method: Method, batch: MetaBatch) -> Tensor:
    """Predictions for the queries, without adaptation."""
    return method.predict(batch.network, batch.adaptation.theta, batch.tasks, batch.tasks.query_x)


def random_walks(seed: int = 0, replicas: int = 2, tasks: int = 3, rows: int = 8, d: int = 20) -> Tensor:
    rng = np.random.default_rng(seed)
    steps = rng.normal(size=(replicas, tasks, rows, d)) + rng.normal(size=(replicas, tasks, 1, d))
    return torch.from_numpy(steps.cumsum(2))


def mean_direction(method: TrajectoryMethod, W: Tensor) -> Tensor:
    """The meta-update that follows from the trajectories of a meta-batch."""
    vector, stats, weights = method.direction_of(W)
    means = {name: values.mean(1) for name, values in stats.items()}
    return MetaUpdate({DIRECTION: vector.mean(1)}, means, InnerState.empty(W[:, 0, 0]), weights).direction


def check_resumed_in_the_same_bits(exp: Experiment, folder: Path) -> None:
    """An experiment of four iterations that is interrupted in the third ends like one that is not."""
    whole, interrupted = folder / "whole", folder / "interrupted"

    def copy_in_the_third(done: int, metrics: Mapping[str, float]) -> None:
        if done == 3:  # as a process would leave the folder that is killed now
            shutil.copytree(whole, interrupted)

    expected = run(
        exp,
        whole,
        lambda name, total: copy_in_the_third if name == whole.name else no_progress(name, total),
        checkpoint_every=2,
    )
    assert not (interrupted / "result.json").exists()
    found = run(exp, interrupted, checkpoint_every=2)
    last = "checkpoints/step-000000004.safetensors"
    assert (interrupted / last).read_bytes() == (whole / last).read_bytes()
    assert found.replicas == expected.replicas
    assert found.choice == expected.choice
    assert found.test == expected.test
    assert found.learning_curve.step == expected.learning_curve.step
    assert found.learning_curve.score == expected.learning_curve.score
