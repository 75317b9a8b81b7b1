"""Which parameters the inner loop of the MAML family changes."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, final

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from eigen_reptile.inner import Gradient, InnerState, adapt
from eigen_reptile.methods.method import Adaptation
from eigen_reptile.nn.flat_module import FlatModule

GradientMap = Callable[[Float[Tensor, "S B d"]], Float[Tensor, "S B d"]]
"""Replaces each inner gradient."""


@final
@dataclass(frozen=True)
class AdaptedParameters:
    """The parameters that the inner loop changes; all others are only meta-learnt."""

    layers: Literal["all", "head", "body"] = "all"
    """All layers, only the last one (ANIL), or all but the last one (BOIL)."""
    norms: bool = False
    """Whether the scales and shifts of batch-norm are adapted too; in the publications they are not."""
    frozen: tuple[str, ...] = ()
    """Names of layers that are not adapted, wherever they occur in the network."""

    def mask(self, module: FlatModule, device: torch.device) -> Bool[Tensor, "d"] | None:
        """Which entries of theta are adapted; None if all of them are."""
        adapted = frozenset(module.shapes) - module.within(self.frozen)
        if not self.norms:
            adapted -= module.norms
        if self.layers != "all":
            adapted = adapted & module.head if self.layers == "head" else adapted - module.head
        return None if len(adapted) == len(module.shapes) else module.mask(adapted, device)

    def masked(self, module: FlatModule, device: torch.device, change: GradientMap) -> GradientMap:
        """A gradient map that applies `change`, but returns zero for the parameters that are not adapted."""
        mask = self.mask(module, device)
        return change if mask is None else lambda gradient: change(gradient) * mask


def adapt_network(adaptation: Adaptation, gradient: Gradient) -> tuple[Float[Tensor, "S B D"], InnerState]:
    """The inner loop on the network's part of theta, along the gradients that `gradient` gives."""
    _, _, state, tasks, batches, inner = adaptation
    end, state = adapt(gradient, adaptation.network_theta, state, tasks.x, batches, inner)
    return torch.cat([end, adaptation.extra], dim=-1), state
