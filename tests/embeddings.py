"""What the tests of metric methods compute from a meta-batch, slowly."""

import math
from typing import Any

import numpy as np
import torch

from eigen_reptile.methods import Ecm, Gnn, MetaBatch, Method, MixtFsl
from eigen_reptile.nn import Conv4
from meta_batches import SHOTS, WAY, image_experiment, meta_batch_of

SUPPORT, QUERIES, CLASSES, FEATURES = WAY * SHOTS, 9, 8, 3
SMALL_GNN = Gnn(width=5, edge=4, grown=3)
WITH_EXTRA_PARAMETERS: dict[str, Any] = {
    "gnn": SMALL_GNN,
    "ecm": Ecm(),
    "ecm, all classes": Ecm(among="bank"),
    "mixtfsl": MixtFsl(components=2, temperature=0.5, margin=0.2),
}
"""Metric methods that meta-learn more than the network."""


def headless_batch(method: Method, tasks: int = 2) -> MetaBatch:
    """A meta-batch for a network whose outputs are features."""
    return meta_batch_of(image_experiment(method, Conv4(FEATURES, head=False)), tasks)


def features(batch: MetaBatch, task: int) -> tuple[np.ndarray, np.ndarray]:
    """Features of support and queries of a task, from the network alone."""
    tasks, theta = batch.tasks, batch.theta[0, : batch.network.d]
    found = batch.network.output(theta, torch.cat([tasks.x[0, task], tasks.query_x[0, task]])).numpy()
    return found[:SUPPORT], found[SUPPORT:]


def bank_labels(batch: MetaBatch, task: int) -> list[int]:
    """The classes of all samples of a task, as indices among the training classes."""
    tasks = batch.tasks
    labels = [*tasks.y[0, task].tolist(), *tasks.query_y[0, task].tolist()]
    return [int(tasks.classes[0, task, label]) for label in labels]


def slow_cross_entropy(logits: list[float], label: int) -> float:
    top = max(logits)
    return top + math.log(sum(math.exp(logit - top) for logit in logits)) - logits[label]
