"""How the bytes of an image become the numbers that a network takes."""

import math
from dataclasses import dataclass
from typing import Literal, final

import torch
from jaxtyping import Float, UInt8
from torch import Tensor, nn

from eigen_reptile.data.io.images import ImageFormat, stretch_to_square
from eigen_reptile.errors import ConfigError

LARGEST = 2048
"""Limit for the height and width."""


@final
@dataclass(frozen=True)
class ImageInput:
    """Images as a network takes them: numbers from 0 to 1 (N, C, H, W), minus a mean, over a standard deviation."""

    size: int
    """Height and width that every image is stretched to."""
    mode: Literal["L", "RGB"] = "RGB"
    """Greyscale or colours."""
    mean: tuple[float, ...] = (0.0,)
    """Mean of each channel, or one for all; for most networks trained on ImageNet (0.485, 0.456, 0.406)."""
    std: tuple[float, ...] = (1.0,)
    """Deviation of each channel, or one for all; for most networks trained on ImageNet (0.229, 0.224, 0.225)."""

    def __post_init__(self) -> None:
        if not 1 <= self.size <= LARGEST:
            raise ConfigError(f"`size` must be from 1 to {LARGEST}, not {self.size}")
        if self.mode not in ("L", "RGB"):
            raise ConfigError(f"`mode` must be L or RGB, not {self.mode}")
        for name in ("mean", "std"):
            values = getattr(self, name)
            if len(values) not in (1, len(self.mode)) or not all(map(math.isfinite, values)):
                raise ConfigError(f"`{name}` must have one number, or one for each channel, not {values}")
        if min(self.std) <= 0:
            raise ConfigError(f"`std` must be above 0, not {self.std}")

    @property
    def image_format(self) -> ImageFormat:
        return ImageFormat(self.size, self.mode, stretch_to_square)


@final
class BytesToNumbers(nn.Module):
    """The first layer of every network that takes images."""

    mean: Tensor
    std: Tensor

    def __init__(self, image_input: ImageInput, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        for name in ("mean", "std"):
            values = torch.tensor(getattr(image_input, name), dtype=dtype)
            self.register_buffer(name, values[:, None, None], persistent=False)

    def forward(self, x: UInt8[Tensor, "N C H W"]) -> Float[Tensor, "N C H W"]:
        return (x.to(self.mean) / 255 - self.mean) / self.std
