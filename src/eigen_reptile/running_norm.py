"""Batch-norm that goes by the statistics of training when training is over."""

from typing import Any, final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd import Function
from torch.nn.functional import batch_norm

RUNNING = ("mean", "variance")
"""The parameters that are running statistics."""
RATE = 0.1
"""How far a running statistic goes towards that of the batch in each iteration, as torch has it."""


@final
class RunningNorm(nn.Module):
    """Batch-norm whose running statistics are parameters like any other.

    In training it goes by the statistics of its batch. The gradient of a running one is then its distance from the
    batch's, whatever the loss: so it is averaged over tasks, shared by workers and resumed like all gradients, and a
    step of `RATE` down it is the usual moving average. A network that is not in training goes by the running ones.
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
        noted: Tensor = _Noted.apply(normal, self.mean, self.variance, mean, variance)  # type: ignore[no-untyped-call]
        return noted


@final
class _Noted(Function):
    """What it is given, and the distance of running statistics from those of a batch as their gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, mean: Tensor, variance: Tensor, batch_mean: Tensor, batch_var: Tensor) -> Tensor:
        ctx.save_for_backward(mean - batch_mean, variance - batch_var)
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor, None, None]:
        mean, variance = ctx.saved_tensors
        return gradients[0], mean, variance, None, None
