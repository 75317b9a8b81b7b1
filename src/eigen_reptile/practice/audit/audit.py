"""Every label's trust, judged by a model that has not seen the sample, with a suggestion and its nearest evidence."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import numpy as np
import torch
from jaxtyping import Bool, Float, Int

from eigen_reptile.errors import ConfigError, DataError
from eigen_reptile.practice.audit.calibration import Calibration
from eigen_reptile.practice.heads import Support, Trust
from eigen_reptile.practice.samples import as_vectors
from eigen_reptile.runtime.memory import check_memory

SUSPICIOUS = 0.8
"""Labels with less trust are suspects."""
TYPICAL = 6
"""Typical samples of a class."""
CHUNK = 1024
"""Suspects that are compared with a class at once."""
COPIES = 5
"""Number of double-precision copies of the features in memory at once."""
FIRST = 100
"""Number of labels, the least trusted first, for which the expected number of wrong ones is given."""


class AuditRow(NamedTuple):
    """What is known about one label."""

    sample: int
    """Its position among the samples."""
    given: str
    suggested: str
    """The most probable other class if the label is a suspect, otherwise the given one."""
    trust: float | None
    """Probability that the given label is right; None if no other sample has that label."""
    evidence: int | None
    """Of a suspect: the position of the most similar sample that has the suggested label."""


@final
@dataclass(frozen=True)
class Audit:
    """The labels of a data set, judged."""

    classes: tuple[str, ...]
    given: Int[np.ndarray, "N"]
    """The class of each sample, as a position in `classes`."""
    suggested: Int[np.ndarray, "N"]
    trust: Float[np.ndarray, "N"]
    """NaN where a class has one sample, which nothing can be compared with."""
    evidence: Int[np.ndarray, "N"]
    """-1 for samples that are no suspects."""
    typical: tuple[tuple[int, ...], ...]
    """For each class, samples that are most like its other samples, the most typical first."""

    @property
    def order(self) -> Int[np.ndarray, "N"]:
        """All samples, the least trusted first, and at the end those that cannot be judged."""
        return np.argsort(self.trust, kind="stable")  # NaN comes last

    @property
    def suspects(self) -> list[int]:
        """The samples whose label is less trusted than the audit asked for, the least trusted first."""
        return [int(sample) for sample in self.order if self.suggested[sample] != self.given[sample]]

    @property
    def not_judged(self) -> int:
        return int(np.isnan(self.trust).sum())

    def expected_wrong(self, first: int | None = None) -> float:
        """How many of the first labels, or of all, are expected to be wrong."""
        return float(np.nansum(1 - self.trust[self.order[:first]]))

    def rows(self) -> Iterator[AuditRow]:
        """All labels, the least trusted first."""
        for sample in map(int, self.order):
            trust, evidence = float(self.trust[sample]), int(self.evidence[sample])
            yield AuditRow(
                sample,
                self.classes[self.given[sample]],
                self.classes[self.suggested[sample]],
                None if np.isnan(trust) else trust,
                None if evidence < 0 else evidence,
            )


def audit_labels(
    features: Any,
    labels: Sequence[Any] | np.ndarray,
    below: float = SUSPICIOUS,
    head: Trust | None = None,
    calibration: Calibration | None = None,
) -> Audit:
    """Judge the label of every row of features. Labels may be of any kind; the audit shows them as text.

    Labels with a trust below `below` are suspects, for which another class is suggested.
    """
    vectors, (classes, given) = as_vectors(features), _classes(labels)
    if len(given) != len(vectors):
        raise ConfigError(f"there must be as many labels as samples, not {len(given)} for {len(vectors)}")
    if not 0 < below <= 1:
        raise ConfigError(f"`below` must be above 0 and at most 1, not {below}")
    if len(classes) < 2:
        raise DataError(f"labels can be judged only among several classes, and there is only {classes[0]}")
    check_memory(COPIES * 8 * vectors.size, f"judging {len(vectors)} labels", "audit some of the classes at a time")
    x = torch.from_numpy(vectors)
    found = (head or Trust()).judge(Support(x[None], torch.from_numpy(given)[None], len(classes)))
    posterior, judged = found.posterior[0].numpy(), ~found.trust[0].isnan().numpy()
    trust = np.full(len(given), np.nan)
    if judged.any():
        wrong = (calibration or Calibration()).wrong(posterior[judged], given[judged], float(found.noise[0]))
        trust[judged] = 1 - wrong
    suspicious = judged & (np.nan_to_num(trust, nan=1.0) < below)
    suggested = np.where(suspicious, _best_other_class(posterior, given), given)
    directions = _directions(vectors)
    evidence = _nearest_evidence(directions, given, suggested, trust, suspicious)
    typical = tuple(_typical(directions, trust, np.flatnonzero(given == number)) for number in range(len(classes)))
    return Audit(classes, given, suggested, trust, evidence, typical)


def _classes(labels: Sequence[Any] | np.ndarray) -> tuple[tuple[str, ...], Int[np.ndarray, "N"]]:
    names, given = np.unique(np.asarray([str(label) for label in labels]), return_inverse=True)
    if not len(names):
        raise ConfigError("there are no labels")
    return tuple(map(str, names)), given.astype(np.int64)


def _best_other_class(posterior: Float[np.ndarray, "N way"], given: Int[np.ndarray, "N"]) -> Int[np.ndarray, "N"]:
    others: np.ndarray = np.nan_to_num(posterior)
    others[np.arange(len(given)), given] = -1
    return np.asarray(others.argmax(1))


def _directions(vectors: Float[np.ndarray, "N F"]) -> Float[np.ndarray, "N F"]:
    """Unit vectors from the mean to the samples; their products are the similarities that `Trust` uses too."""
    centred = vectors - vectors.mean(0)
    lengths = np.linalg.norm(centred, axis=1, keepdims=True)
    return np.asarray(centred / np.where(lengths > 0, lengths, 1))


def _nearest_evidence(
    directions: Float[np.ndarray, "N F"],
    given: Int[np.ndarray, "N"],
    suggested: Int[np.ndarray, "N"],
    trust: Float[np.ndarray, "N"],
    suspicious: Bool[np.ndarray, "N"],
) -> Int[np.ndarray, "N"]:
    """The most similar sample that has the suggested label and is no suspect itself; if all are, any of them."""
    nearest = np.full(len(given), -1)
    for number in np.unique(suggested[suspicious]):
        members = np.flatnonzero((given == number) & ~suspicious)
        if not len(members):
            members = np.flatnonzero(given == number)
        wanted = np.flatnonzero(suspicious & (suggested == number))
        for start in range(0, len(wanted), CHUNK):
            chunk = wanted[start : start + CHUNK]
            nearest[chunk] = members[(directions[chunk] @ directions[members].T).argmax(1)]
    return nearest


def _typical(
    directions: Float[np.ndarray, "N F"], trust: Float[np.ndarray, "N"], members: Int[np.ndarray, "n"]
) -> tuple[int, ...]:
    """The samples of a class that are nearest to its mean, in which each counts as far as it is trusted."""
    weights = np.nan_to_num(trust[members], nan=1.0)
    similarity = directions[members] @ (weights @ directions[members])
    return tuple(int(members[place]) for place in np.argsort(-weights * similarity, kind="stable")[:TYPICAL])
