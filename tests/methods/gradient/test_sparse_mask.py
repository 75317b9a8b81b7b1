"""Sparse-MAML: the gradient of the mask by its formula."""

import torch

from eigen_reptile.methods import AdaptedParameters, Maml, SparseMask
from meta_batches import gradient_of, image_experiment, meta_batch_of


def test_the_gradient_of_the_mask_by_its_formula() -> None:
    """Minus the rate times the sum over steps of the inner gradients, times the outer gradient."""
    method = Maml(order=1, adapted=AdaptedParameters(norms=True), transform=SparseMask(rate=2.0))
    batch = meta_batch_of(image_experiment(method), tasks=1)
    network, d = batch.network, batch.network.d
    point, mask = batch.theta[:, None, :d], (batch.theta[:, None, d:] > 0).double()
    assert 0.3 < float(mask.mean()) < 0.7
    total = torch.zeros_like(point)
    tasks, batches = batch.tasks, batch.batches
    for step in range(2):
        x = tasks.x[:, :, batches.chosen[0, 0, step]]
        gradient = network.gradient(point, x, batches.y[:, :, step], batches.weight[:, :, step].double())
        total += gradient
        point = point - batch.inner.lr * mask * gradient
    ones = torch.ones(tasks.query_y.shape, dtype=torch.float64)
    outer = network.gradient(point, tasks.query_x, tasks.query_y, ones)[0, 0]
    found = gradient_of(method, batch)
    torch.testing.assert_close(found[:d], outer)
    torch.testing.assert_close(found[d:], -2.0 * batch.inner.lr * total[0, 0] * outer)
