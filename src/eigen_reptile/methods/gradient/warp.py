"""Warp-MAML: frozen layers that shape the inner gradients."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from eigen_reptile.inner import InnerState
from eigen_reptile.methods.gradient.gradient_method import META_LOSS, MetaLosses, query_loss
from eigen_reptile.methods.gradient.maml import Maml
from eigen_reptile.methods.gradient.objective import Objective
from eigen_reptile.methods.gradient.task_agnostic import check_strength
from eigen_reptile.methods.method import MetaBatch, Requirements
from eigen_reptile.tasks import each_step

WARP_LOSS = "warp_loss"


@final
@dataclass(frozen=True)
class WarpedSteps(Objective):
    """Flennerhag et al. 2020, https://arxiv.org/abs/1909.00025: train frozen layers to improve each inner step.

    To MAML's loss it adds, for the layers that `adapted.frozen` names, the query loss after one step from each point of
    the inner loop, with that point treated as a constant. In the original that loss alone trains these layers; here
    MAML's loss trains all. Use it with a network that has such layers (`model.layers` warp); without them this is MAML.
    """

    strength: float = 1.0
    """Weight of the frozen layers' loss, relative to MAML's."""

    def __post_init__(self) -> None:
        check_strength(self.strength)

    @property
    def requirements(self) -> Requirements:
        return Requirements(queries=True)

    def meta_losses(self, maml: Maml, batch: MetaBatch) -> MetaLosses:
        """Both losses along the same trajectory."""
        network, tasks, start = batch.network, batch.tasks, batch.adaptation
        frozen = network.module.within(maml.adapted.frozen)
        if not frozen:
            theta, _ = maml.adapt(start)
            return MetaLosses({META_LOSS: query_loss(maml, network, theta, tasks)})
        is_frozen = network.module.mask(frozen, batch.theta.device)
        theta, state = start.theta, start.inner_state
        one_step_losses = []
        for step_batch in each_step(batch.batches):
            step = start._replace(theta=theta, inner_state=state, batches=step_batch)
            here = torch.where(is_frozen, start.theta, theta.detach())
            known = InnerState(*(part.detach() for part in state))
            ahead, _ = maml.adapt(step._replace(theta=here, inner_state=known))
            one_step_losses.append(query_loss(maml, network, ahead, tasks))
            theta, state = maml.adapt(step)
        losses = {META_LOSS: query_loss(maml, network, theta, tasks), WARP_LOSS: torch.stack(one_step_losses).sum(0)}
        return MetaLosses(losses, self._weights)

    def _weights(self, means: Mapping[str, Float[Tensor, "S"]]) -> dict[str, Float[Tensor, "S"]]:
        return {WARP_LOSS: self.strength * torch.ones_like(means[WARP_LOSS])}
