"""Networks of the user: any PyTorch module, or any function."""

import copy
import hashlib
from collections.abc import Callable
from typing import Any, final

import numpy as np
import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from eigen_reptile.data.io.images import ImageFormat
from eigen_reptile.errors import ConfigError
from eigen_reptile.practice.backbones.backbone import Backbone, SavedBackbone, TorchBackbone, checked_features
from eigen_reptile.practice.backbones.image_input import BytesToNumbers, ImageInput
from eigen_reptile.runtime.checksums import digest


@final
class ModuleBackbone(TorchBackbone):
    """Any `nn.Module` that turns a batch of samples into a vector for each. A copy of it is used, in evaluation mode.

    A model file does not contain it: give it again to load the model.
    """

    def __init__(self, module: nn.Module, image_input: ImageInput | None = None) -> None:
        """`image_input` says which images the module takes; without it samples are vectors."""
        if not isinstance(module, nn.Module):
            raise ConfigError(
                f"an `nn.Module` is needed, not a {type(module).__name__}; a function is `FunctionBackbone`"
            )
        self._image_input = image_input
        self._module = _Prepared(copy.deepcopy(module), image_input).requires_grad_(False).eval()
        self._fingerprint = digest(["module", repr(image_input), fingerprint_of(module)])

    @property
    def fingerprint(self) -> str:
        return self._fingerprint

    @property
    def image_format(self) -> ImageFormat | None:
        return None if self._image_input is None else self._image_input.image_format

    def saved(self) -> SavedBackbone | None:
        return None

    def as_module(self) -> nn.Module:
        return self._module


@final
class _Prepared(nn.Module):
    """A module that gets samples in its own type and on its own device."""

    def __init__(self, module: nn.Module, image_input: ImageInput | None) -> None:
        super().__init__()
        floats = (one for one in (*module.parameters(), *module.buffers()) if one.is_floating_point())
        like = next(floats, torch.empty(0))
        self.module, self._dtype, self._device = module, like.dtype, like.device
        self.numbers = None if image_input is None else BytesToNumbers(image_input, like.dtype).to(like.device)

    def forward(self, x: Shaped[Tensor, "N *shape"]) -> Any:
        x = x.to(self._device)
        found = self.module(x.to(self._dtype) if self.numbers is None else self.numbers(x))
        return found.flatten(1) if isinstance(found, Tensor) and found.ndim > 2 else found


@final
class FunctionBackbone(Backbone):
    """Any function from a batch of samples, as a tensor, to a row of numbers for each, as a tensor or an array.

    A model file does not contain it: give it again to load the model.
    """

    def __init__(
        self, function: Callable[[Tensor], Any], image_input: ImageInput | None = None, name: str | None = None
    ) -> None:
        """`name` identifies the function: its features are cached under this name, and without a name not at all."""
        if not callable(function):
            raise ConfigError(f"a function is needed, not a {type(function).__name__}")
        self._function, self._image_input, self._name = function, image_input, name

    @property
    def fingerprint(self) -> str | None:
        return None if self._name is None else digest(["function", repr(self._image_input), self._name])

    @property
    def image_format(self) -> ImageFormat | None:
        return None if self._image_input is None else self._image_input.image_format

    def features(self, x: Shaped[np.ndarray, "N *shape"]) -> Float[np.ndarray, "N F"]:
        samples = torch.tensor(x)
        if self._image_input is not None:
            samples = BytesToNumbers(self._image_input)(samples.permute(0, 3, 1, 2))
        with torch.inference_mode():
            return checked_features(self._function(samples), len(x))

    def saved(self) -> SavedBackbone | None:
        return None

    def as_module(self) -> nn.Module | None:
        return None


def fingerprint_of(module: nn.Module) -> str:
    """A digest of the layers of a module, its parameters and its buffers."""
    found = hashlib.sha256(f"{type(module).__module__}.{type(module).__qualname__}\n{module!r}".encode())
    for name, tensor in module.state_dict().items():
        found.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        found.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return found.hexdigest()
