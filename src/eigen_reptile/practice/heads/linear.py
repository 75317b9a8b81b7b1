"""Linear classifiers of all tasks at once: the smallest loss plus a ridge, by accelerated gradient descent."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from eigen_reptile.nn.losses import SampleLoss
from eigen_reptile.practice.heads.head import LinearHead, Support
from eigen_reptile.practice.heads.scaling import Scaling

STEPS = 300
"""Gradient steps; a fixed number, so that no task depends on the others."""
CURVATURE = 0.5
"""Bound on the second derivatives of the losses by the logits."""


def fit_linear(support: Support, loss: SampleLoss, ridge: float) -> LinearHead:
    """The weights and biases that minimise the sum of the losses + ridge / 2 * (their squares), on scaled features.

    The gradient by the weights is a combination of the samples, and so are the weights if they start at zero. Descent
    on the coefficients of that combination needs only products of samples, however many features they have.
    """
    support = support.double()
    scaling = Scaling.of(support)
    x = scaling(support.x)
    gram = x @ x.mT + 1  # the bias is the weight of a feature that is always 1
    coefficients = _minimum(gram, support.y, support.way, loss, ridge)
    return scaling.undone(coefficients.mT @ x, coefficients.sum(1))


def _minimum(
    gram: Float[Tensor, "T m m"], y: Int[Tensor, "T m"], way: int, loss: SampleLoss, ridge: float
) -> Float[Tensor, "T m way"]:
    """Nesterov's method for strongly convex functions, https://doi.org/10.1007/978-1-4419-8853-9, scheme 2.2.11."""
    smoothness = CURVATURE * torch.linalg.matrix_norm(gram)[:, None, None] + ridge
    root = (ridge / smoothness).sqrt()
    momentum = (1 - root) / (1 + root)
    now = ahead = gram.new_zeros(*y.shape, way)
    for _ in range(STEPS):
        before, now = now, ahead - (_gradient(gram @ ahead, y, loss) + ridge * ahead) / smoothness
        ahead = now + momentum * (now - before)
    return now


def _gradient(logits: Float[Tensor, "T m way"], y: Int[Tensor, "T m"], loss: SampleLoss) -> Float[Tensor, "T m way"]:
    with torch.enable_grad():
        inputs = logits.detach().requires_grad_()
        (gradient,) = torch.autograd.grad(loss(inputs, y).sum(), inputs)
    return gradient
