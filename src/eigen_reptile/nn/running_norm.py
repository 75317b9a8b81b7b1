"""Batch-norm that uses running statistics outside of training."""

from typing import Any, final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd import Function
from torch.nn.functional import batch_norm

RUNNING_STATISTICS = ("mean", "variance")
"""The parameters that are running statistics."""
MOMENTUM = 0.1
"""Momentum of the running statistics, as in torch."""


@final
class RunningNorm(nn.Module):
    """Batch-norm whose running statistics are parameters like any other.

    In training it uses the statistics of the batch. The gradient of a running statistic is then its difference from
    that of the batch, whatever the loss: so it is averaged over tasks, shared between workers and resumed like any
    gradient, and a step of `MOMENTUM` along its negative is the usual moving average. Outside of training it uses the
    running ones.
    """

    def __init__(self, size: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps = eps
        self.weight, self.bias = nn.Parameter(torch.ones(size)), nn.Parameter(torch.zeros(size))
        self.mean, self.variance = nn.Parameter(torch.zeros(size)), nn.Parameter(torch.ones(size))

    def forward(self, x: Float[Tensor, "n c *places"]) -> Float[Tensor, "n c *places"]:
        if not self.training:
            return batch_norm(x, self.mean, self.variance, self.weight, self.bias, training=False, eps=self.eps)
        normal = batch_norm(x, None, None, self.weight, self.bias, training=True, eps=self.eps)
        variance, mean = torch.var_mean(x.detach().transpose(0, 1).flatten(1), dim=1)
        tracked: Tensor = _TrackStatistics.apply(normal, self.mean, self.variance, mean, variance)  # type: ignore[no-untyped-call]
        return tracked


@final
class _TrackStatistics(Function):
    """The identity on x; the gradient of the running statistics is their difference from those of the batch."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, mean: Tensor, variance: Tensor, batch_mean: Tensor, batch_var: Tensor) -> Tensor:
        ctx.save_for_backward(mean - batch_mean, variance - batch_var)
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor, None, None]:
        mean, variance = ctx.saved_tensors
        return gradients[0], mean, variance, None, None
