"""ECM: its loss against a slow loop, and the vectors that it fits to a new task."""

from collections.abc import Callable
from functools import partial
from typing import Literal

import numpy as np
import pytest
import torch
from torch import Tensor

from eigen_reptile.methods import Ecm, Method, Prototypical, RobustLoss
from eigen_reptile.methods.gradient.gradient_method import META_LOSS
from embeddings import CLASSES, FEATURES, bank_labels, features, headless_batch, slow_cross_entropy
from meta_batches import WAY, gradient_of, predictions


@pytest.mark.parametrize("among", ["task", "bank"])
def test_the_loss_against_a_slow_loop(among: Literal["task", "bank"]) -> None:
    method = Ecm(among=among)
    batch = headless_batch(method)
    centres = batch.theta[0, batch.network.d :].view(CLASSES, FEATURES).numpy()
    found = method.meta_losses(batch).terms[META_LOSS]
    for task in range(2):
        choice = batch.tasks.classes[0, task].tolist() if among == "task" else list(range(CLASSES))
        points = np.concatenate(features(batch, task))
        losses = [
            slow_cross_entropy([-float(((point - centres[k]) ** 2).sum()) for k in choice], choice.index(label))
            for point, label in zip(points, bank_labels(batch, task), strict=True)
        ]
        assert float(found[0, task]) == pytest.approx(float(np.mean(losses)))


def generalised_cross_entropy(logits: Tensor, y: Tensor) -> Tensor:
    p = logits.softmax(1)[torch.arange(len(y)), y]
    return ((1 - p**0.4) / 0.4).mean()


@pytest.mark.parametrize(
    ("wrap", "loss"),
    [(lambda ecm: ecm, torch.nn.functional.cross_entropy), (partial(RobustLoss, q=0.4), generalised_cross_entropy)],
    ids=["plain", "robust"],
)
def test_the_vectors_of_a_new_task_descend_the_gradient(
    wrap: Callable[[Method], Method], loss: Callable[[Tensor, Tensor], Tensor]
) -> None:
    method = wrap(Ecm(steps=3, rate=0.7))
    batch = headless_batch(method)
    with torch.no_grad():
        found = predictions(method, batch)
    for task in range(2):
        support, queries = (torch.from_numpy(part) for part in features(batch, task))
        y = batch.tasks.y[0, task]
        centres = torch.stack([support[y == way].mean(0) for way in range(WAY)])
        for _ in range(3):
            centres.requires_grad_()
            distances = torch.stack([((support - centre) ** 2).sum(1) for centre in centres], dim=1)
            (gradient,) = torch.autograd.grad(loss(-distances, y), centres)
            centres = (centres - 0.7 * gradient).detach()
        expected = -torch.stack([((queries - centre) ** 2).sum(1) for centre in centres], dim=1)
        torch.testing.assert_close(found[0, task], expected)


def test_without_steps_it_predicts_like_prototypical_networks() -> None:
    batch = headless_batch(Ecm())
    network_only = batch._replace(theta=batch.theta[:, : batch.network.d])
    assert torch.equal(predictions(Ecm(steps=0), batch), predictions(Prototypical(), network_only))


def test_only_the_vectors_of_the_classes_in_the_task_move() -> None:
    batch = headless_batch(Ecm(), tasks=1)
    moved = gradient_of(Ecm(), batch)[batch.network.d :].view(CLASSES, FEATURES).abs().sum(1) > 0
    assert set(moved.nonzero().flatten().tolist()) == set(batch.tasks.classes.flatten().tolist())


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(ValueError, match=r"`method\.steps`"):
        Ecm(steps=-1)
    with pytest.raises(ValueError, match=r"`method\.rate`"):
        Ecm(rate=0.0)
