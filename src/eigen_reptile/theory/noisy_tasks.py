"""Tasks of glyphs with wrong labels, and what the inner loop does on them from a trained initialisation."""

from dataclasses import replace
from functools import cache
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from eigen_reptile.config import Experiment, MetaConfig, standard
from eigen_reptile.data import Glyphs
from eigen_reptile.inner import InnerConfig
from eigen_reptile.learner import Learner
from eigen_reptile.methods import METHODS
from eigen_reptile.noise import NoiseConfig
from eigen_reptile.progress import Announce
from eigen_reptile.stage import Stage, prepare
from eigen_reptile.state import TrainState
from eigen_reptile.tasks import Batches, Tasks, take_samples
from eigen_reptile.train import iterate, settle_machine, training_data

TRAINING = 150
"""Iterations of Reptile, so that the inner loop starts from something that has learnt to learn."""
SGD = InnerConfig(steps=7, batch=10, lr=0.05)
"""Plain gradient descent: only there each sample's part in a movement is its own."""


class Paths(NamedTuple):
    """The points of one task's inner loop, and what the wrong labels alone contributed to them."""

    all: Float[Tensor, "rows d"]
    wrong: Float[Tensor, "rows d"]


def experiment(rate: float) -> Experiment:
    exp = standard(Glyphs(), METHODS["eigen-reptile-ispl"])
    return replace(exp, meta=MetaConfig(batch=1), noise=NoiseConfig("symmetric", rate, "task"))


@cache
def trained(announce: Announce) -> Float[Tensor, "d"]:
    """An initialisation that Reptile has learnt on clean tasks."""
    settle_machine()
    exp = replace(standard(Glyphs(), METHODS["reptile"]), meta=MetaConfig(steps=TRAINING, batch=5))
    stage = prepare(exp, announce, "cpu")
    report = announce("training an initialisation", TRAINING)
    state = TrainState.fresh(stage)
    with torch.no_grad():
        for iteration in range(TRAINING):
            state, _ = iterate(stage, exp.method.propose, state, *training_data(stage, iteration))
            report(iteration + 1, {})
    return state.theta[0]


def noisy_stage(rate: float, announce: Announce) -> Stage:
    return prepare(experiment(rate), announce, "cpu")


def paths(learner: Learner, theta: Float[Tensor, "d"], tasks: Tasks, batches: Batches) -> Paths:
    """The inner loop of the first task, step by step, each split into what right and what wrong labels do."""
    point = theta[None, None]
    points, moved_by_wrong = [point], [torch.zeros_like(point)]
    for step in range(SGD.steps):
        x = take_samples(tasks.x, batches.chosen[:, :, step])
        y, weight, right = (part[:, :, step] for part in (batches.y, batches.weight, batches.right))
        share = (~right).float().mean()
        wrong = share * learner.gradient(point, x, y, (~right).float())
        point = point - SGD.lr * learner.gradient(point, x, y, weight)
        points.append(point)
        moved_by_wrong.append(moved_by_wrong[-1] - SGD.lr * wrong)
    return Paths(*(torch.cat(rows)[:, 0] for rows in (points, moved_by_wrong)))


def eigenvalues(W: Float[Tensor, "rows d"]) -> Float[Tensor, "rows"]:
    """Of the scatter of the points, largest first."""
    centred = (W - W.mean(0)).double()
    ascending: Tensor = torch.linalg.eigvalsh(centred @ centred.T)
    return ascending.flip(0).clamp(min=0)
