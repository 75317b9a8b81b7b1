"""The card of a classifier: what it has learnt from, what is wrong with that, and how good it is expected to be."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from typing import final

import numpy as np
import torch
from jaxtyping import Bool
from scipy.stats import binomtest

from eigen_reptile.practice.learnt import Learnt
from eigen_reptile.practice.out_of_sample import MOST_LEFT_OUT, out_of_sample_predictions

MOST_SUSPECTS = 1000
"""Number of least trusted labels that a card lists."""
CONFIDENCE = 0.95


@final
@dataclass(frozen=True)
class ClassRow:
    """A class, and its samples."""

    name: str
    samples: int
    recognised: int | None
    """Samples that are given this class by a head that has not seen them; None for a single sample."""
    distrusted: int
    """Labels for which another class is more probable."""


@final
@dataclass(frozen=True)
class Suspect:
    """A label for which another class is more probable."""

    sample: str
    """Its path, or its position."""
    given: str
    suggested: str
    trust: float


@final
@dataclass(frozen=True)
class Accuracy:
    """How often samples are given their label by a head that has not seen them, with Wilson's 95 % interval.

    A wrong label counts as an error even if the answer is right, so that the accuracy is underestimated where labels
    are wrong. Classes with a single sample are left out.
    """

    method: str
    correct: int
    samples: int
    low: float
    high: float

    @property
    def rate(self) -> float:
        return self.correct / self.samples

    def __str__(self) -> str:
        return f"{100 * self.rate:.1f} % of the labels ({100 * self.low:.1f} to {100 * self.high:.1f}, {self.method})"


@final
@dataclass(frozen=True)
class Card:
    """What is known about a classifier."""

    time: str
    versions: dict[str, str]
    backbone: str
    head: str
    features: int
    classes: tuple[ClassRow, ...]
    noise: float
    """Estimated fraction of wrong labels."""
    suspects: tuple[Suspect, ...]
    """The labels for which another class is more probable, the least trusted first."""
    accuracy: Accuracy | None
    """None if no class has two samples."""
    reject: float | None
    """False-alarm rate at which samples are answered with `unknown`."""

    def lines(self) -> Iterator[str]:
        """As text."""
        samples, distrusted = (sum(getattr(row, name) for row in self.classes) for name in ("samples", "distrusted"))
        fewest, most = (choose(row.samples for row in self.classes) for choose in (min, max))
        yield f"classes:   {len(self.classes)}, with {fewest} to {most} samples each, {samples} in all"
        yield f"accuracy:  {self.accuracy or 'not estimated: no class has two samples'}"
        if self.accuracy and distrusted:
            yield "           of right labels probably more, because a wrong label counts as an error"
        yield f"labels:    {distrusted} distrusted; {100 * self.noise:.1f} % estimated to be wrong"
        yield f"backbone:  {self.backbone} ({self.features} features)"
        yield f"head:      {self.head}"
        unknown = "never" if self.reject is None else f"at most {100 * self.reject:g} % false alarms"
        yield f"unknown:   {unknown}"
        yield f"written:   {self.time} with {', '.join(f'{name} {which}' for name, which in self.versions.items())}"


def make_card(
    learnt: Learnt, names: Sequence[str], backbone: str, reject: float | None, samples: Sequence[str] | None = None
) -> Card:
    """The card of a classifier, given the names of its classes and of its samples: by default their positions."""
    labels = learnt.labels
    counts = np.bincount(labels, minlength=learnt.way)
    repeated = counts[labels] > 1
    correct = np.zeros(len(labels), dtype=bool)
    if repeated.any():
        correct = out_of_sample_predictions(learnt.head, learnt.support()).numpy() == labels
    distrusted = learnt.suggested != labels
    rows = [
        ClassRow(
            name,
            int(counts[number]),
            int(correct[labels == number].sum()) if counts[number] > 1 else None,
            int(distrusted[labels == number].sum()),
        )
        for number, name in enumerate(names)
    ]
    return Card(
        time=datetime.now(UTC).isoformat(timespec="seconds"),
        versions={"eigen-reptile": version("eigen-reptile"), "torch": torch.__version__, "numpy": np.__version__},
        backbone=backbone,
        head=str(learnt.head),
        features=learnt.features.shape[1],
        classes=tuple(rows),
        noise=learnt.noise,
        suspects=tuple(_suspects(learnt, distrusted, names, samples)),
        accuracy=_accuracy(correct[repeated], len(labels)) if repeated.any() else None,
        reject=reject,
    )


def _suspects(
    learnt: Learnt, distrusted: Bool[np.ndarray, "m"], names: Sequence[str], samples: Sequence[str] | None
) -> Iterator[Suspect]:
    order = np.argsort(learnt.trust, kind="stable")
    for row in order[distrusted[order]][:MOST_SUSPECTS].tolist():
        name = f"sample {row}" if samples is None else samples[row]
        yield Suspect(name, names[learnt.labels[row]], names[learnt.suggested[row]], float(learnt.trust[row]))


def _accuracy(correct: Bool[np.ndarray, "n"], samples: int) -> Accuracy:
    method = "leave-one-out" if samples <= MOST_LEFT_OUT else "cross-validation"
    right, total = int(correct.sum()), len(correct)
    interval = binomtest(right, total).proportion_ci(CONFIDENCE, method="wilson")
    return Accuracy(method, right, total, float(interval.low), float(interval.high))
