"""Random samples in float64 for the tests of networks, and modules with given parameters."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

S, B, SAMPLES = 2, 3, 6


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def labels(way: int) -> Tensor:
    return torch.randint(way, (S, B, SAMPLES), generator=torch.Generator().manual_seed(1))


def loaded(build: Callable[[], nn.Module], theta: Tensor) -> nn.Module:
    """A module with these parameters."""
    module = build()
    nn.utils.vector_to_parameters(theta.clone(), module.parameters())
    return module


def assert_nearly_equal(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-11)
