"""What a classifier learns from features and labels, whatever the samples and the names of classes are."""

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int

from eigen_reptile.errors import ConfigError
from eigen_reptile.practice.heads import FittedHead, Head, Support, Trust
from eigen_reptile.practice.rejection import Rejection
from eigen_reptile.runtime.memory import check_memory

COPIES = 6
"""Number of double-precision copies of the features that learning needs at a time."""
CHUNK = 1024
"""Samples that are classified at a time."""


class Learnt(NamedTuple):
    """A head that has learnt from a support of m samples, and what it found out about their labels."""

    head: Head
    features: Float[np.ndarray, "m F"]
    labels: Int[np.ndarray, "m"]
    way: int
    fitted: FittedHead
    rejection: Rejection | None
    """None if nothing is to be rejected."""
    trust: Float[np.ndarray, "m"]
    """Probability that a label is right; NaN if no other sample has it."""
    suggested: Int[np.ndarray, "m"]
    """The most probable class; the label itself where it cannot be judged."""
    noise: float
    """Estimated fraction of wrong labels."""

    def support(self) -> Support:
        return as_support(self.features, self.labels, self.way)

    def check_length(self, features: Float[np.ndarray, "N F"]) -> None:
        """ConfigError if a sample has more or fewer features than those of the support, which only a backbone of one's
        own or a hostile model file can cause."""
        found, expected = features.shape[1], self.features.shape[1]
        if found != expected:
            raise ConfigError(f"the backbone returned {found} features; the classifier learnt from {expected}")

    def probabilities(self, features: Float[np.ndarray, "N F"]) -> Float[np.ndarray, "N way"]:
        self.check_length(features)
        parts = torch.tensor(features).double().split(CHUNK)
        return torch.cat([self.fitted.logits(x[None])[0].softmax(-1) for x in parts]).numpy()

    def p_values(self, features: Float[np.ndarray, "N F"]) -> Float[np.ndarray, "N"]:
        self.check_length(features)
        rejection = self.rejection or Rejection.of(self.support().x[0])
        return torch.cat([rejection.p_value(x) for x in torch.tensor(features).double().split(CHUNK)]).numpy()


def learn(
    head: Head, features: Float[np.ndarray, "m F"], labels: Int[np.ndarray, "m"], way: int, rejects: bool
) -> Learnt:
    """Learn from all samples at once; RunError if they do not fit into memory."""
    check_memory(COPIES * 8 * features.size, f"learning from {len(labels)} samples", "use fewer of them")
    support = as_support(features, labels, way)
    fitted: FittedHead
    if isinstance(head, Trust):
        fitted, judged = head.fit_and_judge(support)
    else:
        fitted, judged = head.fit(support), Trust().judge(support)
    rejection = Rejection.of(support.x[0]) if rejects else None
    trust = judged.trust[0].numpy()
    suggested = np.where(np.isnan(trust), labels, judged.posterior[0].nan_to_num(0).argmax(-1).numpy())
    return Learnt(head, features, labels, way, fitted, rejection, trust, suggested, float(judged.noise))


def as_support(features: Float[np.ndarray, "m F"], labels: Int[np.ndarray, "m"], way: int) -> Support:
    """One task, in double precision."""
    return Support(torch.tensor(features).double()[None], torch.tensor(labels)[None], way)
