"""Meta-objectives of MAML: the losses that the outer loop minimises."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from eigen_reptile.methods.gradient.gradient_method import MetaLosses, query_loss_after_adaptation
from eigen_reptile.methods.method import MetaBatch, Requirements

if TYPE_CHECKING:
    from eigen_reptile.methods.gradient.maml import Maml


@dataclass(frozen=True)
class Objective(ABC):
    """The meta-loss of a MAML method."""

    @property
    @abstractmethod
    def requirements(self) -> Requirements: ...

    @abstractmethod
    def meta_losses(self, maml: "Maml", batch: MetaBatch) -> MetaLosses:
        """The meta-loss of each task, differentiable in theta."""


@final
@dataclass(frozen=True)
class QueryLoss(Objective):
    """The loss on the queries after adaptation."""

    @property
    def requirements(self) -> Requirements:
        return Requirements(queries=True)

    def meta_losses(self, maml: "Maml", batch: MetaBatch) -> MetaLosses:
        return query_loss_after_adaptation(maml, batch)
