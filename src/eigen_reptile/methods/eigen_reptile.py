"""Eigen-Reptile (Chen et al. 2022): along the main direction of the points that the inner loop passed through."""

import copy
from dataclasses import dataclass
from typing import Literal, final

import torch
from jaxtyping import Float
from torch import Tensor

from eigen_reptile.compiled import ONE_THREAD, Compiled, compiled
from eigen_reptile.direction import Length, main_direction_or_nan
from eigen_reptile.methods.method import Moves, TrajectoryMethod


@final
@dataclass(frozen=True)
class EigenReptile(TrajectoryMethod):
    """Along the main direction of the inner loop's points (paper, algorithm 1).

    The paper and its authors' code differ; `paper()` and `authors()` are the two forms. The defaults are the
    authors' (docs/algorithm.md says on what evidence).
    """

    include_start: bool = True
    """Whether the starting point is a row of W (authors: yes; paper: no)."""
    length: Length = "path"
    """Step length nu: net movement along the main direction (paper), or the length of the path along it (authors)."""
    combine: Literal["product_of_means", "mean_of_products"] = "product_of_means"
    """Over tasks: mean length times mean direction (algorithm 1), or the mean of each task's own product."""
    weighted: bool = True
    """Multiply each main direction by its share of the scatter, zeta."""
    fix_sign: bool = True
    """Turn each main direction the way its trajectory went (line 23 of algorithm 1)."""

    @staticmethod
    def paper() -> "EigenReptile":
        """As the paper writes it, with the step length taken after the sign is fixed."""
        return EigenReptile(include_start=False, length="net", combine="product_of_means", weighted=True, fix_sign=True)

    @staticmethod
    def authors() -> "EigenReptile":
        """As the authors' published code computes it."""
        return EigenReptile(include_start=True, length="path", combine="product_of_means", weighted=True, fix_sign=True)

    def compiled(self, required: bool) -> "EigenReptile":
        """With `moves` compiled: its many small operations would hold up the threads of other tasks."""
        faster, moves = copy.copy(self), compiled(self.moves, fullgraph=True, options=ONE_THREAD)
        object.__setattr__(faster, "moves", Compiled(moves, self.moves, required))
        return faster

    def moves(self, W: Float[Tensor, "S B rows d"]) -> Moves:
        rows = W if self.include_start else W[:, :, 1:]
        (e, share, length), _ = main_direction_or_nan(rows, length=self.length, fix_sign=self.fix_sign)
        moved = W[:, :, -1] - W[:, :, 0]
        stats = {
            "length": length,
            "share": share,
            "cosine_to_reptile": (e * moved).sum(-1) / moved.norm(dim=-1).clamp(min=torch.finfo(moved.dtype).tiny),
        }
        weight = share if self.weighted else torch.ones_like(share)
        if self.combine == "mean_of_products":
            weight, length = length * weight, torch.ones_like(length)
        return Moves(weight.to(e)[..., None] * e, length, stats)
