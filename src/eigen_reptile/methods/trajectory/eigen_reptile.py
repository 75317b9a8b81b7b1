"""Eigen-Reptile: along the main direction of the points of the inner loop."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, final

import torch
from jaxtyping import Float
from torch import Tensor

from eigen_reptile.direction import Length, main_direction_or_nan
from eigen_reptile.errors import ConfigError
from eigen_reptile.methods.method import unweighted
from eigen_reptile.methods.trajectory.trajectory_method import DIRECTION, TaskDirections, TrajectoryMethod


@final
@dataclass(frozen=True)
class EigenReptile(TrajectoryMethod):
    """Chen et al. 2022, https://arxiv.org/abs/2206.01944: along the main direction of the inner loop.

    Use it where Reptile would do, but gradients or labels are noisy. The paper and its authors' code differ; `paper()`
    and `authors()` are the two forms. The defaults are the authors' (docs/algorithm.md gives the evidence).
    """

    include_start: bool = True
    """Whether the starting point is a row of W (authors: yes; paper: no)."""
    length: Length = "path"
    """Step length nu: net movement along the main direction (paper), or the length of the path along it (authors)."""
    combine: Literal["product_of_means", "mean_of_products"] = "product_of_means"
    """Over tasks: mean length times mean direction (algorithm 1), or the mean of each task's own product."""
    weighted: bool = True
    """Multiply each main direction by its explained variance ratio, zeta."""
    fix_sign: bool = True
    """Flip each main direction to agree with its trajectory (line 23 of algorithm 1)."""

    compiles: ClassVar[bool] = True

    @staticmethod
    def paper() -> "EigenReptile":
        """The form in the paper, with the step length computed after the sign is fixed."""
        return EigenReptile(include_start=False, length="net", combine="product_of_means", weighted=True, fix_sign=True)

    @staticmethod
    def authors() -> "EigenReptile":
        """The form in the authors' published code."""
        return EigenReptile(include_start=True, length="path", combine="product_of_means", weighted=True, fix_sign=True)

    def direction_of(self, W: Float[Tensor, "S B rows d"]) -> TaskDirections:
        rows = W if self.include_start else W[:, :, 1:]
        if rows.shape[2] < 2:
            raise ConfigError(
                "a main direction needs two points: `inner.steps` must be at least 2 unless the starting point is one "
                "(`method.include_start`)"
            )
        (e, zeta, length), _ = main_direction_or_nan(rows, length=self.length, fix_sign=self.fix_sign)
        movement = W[:, :, -1] - W[:, :, 0]
        norm = movement.norm(dim=-1).clamp(min=torch.finfo(movement.dtype).tiny)
        stats = {
            "length": length,
            "explained_variance_ratio": zeta,
            "cosine_to_reptile": (e * movement).sum(-1) / norm,
        }
        factor = zeta if self.weighted else torch.ones_like(zeta)
        if self.combine == "mean_of_products":
            return TaskDirections((length * factor).to(e)[..., None] * e, stats, unweighted)
        return TaskDirections(factor.to(e)[..., None] * e, stats, times_mean_length)


def times_mean_length(means: Mapping[str, Float[Tensor, "S"]]) -> dict[str, Float[Tensor, "S"]]:
    """Algorithm 1, line 28: the mean direction is multiplied by the mean length."""
    return {DIRECTION: means["length"]}
