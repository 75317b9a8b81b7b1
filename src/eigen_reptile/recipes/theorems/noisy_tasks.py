"""Glyph tasks with wrong labels, and inner-loop trajectories on them from a trained initialisation."""

from dataclasses import replace
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from eigen_reptile.data import Glyphs
from eigen_reptile.inner import InnerConfig
from eigen_reptile.methods import METHODS
from eigen_reptile.nn import Network
from eigen_reptile.noise import NoiseConfig
from eigen_reptile.runtime.process import configure_process
from eigen_reptile.runtime.progress import StartProgress
from eigen_reptile.tasks import Batches, Tasks, take_samples
from eigen_reptile.training.config import Experiment, MetaConfig
from eigen_reptile.training.data import TrainingData
from eigen_reptile.training.loop import iterate
from eigen_reptile.training.presets import preset
from eigen_reptile.training.setup import Setup, set_up
from eigen_reptile.training.state import TrainState

TRAINING_STEPS = 150
"""Outer iterations of Reptile that give the initialisation of the inner loops."""
SGD = InnerConfig(steps=7, batch=10, lr=0.05)
"""Plain gradient descent, where each step is a sum of contributions of single samples; with Adam it is not."""


class SplitTrajectory(NamedTuple):
    """The trajectory of one task's inner loop, and the part of its movement that is due to wrong labels."""

    whole: Float[Tensor, "rows d"]
    from_wrong_labels: Float[Tensor, "rows d"]


def noisy_experiment(rate: float) -> Experiment:
    """Single tasks under symmetric noise at this rate, with candidates for ISPL."""
    exp = preset(Glyphs(), METHODS["eigen-reptile-ispl"])
    return replace(exp, meta=MetaConfig(batch=1), noise=NoiseConfig("symmetric", rate, "task"))


def trained_theta(start_progress: StartProgress) -> Float[Tensor, "d"]:
    """An initialisation that Reptile learnt on clean tasks."""
    configure_process()
    exp = replace(preset(Glyphs(), METHODS["reptile"]), meta=MetaConfig(steps=TRAINING_STEPS, batch=5))
    setup = set_up(exp, start_progress, "cpu")
    report = start_progress("training an initialisation", TRAINING_STEPS)
    state, data = TrainState.fresh(setup), TrainingData(setup)
    with torch.no_grad():
        for iteration in range(TRAINING_STEPS):
            state, _ = iterate(setup, exp.method.meta_update, state, *data.at(iteration))
            report(iteration + 1, {})
    return state.theta[0]


def noisy_setup(rate: float, start_progress: StartProgress) -> Setup:
    return set_up(noisy_experiment(rate), start_progress, "cpu")


def split_trajectory(network: Network, theta: Float[Tensor, "d"], tasks: Tasks, batches: Batches) -> SplitTrajectory:
    """The inner loop of the first task, with the contribution of wrong labels to each step."""
    point = theta[None, None]
    points, wrong_sums = [point], [torch.zeros_like(point)]
    for step in range(SGD.steps):
        x = take_samples(tasks.x, batches.chosen[:, :, step])
        y, weight, is_clean = (part[:, :, step] for part in (batches.y, batches.weight, batches.is_clean))
        is_wrong = (~is_clean).float()
        wrong_gradient = is_wrong.mean() * network.gradient(point, x, y, is_wrong)
        point = point - SGD.lr * network.gradient(point, x, y, weight)
        points.append(point)
        wrong_sums.append(wrong_sums[-1] - SGD.lr * wrong_gradient)
    return SplitTrajectory(*(torch.cat(rows)[:, 0] for rows in (points, wrong_sums)))


def eigenvalues(W: Float[Tensor, "rows d"]) -> Float[Tensor, "rows"]:
    """The eigenvalues of the scatter matrix, largest first, without those that are zero because there are few rows."""
    centred = (W - W.mean(0)).double()
    ascending: Tensor = torch.linalg.eigvalsh(centred @ centred.T)
    return ascending.flip(0).clamp(min=0)
