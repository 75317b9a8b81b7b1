"""Prototypical networks: predictions against a slow loop, and the gradient of their loss."""

import pytest
import torch

from eigen_reptile.data import Sine
from eigen_reptile.methods import Prototypical
from eigen_reptile.training.config import Experiment
from embeddings import headless_batch
from meta_batches import (
    SHOTS,
    WAY,
    finite_difference,
    gradient_of,
    image_experiment,
    meta_batch_of,
    predictions,
    random_direction,
)


def test_predictions_against_a_slow_loop() -> None:
    batch = headless_batch(Prototypical(), tasks=3)
    network, tasks = batch.network, batch.tasks
    found = predictions(Prototypical(), batch)
    for task in range(3):
        features = network.output(batch.theta[0], torch.cat([tasks.x[0, task], tasks.query_x[0, task]]))
        support, queries = features[: WAY * SHOTS], features[WAY * SHOTS :]
        for number, query in enumerate(queries):
            for way in range(WAY):
                members = torch.stack([support[m] for m in range(WAY * SHOTS) if tasks.y[0, task, m] == way])
                distance = float(((query - members.sum(0) / len(members)) ** 2).sum())
                assert float(found[0, task, number, way]) == pytest.approx(-distance)


def test_gradients_against_finite_differences() -> None:
    batch = meta_batch_of(image_experiment(Prototypical()))
    gradient = gradient_of(Prototypical(), batch)
    generator = torch.Generator().manual_seed(0)
    for _ in range(4):
        along = random_direction(gradient, generator)
        expected = finite_difference(Prototypical(), batch, along, 1e-6)
        assert float(gradient @ along) == pytest.approx(expected, rel=1e-4, abs=1e-7)


def test_regression_is_refused() -> None:
    with pytest.raises(ValueError, match="can only classify"):
        Experiment(Prototypical(), Sine())
