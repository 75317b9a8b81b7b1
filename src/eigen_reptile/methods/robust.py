"""Any method with a loss that wrong labels pull at less (Zhang and Sabuncu 2018)."""

from dataclasses import dataclass
from typing import final

from jaxtyping import Float, Int, Shaped
from torch import Tensor

from eigen_reptile.inner import InnerState
from eigen_reptile.learner import Learner
from eigen_reptile.methods.method import Adaptation, Iteration, Proposal
from eigen_reptile.methods.selected import Selected
from eigen_reptile.methods.wrapped import Wrapped
from eigen_reptile.tasks import Tasks


@final
@dataclass(frozen=True)
class GeneralisedCrossEntropy:
    """(1 - p^q) / q, p being what the label is given."""

    q: float

    def __call__(self, output: Shaped[Tensor, "*L b way"], y: Int[Tensor, "*L b"]) -> Float[Tensor, "*L b"]:
        log_p = output.log_softmax(-1).gather(-1, y[..., None])[..., 0]
        return (1 - (self.q * log_p).exp()) / self.q  # p**q has no slope where p is so small that it is zero


@final
@dataclass(frozen=True)
class Robust(Wrapped):
    """A method with the generalised cross-entropy (1 - p^q) / q in place of -ln p, p being what the label is given."""

    q: float = 0.7
    """From 0, where it would be the cross-entropy, to 1, where it is the absolute error."""

    def __post_init__(self) -> None:
        if not 0 < self.q <= 1:
            raise ValueError(f"q must be above 0 and at most 1, not {self.q}")
        if isinstance(self.method, Selected):
            raise ValueError("a selector goes by the usual loss: choose samples for a robust method, not the other way")

    @property
    def classifies(self) -> bool:
        return True

    def propose(self, iteration: Iteration) -> Proposal:
        return self.method.propose(iteration._replace(learner=self._robust(iteration.learner)))

    def adapted(self, adaptation: Adaptation) -> tuple[Float[Tensor, "S B D"], InnerState]:
        return self.method.adapted(adaptation._replace(learner=self._robust(adaptation.learner)))

    def answers(
        self, learner: Learner, theta: Float[Tensor, "S B D"], tasks: Tasks, x: Shaped[Tensor, "S B q *shape"]
    ) -> Shaped[Tensor, "S B q *out"]:
        return self.method.answers(self._robust(learner), theta, tasks, x)

    def _robust(self, learner: Learner) -> Learner:
        return learner.with_loss(GeneralisedCrossEntropy(self.q))
