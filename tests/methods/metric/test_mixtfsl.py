"""MixtFSL: its losses against slow loops."""

import math

import numpy as np
import pytest
import torch

from eigen_reptile.methods import MetaBatch, MixtFsl
from eigen_reptile.methods.gradient.gradient_method import META_LOSS
from embeddings import (
    CLASSES,
    FEATURES,
    WITH_EXTRA_PARAMETERS,
    bank_labels,
    features,
    headless_batch,
    slow_cross_entropy,
)
from meta_batches import WAY, gradient_of, predictions


def unit(x: np.ndarray) -> np.ndarray:
    """Vectors of length one; the origin stays where it is."""
    result: np.ndarray = x / np.maximum(np.linalg.norm(x, axis=-1, keepdims=True), 1e-12)
    return result


def slow_mixture(method: MixtFsl, batch: MetaBatch, task: int) -> tuple[float, float, list[int]]:
    """The losses among classes and among components, and the component of each sample."""
    extra = batch.theta[0, batch.network.d :].view(CLASSES, method.components, FEATURES).numpy()
    components, points = unit(extra), unit(np.concatenate(features(batch, task)))
    labels = bank_labels(batch, task)

    def loss(point: np.ndarray, against: list[np.ndarray], own: int) -> float:
        cosines = [float(point @ one) for one in against]
        if cosines[own] > 0:
            cosines[own] = math.cos(math.acos(cosines[own]) + method.margin)
        return slow_cross_entropy([cosine / method.temperature for cosine in cosines], own)

    nearest = []
    for point, label in zip(points, labels, strict=True):
        cosines = [float(point @ components[label, one]) for one in range(method.components)]
        nearest.append((label, cosines.index(max(cosines))))
    present = sorted(set(nearest))
    centroids = [components[label].mean(0) for label in range(CLASSES)]
    samples = list(zip(points, labels, nearest, strict=True))
    classes = [loss(point, centroids, label) for point, label, _ in samples]
    parts = [loss(point, [components[one] for one in present], present.index(own)) for point, _, own in samples]
    indices = [label * method.components + one for label, one in nearest]
    return float(np.mean(classes)), float(np.mean(parts)), indices


@pytest.mark.parametrize(("temperature", "margin"), [(0.025, 0.01), (0.5, 0.4)])
def test_the_loss_against_a_slow_loop(temperature: float, margin: float) -> None:
    method = MixtFsl(3, temperature, margin)
    batch = headless_batch(method)
    found = method.meta_losses(batch).terms[META_LOSS]
    for task in range(2):
        classes, parts, _ = slow_mixture(method, batch, task)
        assert float(found[0, task]) == pytest.approx(classes + parts)


def test_each_sample_belongs_to_the_nearest_component_of_its_class() -> None:
    method = MixtFsl(3)
    batch = headless_batch(method)
    components = unit(batch.theta[0, batch.network.d :].view(-1, FEATURES).numpy())
    chosen = set()
    for task in range(2):
        cosines = unit(np.concatenate(features(batch, task))) @ components.T
        labels = torch.tensor(bank_labels(batch, task))[None, None]
        found = method.nearest(torch.from_numpy(cosines)[None, None], labels)[0, 0].tolist()
        assert found == slow_mixture(method, batch, task)[2]
        chosen |= {one % 3 for one in found}
    assert len(chosen) > 1


def test_components_move_only_by_their_own_loss() -> None:
    """The mean of a class's components attracts samples, but they do not attract it."""
    method = WITH_EXTRA_PARAMETERS["mixtfsl"]
    batch = headless_batch(method, tasks=1)
    gradient = gradient_of(method, batch)
    along = torch.randn(gradient.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    along[: batch.network.d] = 0
    high, low = (slow_mixture(method, batch._replace(theta=batch.theta + h * along), 0) for h in (1e-6, -1e-6))
    assert high[2] == low[2]
    assert float(gradient @ along) == pytest.approx((high[1] - low[1]) / 2e-6, rel=1e-5)


def test_a_sample_on_its_component_has_a_gradient() -> None:
    cosines = torch.tensor([[[[1.0, -1.0, 0.3]]]], requires_grad=True)
    MixtFsl().scores(cosines, torch.tensor([[[0]]])).sum().backward()
    assert cosines.grad is not None
    assert cosines.grad.isfinite().all()


def test_predictions_are_cosines_with_the_class_means() -> None:
    batch = headless_batch(MixtFsl())
    found = predictions(MixtFsl(), batch)
    for task in range(2):
        support, queries = features(batch, task)
        y = batch.tasks.y[0, task].numpy()
        for way in range(WAY):
            expected = unit(queries) @ unit(support[y == way].mean(0))
            np.testing.assert_allclose(found[0, task, :, way].numpy(), expected, rtol=1e-10)


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(ValueError, match=r"`method\.components`"):
        MixtFsl(components=0)
    with pytest.raises(ValueError, match=r"`method\.temperature`"):
        MixtFsl(temperature=0.0)
    with pytest.raises(ValueError, match=r"`method\.margin`"):
        MixtFsl(margin=2.0)
