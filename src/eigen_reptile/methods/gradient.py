"""Methods that go down the gradient of a loss on a task's queries."""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce

import torch
from jaxtyping import Float
from torch import Tensor

from eigen_reptile.methods.method import Iteration, Method, Moves, Proposal, Suggestion

META_LOSS = "meta_loss"

ONE_STEP = Suggestion(steps=1, lr=0.4, after=3, outer_lr=3e-3, clip=10.0, tasks=16, queries=5)
"""On characters: one large inner step, as MAML's authors have it on Omniglot; they take 32 tasks of fewer queries."""


@dataclass(frozen=True)
class GradientMethod(Method):
    """A method whose direction is the negative gradient of a meta-loss, averaged over the tasks."""

    @property
    def wants_queries(self) -> bool:
        return True

    @property
    def suggests(self) -> Suggestion | None:
        """As MAML's authors have it, whose loss is N times the mean: their inner rate of 0.01 is 0.05 here."""
        return Suggestion(steps=5, lr=0.05, after=10, clip=10.0, characters=ONE_STEP)

    @abstractmethod
    def losses(self, iteration: Iteration) -> Float[Tensor, "S B"]:
        """The meta-loss of each task, differentiable in the iteration's theta."""

    def terms(self, iteration: Iteration) -> dict[str, Float[Tensor, "S B"]]:
        """All that is to be differentiated, of each task."""
        return {META_LOSS: self.losses(iteration)}

    def weights(self, means: Mapping[str, Float[Tensor, "S"]]) -> dict[str, Float[Tensor, "S"]]:
        """How much each term's gradient counts, which may depend on their means over all tasks.

        Among the means there may be others than those of the terms, as of samples that were kept.
        """
        return {META_LOSS: torch.ones_like(means[META_LOSS])}

    def propose(self, iteration: Iteration) -> Proposal:
        """The gradients of all terms side by side, for a part of the tasks at a time: memory holds no other graph."""
        learner = iteration.learner.in_training()

        def summed(some: Iteration) -> Proposal:
            with torch.enable_grad():
                theta = some.theta.detach().requires_grad_()
                terms = self.terms(some._replace(theta=theta, learner=learner))
                gradients = [
                    torch.autograd.grad(term.sum(), theta, retain_graph=True, materialize_grads=True)[0]
                    for term in terms.values()
                ]
            stats = {name: term.detach() for name, term in terms.items()}
            one = torch.ones_like(stats[META_LOSS])
            return Moves(-torch.cat(gradients, dim=1)[:, None], one, stats).summed(some.start)

        size = (iteration.inner.steps + 1) * iteration.theta.nbytes
        return reduce(Proposal.plus, iteration.in_parts(summed, size)).over(iteration.tasks_each)

    def settled(self, proposal: Proposal) -> Proposal:
        weights = torch.stack(list(self.weights(proposal.stats).values()), dim=1).to(proposal.vector)
        parts = proposal.vector.unflatten(1, (weights.shape[1], -1))
        return proposal._replace(vector=(weights[:, :, None] * parts).sum(1))
