"""Meta-curvature (Park and Oliva 2019): MAML with learnt linear maps of the inner gradients."""

from dataclasses import dataclass
from math import prod
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from eigen_reptile.learner import Learner
from eigen_reptile.methods.gradient import ONE_STEP
from eigen_reptile.methods.maml import Maml, Rule
from eigen_reptile.methods.method import Domain, Suggestion
from eigen_reptile.models import Conv4


@final
@dataclass(frozen=True)
class MetaCurvature(Maml):
    """MAML whose inner gradients are multiplied by learnt matrices, one for each axis of a parameter.

    A kernel has three axes: out, in, and its places together. A vector is multiplied number by number.
    """

    largest: int = 512
    """A longer axis has no matrix: that of the features before the last layer would outgrow all else."""

    @property
    def suggests(self) -> Suggestion | None:
        model = Conv4(128, "valid")
        return Suggestion(5, 0.05, after=10, clip=10.0, model=model, characters=ONE_STEP._replace(model=model))

    def extra(self, learner: Learner, seed: int, domain: Domain) -> Float[Tensor, "E"]:
        """Maps that change nothing."""
        return torch.cat(
            [
                torch.ones(axes[0]) if len(axes) == 1 else torch.eye(size).flatten()
                for axes in map(_axes, learner.shapes.values())
                for size in self._mapped(axes)
            ]
        )

    def rule(self, learner: Learner, extra: Float[Tensor, "S B E"]) -> Rule:
        shapes = [_axes(shape) for shape in learner.shapes.values()]
        let_through = super().rule(learner, extra)

        def mapped(gradient: Float[Tensor, "S B d"]) -> Float[Tensor, "S B d"]:
            lanes, rest, parts = gradient.shape[:2], extra, []
            for axes, piece in zip(shapes, gradient.split([prod(axes) for axes in shapes], dim=-1), strict=True):
                if len(axes) == 1:
                    factors, rest = rest[..., : axes[0]], rest[..., axes[0] :]
                    parts.append(factors * piece)
                    continue
                tensor = piece.unflatten(-1, axes)
                for axis, size in enumerate(axes):
                    if size in self._mapped(axes):
                        matrix, rest = rest[..., : size**2].view(*lanes, size, size), rest[..., size**2 :]
                        tensor = _product(tensor, matrix, axis)
                parts.append(tensor.flatten(2))
            return let_through(torch.cat(parts, dim=-1))

        return mapped

    def _mapped(self, axes: list[int]) -> list[int]:
        """The axes that have a map."""
        return axes if len(axes) == 1 else [size for size in axes if size <= self.largest]


def _axes(shape: torch.Size) -> list[int]:
    return list(shape) if len(shape) < 3 else [shape[0], shape[1], prod(shape[2:])]


def _product(tensor: Tensor, matrix: Float[Tensor, "S B n n"], axis: int) -> Tensor:
    """The tensors (S, B, ...) with the matrices applied along one of their axes."""
    moved = tensor.movedim(2 + axis, 2)
    return (matrix @ moved.flatten(3)).view(moved.shape).movedim(2, 2 + axis)
