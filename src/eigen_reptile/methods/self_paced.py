"""Self-paced learning (Kumar, Packer, Koller 2010), for comparison: what the model itself finds hard comes later."""

import math
from dataclasses import dataclass
from typing import final

from jaxtyping import Float
from torch import Tensor

from eigen_reptile.inner import InnerConfig, adapt
from eigen_reptile.methods.method import Iteration
from eigen_reptile.methods.selected import Selection, Selector, keep, loss_of_a_guess
from eigen_reptile.tasks import Batches, take_samples


@final
@dataclass(frozen=True)
class SelfPaced(Selector):
    """Fit the model to all samples, drop those whose loss is then too high, and fit it again from the start.

    That is one round of the alternation of self-paced learning in each task. Its threshold grows over the iterations
    until nothing is dropped.
    """

    start: float = 0.75
    """Threshold in the first iteration, in the loss of a guess: ln N among N classes."""
    growth: float = 1.3
    """Factor by which it grows."""
    every: int = 500
    """Iterations after which it grows."""

    def __post_init__(self) -> None:
        if not self.start > 0:
            raise ValueError(f"start must be above 0, not {self.start}")
        if not 1 <= self.growth < math.inf:
            raise ValueError(f"growth must be finite and at least 1, not {self.growth}")
        if self.every < 1:
            raise ValueError(f"every must be at least 1, not {self.every}")

    def batches(self, inner: InnerConfig) -> int:
        return inner.steps

    def threshold(self, step: Tensor) -> Float[Tensor, ""]:
        """In the loss of a guess."""
        return self.start * self.growth ** (step // self.every)

    def select(self, iteration: Iteration) -> Selection:
        learner, _, _, tasks, batches, inner, step = iteration
        model, _ = adapt(learner.gradient, iteration.network, iteration.start, tasks.x, batches, inner)
        candidates = Batches(*(part.flatten(2, 3) for part in batches))
        losses = learner.losses(model, take_samples(tasks.x, candidates.chosen), candidates.y)
        return keep(candidates, losses, self.threshold(step) * loss_of_a_guess(tasks, candidates.y), inner)
