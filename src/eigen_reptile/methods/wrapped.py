"""A method inside another."""

from dataclasses import dataclass, replace

from jaxtyping import Float, Shaped
from torch import Tensor

from eigen_reptile.inner import InnerConfig, InnerState
from eigen_reptile.learner import Learner
from eigen_reptile.methods.method import Adaptation, Domain, Iteration, Method, Proposal, Suggestion
from eigen_reptile.tasks import Tasks


@dataclass(frozen=True)
class Wrapped(Method):
    """A method that does what another does, but for what it changes about it."""

    method: Method
    """The method."""

    @property
    def wants_queries(self) -> bool:
        return self.method.wants_queries

    @property
    def classifies(self) -> bool:
        return self.method.classifies

    @property
    def has_inner_loop(self) -> bool:
        return self.method.has_inner_loop

    @property
    def sees_support(self) -> bool:
        return self.method.sees_support

    @property
    def any_way(self) -> bool:
        return self.method.any_way

    @property
    def takes_whole_set(self) -> bool:
        return self.method.takes_whole_set

    @property
    def least_tasks(self) -> int:
        return self.method.least_tasks

    @property
    def suggests(self) -> Suggestion | None:
        return self.method.suggests

    def batches(self, inner: InnerConfig) -> int:
        return self.method.batches(inner)

    def summary(self, stats: dict[str, float]) -> dict[str, float]:
        return self.method.summary(stats)

    def init(self, learner: Learner, seed: int, domain: Domain) -> Float[Tensor, "D"]:
        return self.method.init(learner, seed, domain)

    def compiled(self, required: bool) -> Method:
        return replace(self, method=self.method.compiled(required))

    def propose(self, iteration: Iteration) -> Proposal:
        return self.method.propose(iteration)

    def settled(self, proposal: Proposal) -> Proposal:
        return self.method.settled(proposal)

    def adapted(self, adaptation: Adaptation) -> tuple[Float[Tensor, "S B D"], InnerState]:
        return self.method.adapted(adaptation)

    def answers(
        self, learner: Learner, theta: Float[Tensor, "S B D"], tasks: Tasks, x: Shaped[Tensor, "S B q *shape"]
    ) -> Shaped[Tensor, "S B q *out"]:
        return self.method.answers(learner, theta, tasks, x)
