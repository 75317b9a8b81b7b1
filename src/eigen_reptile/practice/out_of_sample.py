"""What a head predicts for each sample of a support after learning from others only."""

import torch
from jaxtyping import Int
from torch import Tensor

from eigen_reptile.practice.heads import HEADS, Head, Support

MOST_LEFT_OUT = 100
"""Up to this number of samples each is left out on its own; above it, the samples are divided into folds."""
FOLDS = 10
ROTATABLE = tuple({type(head) for head in HEADS.values()})
"""Heads that depend on distances and products of samples only. One that learns from pixels does not."""


def out_of_sample_predictions(head: Head, support: Support) -> Int[Tensor, "m"]:
    """For the samples of one task: by leave-one-out if there are few, otherwise by cross-validation."""
    m, F = support.x.shape[1:]
    if m < F and isinstance(head, ROTATABLE):
        # Rotated into the subspace of the samples, which keeps all distances and products.
        support = support._replace(x=torch.linalg.qr(support.x.mT).R.mT)
    return _leave_one_out(head, support) if m <= MOST_LEFT_OUT else _cross_validation(head, support)


def _leave_one_out(head: Head, support: Support) -> Int[Tensor, "m"]:
    """The heads that each lack one sample are learnt side by side."""
    x, y = support.x[0], support.y[0]
    others = torch.arange(len(y)).repeat(len(y), 1)[~torch.eye(len(y), dtype=torch.bool)].view(len(y), -1)
    return head.fit(Support(x[others], y[others], support.way)).logits(x[:, None])[:, 0].argmax(-1)


def _cross_validation(head: Head, support: Support) -> Int[Tensor, "m"]:
    predicted = torch.empty_like(support.y[0])
    folds = _folds(support.y[0])
    for number in range(FOLDS):
        out = folds == number
        fitted = head.fit(Support(support.x[:, ~out], support.y[:, ~out], support.way))
        predicted[out] = fitted.logits(support.x[:, out])[0].argmax(-1)
    return predicted


def _folds(y: Int[Tensor, "m"]) -> Int[Tensor, "m"]:
    """Folds that have the same number of samples of each class, give or take one."""
    fold = torch.empty_like(y)
    fold[y.argsort(stable=True)] = torch.arange(len(y)) % FOLDS
    return fold
