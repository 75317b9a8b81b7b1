"""Meta-curvature: learnt linear maps of the inner gradients."""

from dataclasses import dataclass
from math import prod
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from eigen_reptile.methods.gradient.adapted_parameters import GradientMap
from eigen_reptile.methods.gradient.gradient_transform import GradientTransform
from eigen_reptile.nn.flat_module import FlatModule


@final
@dataclass(frozen=True)
class MetaCurvature(GradientTransform):
    """Park and Oliva 2019, https://arxiv.org/abs/1902.03356: multiply gradients by learnt matrices, one per axis.

    A convolution kernel has three axes: output, input, and all its positions together. A vector is multiplied
    element-wise. Use it when MAML is limited by one learning rate for all parameters and there is memory for the
    matrices.
    """

    largest: int = 512
    """Axes longer than this have no matrix: that of the features before the last layer would dwarf the network."""

    def init(self, module: FlatModule, seed: int) -> Float[Tensor, "E"]:
        """Identity maps."""
        return torch.cat(
            [
                torch.ones(axes[0]) if len(axes) == 1 else torch.eye(size).flatten()
                for axes in map(_axes_to_map, module.shapes.values())
                for size in self._mapped(axes)
            ]
        )

    def bind(self, module: FlatModule, parameters: Float[Tensor, "S B E"]) -> GradientMap:
        shapes = [_axes_to_map(shape) for shape in module.shapes.values()]

        def transformed(gradient: Float[Tensor, "S B d"]) -> Float[Tensor, "S B d"]:
            tasks, rest, parts = gradient.shape[:2], parameters, []
            for axes, piece in zip(shapes, gradient.split(module.sizes, dim=-1), strict=True):
                if len(axes) == 1:
                    factors, rest = rest[..., : axes[0]], rest[..., axes[0] :]
                    parts.append(factors * piece)
                    continue
                tensor = piece.unflatten(-1, axes)
                for axis, size in enumerate(axes):
                    if size in self._mapped(axes):
                        matrix, rest = rest[..., : size**2].view(*tasks, size, size), rest[..., size**2 :]
                        tensor = _multiply_along_axis(tensor, matrix, axis)
                parts.append(tensor.flatten(2))
            return torch.cat(parts, dim=-1)

        return transformed

    def _mapped(self, axes: list[int]) -> list[int]:
        """The axes that have a map."""
        return axes if len(axes) == 1 else [size for size in axes if size <= self.largest]


def _axes_to_map(shape: torch.Size) -> list[int]:
    return list(shape) if len(shape) < 3 else [shape[0], shape[1], prod(shape[2:])]


def _multiply_along_axis(tensor: Tensor, matrix: Float[Tensor, "S B n n"], axis: int) -> Tensor:
    """The tensors (S, B, ...) with the matrices applied along one of their axes."""
    moved = tensor.movedim(2 + axis, 2)
    return (matrix @ moved.flatten(3)).view(moved.shape).movedim(2, 2 + axis)
