"""Single tasks that are shown in reports: fitted curves, and images with their predicted classes."""

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int

from eigen_reptile.data import Bank, TaskShape
from eigen_reptile.nn import Network
from eigen_reptile.tasks import Tasks
from eigen_reptile.training.evaluate import EvalConfig, Initialisation, adapt_in_stages, draw_tasks, predict_curves
from eigen_reptile.training.query_batches import predict_transductively

NO_CLASS = -1
"""Stands for the predicted class where the logits are not finite."""


class FittedCurves(NamedTuple):
    """Fitted curves on one regression task, before and while adapting to it."""

    x: Float[np.ndarray, "q"]
    truth: Float[np.ndarray, "q"]
    support: Float[np.ndarray, "2 m"]
    curves: Float[np.ndarray, "S K q"]


class ExamplePredictions(NamedTuple):
    """One classification task, and the class that each initialisation predicts for each query."""

    task: Tasks
    predicted: Int[np.ndarray, "S q"]


@torch.no_grad()
def fit_curves(
    network: Network, bank: Bank, initialisation: Initialisation, config: EvalConfig, task: TaskShape
) -> FittedCurves:
    """The curves that each initialisation fits to one fixed regression task."""
    tasks, batches = draw_tasks(bank, initialisation, config, "snapshot", task, [0])
    curves = predict_curves(network, initialisation, tasks, batches, config)
    return FittedCurves(
        x=tasks.query_x[0, 0, :, 0].cpu().numpy(),
        truth=tasks.query_y[0, 0, :, 0].cpu().numpy(),
        support=torch.stack([tasks.x[0, 0, :, 0], tasks.y[0, 0, :, 0]]).cpu().numpy(),
        curves=curves[:, 0, :, :, 0].cpu().numpy(),
    )


@torch.no_grad()
def predict_example(
    network: Network, bank: Bank, initialisation: Initialisation, config: EvalConfig, task: TaskShape
) -> ExamplePredictions:
    """One fixed classification task with the predictions of each initialisation, to be shown."""
    tasks, batches = draw_tasks(bank, initialisation, config, "snapshot", task, [0])
    theta = next(adapt_in_stages(network, initialisation, tasks, batches, config.inner_steps[-1:]))
    logits = predict_transductively(network, initialisation.method, theta, tasks)[:, 0]
    predicted = logits.argmax(-1).masked_fill(~logits.isfinite().all(-1), NO_CLASS)
    return ExamplePredictions(Tasks(*(part[:1] for part in tasks)), predicted.cpu().numpy())
