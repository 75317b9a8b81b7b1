"""Eigen-Reptile (Chen et al. 2022): along the main direction of the points that the inner loop passed through."""

from dataclasses import dataclass
from typing import Literal, final

from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import cosine_similarity

from eigen_reptile.direction import Length, main_direction_or_nan
from eigen_reptile.methods.method import Stats, TrajectoryMethod


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

    def direction(self, W: Float[Tensor, "S B rows d"]) -> tuple[Float[Tensor, "S d"], Stats]:
        rows = W if self.include_start else W[:, :, 1:]
        (e, share, length), _ = main_direction_or_nan(rows, length=self.length, fix_sign=self.fix_sign)
        step = share if self.weighted else share.new_ones(()).expand_as(share)
        if self.combine == "product_of_means":
            direction = length.mean(1, keepdim=True).to(e) * (step.to(e)[..., None] * e).mean(1)
        else:
            direction = ((length * step).to(e)[..., None] * e).mean(1)
        reptile = (W[:, :, -1] - W[:, :, 0]).mean(1)
        return direction, {
            "length": length.mean(1),
            "share": share.mean(1),
            "cosine_to_reptile": cosine_similarity(direction, reptile, dim=-1),
        }
