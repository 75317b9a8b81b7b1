"""Self-paced learning: discard what the model itself finds hard."""

import math
from dataclasses import dataclass
from typing import final

from jaxtyping import Float
from torch import Tensor

from eigen_reptile.errors import ConfigError
from eigen_reptile.inner import InnerConfig, adapt
from eigen_reptile.methods.method import MetaBatch
from eigen_reptile.methods.wrappers.sample_selection import SampleSelector, Selection, chance_loss, select_low_loss
from eigen_reptile.tasks import Batches, take_samples


@final
@dataclass(frozen=True)
class SelfPaced(SampleSelector):
    """Kumar, Packer and Koller 2010: fit the model to all samples, discard those with a high loss, and fit it again.

    One round of the alternation of self-paced learning in each task, with a threshold that grows over the iterations
    until nothing is discarded. Use it as the baseline for ISPL: here the model judges samples that it has seen.
    """

    start: float = 0.75
    """Threshold in the first iteration, in units of the chance loss (ln N among N classes)."""
    growth: float = 1.3
    """Factor by which the threshold grows."""
    every: int = 500
    """Iterations after which it grows."""

    def __post_init__(self) -> None:
        if not self.start > 0:
            raise ConfigError(f"`method.selector.start` must be above 0, not {self.start}")
        if not 1 <= self.growth < math.inf:
            raise ConfigError(f"`method.selector.growth` must be finite and at least 1, not {self.growth}")
        if self.every < 1:
            raise ConfigError(f"`method.selector.every` must be at least 1, not {self.every}")

    def batches_to_draw(self, inner: InnerConfig) -> int:
        return inner.steps

    def selection_samples(self, inner: InnerConfig) -> int:
        """All candidates twice: to fit the model, and to score them."""
        assert inner.batch is not None  # checked by WithSampleSelection
        return 2 * inner.steps * inner.batch

    def threshold(self, step: Tensor) -> Float[Tensor, ""]:
        """The threshold at an iteration, in units of the chance loss."""
        return self.start * self.growth ** (step // self.every)

    def select(self, batch: MetaBatch) -> Selection:
        network, _, state, tasks, batches, inner = batch.adaptation
        fitted, _ = adapt(network.gradient, batch.adaptation.network_theta, state, tasks.x, batches, inner)
        candidates = Batches(*(part.flatten(2, 3) for part in batches))
        losses = network.losses(fitted, take_samples(tasks.x, candidates.chosen), candidates.y)
        return select_low_loss(candidates, losses, self.threshold(batch.step) * chance_loss(tasks, candidates.y), inner)
