"""Batch-norm, 2x2 max-pooling and ReLU as one function with a gradient of its own.

Torch's own operations read and write a large feature map a dozen times for these three. Here it is read twice in the
forward pass, and read and written once in the backward pass; all other tensors have a quarter of its size. That pays
off where a compiler fuses each pass into one loop; run operation by operation it is slower than torch.
"""

from typing import Any, final

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd import Function
from torch.nn.functional import batch_norm, max_pool2d, relu


def pooled_norm(
    x: Float[Tensor, "n c h w"], scale: Float[Tensor, "c"], shift: Float[Tensor, "c"], eps: float, same: bool
) -> Float[Tensor, "n c p q"]:
    """Batch-norm with a scale and a shift, then 2x2 max-pooling, then ReLU.

    With `same` an odd row or column is pooled by itself; otherwise it is dropped after the statistics are computed.
    """
    if torch.compiler.is_compiling() and (same or (x.shape[2] % 2 == 0 and x.shape[3] % 2 == 0)):
        return fused_norm_pool(x, scale, shift, eps)
    normal = batch_norm(x, None, None, scale, shift, training=True, eps=eps)
    return max_pool_relu(normal, same)


def max_pool_relu(x: Float[Tensor, "n c h w"], same: bool) -> Float[Tensor, "n c p q"]:
    """2x2 max-pooling and ReLU."""
    return relu(max_pool2d(x, 2, ceil_mode=same))


def fused_norm_pool(
    x: Float[Tensor, "n c h w"], scale: Float[Tensor, "c"], shift: Float[Tensor, "c"], eps: float
) -> Float[Tensor, "n c p q"]:
    """The same as one function that is differentiable once, if no odd row or column is to be dropped."""
    pooled: Tensor = _PooledNorm.apply(x, scale, shift, eps)  # type: ignore[no-untyped-call]
    return pooled


@final
class _PooledNorm(Function):
    """The forward and the backward pass.

    Scaling a channel keeps the order of its values or reverses it, so the maximum is found first and only that is
    scaled. And the sums that the gradient needs are sums over the positions of the maxima.
    """

    # The rows of all images are one axis below: with two axes, the compiler vectorises over the wrong one.

    @staticmethod
    def forward(ctx: Any, x: Tensor, scale: Tensor, shift: Tensor, eps: float) -> Tensor:
        n, c, h, w = x.shape
        rows = x.permute(0, 2, 3, 1).reshape(n * h, w, c)
        # One pass for both sums, relative to one value, to avoid the difference of large numbers; and row by row,
        # because a long sum of float32 loses digits.
        away = rows - rows[0, 0]
        mean, square = (part.sum(1).sum(0) / (n * h * w) for part in (away, away.square()))
        rstd = _materialised(((square - mean.square()).clamp(min=0) + eps).rsqrt())
        mean = _materialised(mean + rows[0, 0])
        twos = _in_pairs(x)
        four = _quarters(twos)
        largest, smallest = (
            choose(choose(four[0], four[1]), choose(four[2], four[3])) for choose in (torch.maximum, torch.minimum)
        )
        best = torch.where(scale >= 0, largest, smallest)
        out = relu((best - mean) * _materialised(rstd * scale) + shift)
        ctx.save_for_backward(twos, best, out, mean, rstd, scale)
        ctx.sides = h, w
        return out.view(n, -1, *out.shape[1:]).permute(0, 3, 1, 2)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        twos, best, out, mean, rstd, scale = ctx.saved_tensors
        n, (h, w) = len(gradients[0]), ctx.sides
        slope = torch.where(out > 0, gradients[0].permute(0, 2, 3, 1).reshape(out.shape), 0.0)
        for_shift = slope.sum(1).sum(0)
        for_scale = (slope * (best - mean)).sum(1).sum(0) * rstd
        # The first of several equal maxima, as in torch. In the type of the images, because the compiler does not
        # vectorise where types are mixed.
        chosen = torch.full_like(best, 3)
        for number, quarter in reversed(list(enumerate(_quarters(twos)[:3]))):
            chosen = torch.where(quarter == best, float(number), chosen)
        numbers = torch.arange(4, dtype=out.dtype, device=out.device).view(2, 1, 2, 1)
        hit = torch.where(chosen[:, None, :, None] == numbers, slope[:, None, :, None], 0.0)
        factor, count = rstd * scale, n * h * w
        slant = _materialised(factor * rstd * for_scale / count)
        found = _materialised(factor) * hit - (slant * (twos - mean) + _materialised(factor * for_shift / count))
        found = found.flatten(2, 3).flatten(0, 1).unflatten(0, (n, -1))[:, :h, :w]
        return found.permute(0, 3, 1, 2), for_scale, for_shift, None


def _in_pairs(x: Float[Tensor, "n c h w"]) -> Float[Tensor, "r 2 q 2 c"]:
    """Rows and columns in pairs, the rows of all images one after the other; an odd one is paired with itself."""
    places = x.permute(0, 2, 3, 1)
    if places.shape[1] % 2:
        places = torch.cat([places, places[:, -1:]], dim=1)
    if places.shape[2] % 2:
        places = torch.cat([places, places[:, :, -1:]], dim=2)
    n, h, w, c = places.shape
    return places.reshape(n * h // 2, 2, w // 2, 2, c)


def _quarters(twos: Float[Tensor, "r 2 q 2 c"]) -> list[Float[Tensor, "r q c"]]:
    """The four positions of each 2x2 square, row by row."""
    return [twos[:, row, :, column] for row in (0, 1) for column in (0, 1)]


def _materialised(vector: Float[Tensor, "c"]) -> Float[Tensor, "c"]:
    """The same vector, stored: otherwise the compiler would recompute the values of a channel at each position."""
    return vector.as_strided(vector.shape, vector.stride())
