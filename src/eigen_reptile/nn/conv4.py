"""The four-block convolutional network of few-shot learning, with layers for Warp-MAML and meta-dropout."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Literal, TypeVar, final

import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d, pad, softplus

from eigen_reptile.errors import ConfigError
from eigen_reptile.nn.model import Model
from eigen_reptile.nn.pooled_norm import max_pool_relu, pooled_norm
from eigen_reptile.nn.running_norm import RunningNorm

Layer = TypeVar("Layer", nn.Linear, nn.Conv2d)

EPS = 1e-3
"""Added to the variances of batch-norm."""


@final
@dataclass(frozen=True)
class Conv4(Model):
    """Four blocks of 3x3 convolution, batch-norm, 2x2 max-pooling and ReLU, then one linear layer."""

    filters: int = 32
    """Channels of each convolution (the paper has 32, and 64 in one row)."""
    pooling: Literal["same", "valid"] = "same"
    """An odd row or column is pooled by itself (`same`, as in the paper) or dropped (`valid`, as most others do)."""
    head: bool = True
    """Whether there is a linear layer at the end; without it the outputs are the features."""
    layers: Literal["plain", "warp", "noise"] = "plain"
    """Additional layers: `warp` adds a linear 3x3 convolution after each block, for Warp-MAML; `noise` adds to each
    block and to the linear layer one that computes the strength of multiplicative noise, for meta-dropout."""
    statistics: Literal["batch", "running"] = "batch"
    """Statistics of batch-norm outside of training: those of each batch, as in training, or the moving average over
    training, which suits metric methods and is what most of their authors use."""

    def __post_init__(self) -> None:
        if self.filters < 1:
            raise ConfigError(f"`model.filters` must be at least 1, not {self.filters}")

    @property
    def batched(self) -> bool:
        return False  # batching means grouped convolutions, which are slower on a CPU than one network after the other

    @property
    def compile_from(self) -> int | None:
        return 1000

    def build(self, shape: tuple[int, ...], outputs: int) -> nn.Module:
        if len(shape) != 3:
            raise ConfigError(f"conv4 takes images (channels, height, width), not inputs of shape {shape}")
        channels, height, width = shape
        noisy = self.layers == "noise"
        same = self.pooling == "same"
        if not same and min(height, width) < 16:
            raise ConfigError(
                f"{height} x {width} pixels are too few to be halved four times: use `model.pooling` same, or larger "
                "images"
            )
        running = self.statistics == "running"
        blocks = [
            _Block(before, self.filters, same, self.layers, running) for before in (channels, *[self.filters] * 3)
        ]
        parts: list[nn.Module] = [*blocks, nn.Flatten()]
        if self.head:
            left = [-(-side // 16) if same else side // 16 for side in (height, width)]  # each pooling halves
            features = self.filters * prod(left)
            parts.append(_NoisyLinear(features, outputs) if noisy else _initialise(nn.Linear(features, outputs)))
        return _NoisySequential(*parts) if noisy else nn.Sequential(*parts)


def _initialise(layer: Layer, init: Callable[[Tensor], Tensor] = nn.init.xavier_uniform_) -> Layer:
    """Draw the weights of the layer, set its bias to zero, and return it."""
    init(layer.weight)
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)
    return layer


_nearly_zero = partial(nn.init.trunc_normal_, std=0.02)
"""Initialisation of the layers that compute the strength of noise, as in the authors' code."""


def _standard_normal(like: Tensor, rng: torch.Generator) -> Tensor:
    """Standard normal numbers, the same on every device."""
    return torch.randn(like.shape, generator=rng, dtype=like.dtype).to(like.device)


@final
class _Block(nn.Module):
    """Convolution, batch-norm, pooling and ReLU.

    The convolution has no bias: batch-norm would cancel it, so its gradient is zero up to rounding, and Adam would turn
    that rounding into full steps.
    """

    def __init__(self, before: int, after: int, same: bool, layers: str, running: bool) -> None:
        super().__init__()
        self.same = same
        self.norm = RunningNorm(after, EPS) if running else nn.BatchNorm2d(after, EPS, track_running_stats=False)
        self.convolution = _initialise(nn.Conv2d(before, after, 3, padding=1, bias=False))
        self.noise = _initialise(nn.Conv2d(before, after, 3, padding=1), _nearly_zero) if layers == "noise" else None
        self.warp = _initialise(nn.Conv2d(after, after, 3, padding=1)) if layers == "warp" else None

    def forward(self, x: Tensor, rng: torch.Generator | None = None) -> Tensor:
        """Noise is drawn from the generator; without one there is none, but its mean strength still multiplies."""
        kernel = self.convolution.weight
        strength = None if self.noise is None else self.noise(x)
        if x.shape[1] == 1:
            # A CPU convolves faster with the channels last, but a single channel looks the same in both layouts and is
            # taken for the slow one. A second channel of zeros removes the ambiguity.
            x, kernel = (pad(tensor, (0, 0, 0, 0, 0, 1)) for tensor in (x, kernel))
            x = x.contiguous(memory_format=torch.channels_last)
        x = conv2d(x, kernel, padding=1)
        if strength is not None:
            x = x * softplus(strength if rng is None else strength + _standard_normal(strength, rng))
        if isinstance(self.norm, RunningNorm):
            x = max_pool_relu(self.norm(x), self.same)
        else:
            x = pooled_norm(x, self.norm.weight, self.norm.bias, self.norm.eps, self.same)
        return x if self.warp is None else self.warp(x)


@final
class _NoisyLinear(nn.Module):
    """A linear layer with additive noise on its outputs, of one strength for each sample, if there is a generator."""

    def __init__(self, before: int, after: int) -> None:
        super().__init__()
        self.noise = _initialise(nn.Linear(before, 1), _nearly_zero)
        self.linear = _initialise(nn.Linear(before, after))

    def forward(self, x: Tensor, rng: torch.Generator | None = None) -> Tensor:
        output: Tensor = self.linear(x)
        return output if rng is None else output + softplus(self.noise(x)) * _standard_normal(output, rng)


@final
class _NoisySequential(nn.Sequential):
    """Layers that draw noise one after the other from one seed; without a seed there is no noise."""

    def forward(self, x: Tensor, seed: int | None = None) -> Tensor:
        rng = None if seed is None else torch.Generator().manual_seed(seed)
        for part in self:
            x = part(x) if isinstance(part, nn.Flatten) else part(x, rng)
        return x
