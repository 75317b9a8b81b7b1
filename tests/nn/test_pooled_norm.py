"""Batch-norm, pooling and ReLU as one function, against torch's three operations."""

import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch import Tensor
from torch.nn.functional import batch_norm, max_pool2d, relu

from eigen_reptile.nn.pooled_norm import fused_norm_pool, pooled_norm

EPS = 1e-3


def three_operations(x: Tensor, scale: Tensor, shift: Tensor, same: bool = True) -> Tensor:
    return relu(max_pool2d(batch_norm(x, None, None, scale, shift, training=True, eps=EPS), 2, ceil_mode=same))


def inputs(n: int, c: int, h: int, w: int, seed: int, levels: int, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    """Images with so few different values that maxima are often tied, and scales of both signs."""
    rng = torch.Generator().manual_seed(seed)
    x = torch.randint(levels, (n, c, h, w), generator=rng)
    scale, shift = torch.randn(2, c, generator=rng, dtype=torch.float64)
    return [part.to(dtype).requires_grad_() for part in (x, scale, shift)]


@settings(max_examples=100, deadline=None)
@given(
    shape=st.tuples(*(st.integers(1, most) for most in (3, 3, 7, 7))).filter(lambda s: s[0] * s[2] * s[3] > 1),
    seed=st.integers(0, 2**31),
    levels=st.integers(1, 6),
)
def test_values_and_gradients_agree_with_the_three_operations(
    shape: tuple[int, int, int, int], seed: int, levels: int
) -> None:
    x, scale, shift = inputs(*shape, seed, levels)
    ours, theirs = fused_norm_pool(x, scale, shift, EPS), three_operations(x, scale, shift)
    torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)
    upstream = torch.randn(theirs.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    for mine, other in zip(
        *(torch.autograd.grad(out, (x, scale, shift), upstream) for out in (ours, theirs)), strict=True
    ):
        torch.testing.assert_close(mine, other, rtol=1e-7, atol=1e-7)


def test_far_from_zero_it_stays_precise() -> None:
    x, scale, shift = inputs(10, 4, 32, 32, 0, 100, torch.float32)
    x = (1000 + x / 100).detach()
    exact = three_operations(x.double(), scale.double(), shift.double())
    torch.testing.assert_close(fused_norm_pool(x, scale, shift, EPS).double(), exact, rtol=0, atol=2e-3)


@pytest.mark.parametrize("same", [True, False])
def test_outside_of_compiled_code_it_uses_torch(same: bool) -> None:
    x, scale, shift = inputs(2, 3, 7, 6, 0, 50)
    out = pooled_norm(x, scale, shift, EPS, same)
    assert torch.equal(out, three_operations(x, scale, shift, same))
    (first,) = torch.autograd.grad(out.square().sum(), x, create_graph=True)
    assert torch.autograd.grad(first.square().sum(), x)[0].abs().sum() > 0  # and can be differentiated twice
