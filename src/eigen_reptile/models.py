"""Networks that experiments can name: what they are made of, and how they start."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from math import prod
from typing import Literal, TypeVar, final

import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d, pad, softplus

from eigen_reptile.pooled_norm import pooled, pooled_norm
from eigen_reptile.running_norm import RunningNorm

Layer = TypeVar("Layer", nn.Linear, nn.Conv2d)

EPS = 1e-3
"""What batch-norm adds to variances."""


@dataclass(frozen=True)
class Model(ABC):
    """Settings from which a network is built. A network of your own: subclass this, or give `Learner` a function."""

    @abstractmethod
    def build(self, shape: tuple[int, ...], outputs: int) -> nn.Module:
        """A freshly initialised network for inputs of this shape."""

    @property
    @abstractmethod
    def batched(self) -> bool:
        """Whether `Learner` should run all tasks' networks as one batched computation."""

    @property
    def compile_from(self) -> int | None:
        """Outer iterations from which on compiling pays; None if it may never."""
        return None


@final
@dataclass(frozen=True)
class Mlp(Model):
    """A fully connected network with tanh between its layers."""

    hidden: tuple[int, ...] = (64, 64)
    """Width of each hidden layer."""

    def __post_init__(self) -> None:
        if any(width < 1 for width in self.hidden):
            raise ValueError(f"hidden widths must be at least 1, not {self.hidden}")

    @property
    def batched(self) -> bool:
        # A wide network keeps the machine busy by itself, and its tasks' trajectories are better held one at a time.
        return max(self.hidden, default=0) <= 512

    @property
    def compile_from(self) -> int | None:
        return 3000 if self.batched else None

    def build(self, shape: tuple[int, ...], outputs: int) -> nn.Module:
        layers: list[nn.Module] = []
        for before, after in pairwise((prod(shape), *self.hidden, outputs)):
            layers += [nn.Linear(before, after), nn.Tanh()]
        return nn.Sequential(*layers[:-1]) if len(shape) == 1 else nn.Sequential(nn.Flatten(), *layers[:-1])


@final
@dataclass(frozen=True)
class Conv4(Model):
    """Four blocks of 3x3 convolution, batch-norm, 2x2 max-pooling and ReLU, then one linear layer."""

    filters: int = 32
    """Channels of each convolution (the paper has 32, and 64 in one row)."""
    pooling: Literal["same", "valid"] = "same"
    """What becomes of an odd row or column: pooled by itself, as in the paper, or left out, as most others do."""
    head: bool = True
    """Whether the linear layer is there; without it the features are what comes out."""
    layers: Literal["plain", "warp", "noise"] = "plain"
    """What else each block has: a linear 3x3 convolution after it, for Warp-MAML; or one beside its own that says how
    strong noise is, which the linear layer then has too, for meta-dropout."""
    statistics: Literal["batch", "running"] = "batch"
    """What batch-norm goes by after training: each batch, as in training; or the moving average over training, which
    methods that compare samples can have, as most of their authors do."""

    def __post_init__(self) -> None:
        if self.filters < 1:
            raise ValueError(f"filters must be at least 1, not {self.filters}")

    @property
    def batched(self) -> bool:
        return False  # grouped convolutions, which batching amounts to, are slower on a CPU than one after the other

    @property
    def compile_from(self) -> int | None:
        return 1000

    def build(self, shape: tuple[int, ...], outputs: int) -> nn.Module:
        if len(shape) != 3:
            raise ValueError(f"conv4 takes pictures (channels, height, width), not inputs of shape {shape}")
        channels, height, width = shape
        noisy = self.layers == "noise"
        same = self.pooling == "same"
        if not same and min(height, width) < 16:
            raise ValueError(f"{height} x {width} pixels are too few to be halved four times: use --model.pooling same")
        running = self.statistics == "running"
        blocks = [
            _Block(before, self.filters, same, self.layers, running) for before in (channels, *[self.filters] * 3)
        ]
        parts: list[nn.Module] = [*blocks, nn.Flatten()]
        if self.head:
            left = [-(-side // 16) if same else side // 16 for side in (height, width)]  # each pooling halves
            features = self.filters * prod(left)
            parts.append(_NoisyLinear(features, outputs) if noisy else _started(nn.Linear(features, outputs)))
        return _Noisy(*parts) if noisy else nn.Sequential(*parts)


def _started(layer: Layer, init: Callable[[Tensor], Tensor] = nn.init.xavier_uniform_) -> Layer:
    """The layer with its weights drawn anew, and no bias."""
    init(layer.weight)
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)
    return layer


_faint = partial(nn.init.trunc_normal_, std=0.02)
"""What layers that say how strong noise is start with, as their authors have it."""


def _drawn(like: Tensor, rng: torch.Generator) -> Tensor:
    """Standard normal numbers, the same on every device."""
    return torch.randn(like.shape, generator=rng, dtype=like.dtype).to(like.device)


@final
class _Block(nn.Module):
    """The convolution has no bias.

    Batch-norm takes it out again, its gradient is zero but for rounding, and Adam would turn that rounding into full
    steps.
    """

    def __init__(self, before: int, after: int, same: bool, layers: str, running: bool) -> None:
        super().__init__()
        self.same = same
        self.norm = RunningNorm(after, EPS) if running else nn.BatchNorm2d(after, EPS, track_running_stats=False)
        self.convolution = _started(nn.Conv2d(before, after, 3, padding=1, bias=False))
        self.noise = _started(nn.Conv2d(before, after, 3, padding=1), _faint) if layers == "noise" else None
        self.warp = _started(nn.Conv2d(after, after, 3, padding=1)) if layers == "warp" else None

    def forward(self, x: Tensor, rng: torch.Generator | None = None) -> Tensor:
        """A block with noise draws it from the generator; without one there is none, but its strength still counts."""
        kernel = self.convolution.weight
        strength = None if self.noise is None else self.noise(x)
        if x.shape[1] == 1:
            # A CPU convolves faster with the channels last, but a single channel lies the same in both layouts and
            # is taken for the slow one. A second channel of zeros makes it plain.
            x, kernel = (pad(tensor, (0, 0, 0, 0, 0, 1)) for tensor in (x, kernel))
            x = x.contiguous(memory_format=torch.channels_last)
        x = conv2d(x, kernel, padding=1)
        if strength is not None:
            x = x * softplus(strength if rng is None else strength + _drawn(strength, rng))
        if isinstance(self.norm, RunningNorm):
            x = pooled(self.norm(x), self.same)
        else:
            x = pooled_norm(x, self.norm.weight, self.norm.bias, self.norm.eps, self.same)
        return x if self.warp is None else self.warp(x)


@final
class _NoisyLinear(nn.Module):
    """A linear layer whose outputs, if there is a generator, have noise of one strength for each sample."""

    def __init__(self, before: int, after: int) -> None:
        super().__init__()
        self.noise = _started(nn.Linear(before, 1), _faint)
        self.linear = _started(nn.Linear(before, after))

    def forward(self, x: Tensor, rng: torch.Generator | None = None) -> Tensor:
        output: Tensor = self.linear(x)
        return output if rng is None else output + softplus(self.noise(x)) * _drawn(output, rng)


@final
class _Noisy(nn.Sequential):
    """Layers that draw noise one after the other; a seed settles all of it, and without one there is none."""

    def forward(self, x: Tensor, seed: int | None = None) -> Tensor:
        rng = None if seed is None else torch.Generator().manual_seed(seed)
        for part in self:
            x = part(x) if isinstance(part, nn.Flatten) else part(x, rng)
        return x


MODELS: dict[str, Model] = {"mlp": Mlp(), "conv4": Conv4(), "conv4-64": Conv4(filters=64)}
