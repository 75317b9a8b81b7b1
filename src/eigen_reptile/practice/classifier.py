"""A classifier of pictures or vectors that learns from a few labels, some of them wrong; as in scikit-learn."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np
from jaxtyping import Float, Shaped
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    assert_all_finite,
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
    validate_data,
)

from eigen_reptile.errors import ConfigError
from eigen_reptile.practice.backbones import Backbone
from eigen_reptile.practice.card import Card, make_card
from eigen_reptile.practice.choices import chosen_backbone, chosen_head
from eigen_reptile.practice.learnt import Learnt, learn
from eigen_reptile.practice.model_file import write_model
from eigen_reptile.practice.rejection import check_rate
from eigen_reptile.practice.samples import features_of
from eigen_reptile.practice.saved_classifier import SavedClassifier, loaded_backbone, read_classifier, to_file

UNKNOWN = "unknown"
"""The answer for what is unlike every class, if labels are text."""
KINDS_OF_UNKNOWN = {"U": "U", "O": "U", "i": "i", "u": "i", "b": "bi", "f": "fi"}
"""Kinds of numpy types that this answer may have, by the kind of the labels."""


class Answers(NamedTuple):
    """What a classifier says about N samples."""

    labels: Shaped[np.ndarray, "N"]
    """The most probable class, or the label for what is unknown."""
    probabilities: Float[np.ndarray, "N way"]
    p_values: Float[np.ndarray, "N"] | None
    """How usual each sample is; None if nothing is rejected."""


@final
class FewShotClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Classifies pictures or vectors after learning from a few of each class, although some labels may be wrong.

    Pictures are paths, PIL images or arrays of bytes; a matrix of numbers is a vector in each row. The default settings
    are those that were measured to be best.

    Parameters
    ----------
    backbone : "auto", another name in BACKBONES, or a Backbone
        What turns samples into features. "auto" is EfficientNet-Lite0 for pictures and nothing for vectors.
    head : a name in HEADS, or a Head
        What learns from features. "trust" judges each label by the other samples.
    reject : None or a rate between 0 and 1
        If a rate is given, `predict` answers `unknown` for what is unlike all samples it has learnt from. At most this
        fraction of samples that are like them is rejected by mistake; with m samples, 1/(m+1) is the smallest rate.
    unknown : a label
        That answer: "unknown" by default. It must be given if labels are not text, for example -1.

    Attributes
    ----------
    classes_ : the labels that it has learnt, sorted
    n_features_in_ : numbers in each vector; for pictures, the number of features of the backbone
    label_trust_ : for each sample, the probability that its label is right; NaN if no other sample has that label
    suggested_labels_ : for each sample, the most probable label; the given one where it cannot be judged
    noise_ : the estimated fraction of wrong labels
    """

    def __init__(
        self,
        backbone: Any = "auto",
        head: Any = "trust",
        reject: Any = None,
        unknown: Any = None,
    ) -> None:
        """Stores its arguments only; scikit-learn requires that they are checked when it learns."""
        self.backbone = backbone
        self.head = head
        self.reject = reject
        self.unknown = unknown

    def fit(self, X: Any, y: Any) -> "FewShotClassifier":
        """Learn from these samples and forget all others."""
        features, labels = self._checked(X, y, first=True)
        return self._learn(features, labels)

    def fit_features(self, features: Float[np.ndarray, "m F"], y: Any) -> "FewShotClassifier":
        """Like `fit`, for pictures whose features the backbone has computed already."""
        self.backbone_ = chosen_backbone(self.backbone)
        self.n_features_in_ = features.shape[1]
        return self._learn(features, checked_labels(features, y))

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> "FewShotClassifier":
        """Learn from these samples too, of known or new classes; the result is that of `fit` on all samples.

        New classes may come at any time. If `classes` are given, other labels are an error.
        """
        first = not self.__sklearn_is_fitted__()
        features, labels = self._checked(X, y, first)
        if classes is not None and not np.isin(labels, classes).all():
            raise ConfigError("`y` has labels that are not in `classes`")
        if not first:
            self.learnt_.check_length(features)
            if is_text(labels) != is_text(self.classes_):
                raise ConfigError(f"`y` must have labels of the same type as before, such as {self.classes_[0]}")
            features = np.concatenate([self.learnt_.features, features])
            labels = np.concatenate([self.classes_[self.learnt_.labels], labels])
        return self._learn(features, labels)

    def predict(self, X: Any) -> Shaped[np.ndarray, "N"]:
        """The most probable class of each sample, or `unknown`."""
        return self.answers(self._features(X)).labels

    def predict_proba(self, X: Any) -> Float[np.ndarray, "N way"]:
        """The probability of each class, given that it is one of them."""
        features = self._features(X)
        return self.learnt_.probabilities(features)

    def p_value(self, X: Any) -> Float[np.ndarray, "N"]:
        """How usual each sample is: the probability that one like those learnt from is as far from them, or farther."""
        features = self._features(X)
        return self.learnt_.p_values(features)

    def answers(self, features: Float[np.ndarray, "N F"]) -> Answers:
        """All that can be said about samples, from features that the backbone has computed."""
        probabilities = self.learnt_.probabilities(features)
        labels: np.ndarray = self.classes_[probabilities.argmax(1)]
        if self.learnt_.rejection is None:
            return Answers(labels, probabilities, None)
        p_values, unknown = self.learnt_.p_values(features), np.array(self.unknown_)
        return Answers(np.where(p_values <= self.reject, unknown, labels), probabilities, p_values)

    def card(self, samples: Sequence[str] | None = None) -> Card:
        """What it has learnt from, which labels it distrusts, and its expected accuracy, which takes several fits.

        `samples` are names of the samples; the default is their positions.
        """
        check_is_fitted(self)
        saved, image_format = self.backbone_.saved(), self.backbone_.image_format
        backbone = saved.description["kind"] if saved else type(self.backbone_).__name__
        rate = None if self.reject is None else float(self.reject)
        pixels = f", {image_format.size} x {image_format.size} pixels" if image_format else ""
        return make_card(self.learnt_, [*map(str, self.classes_)], backbone + pixels, rate, samples)

    def save(self, path: str | Path, card: Card | None = None) -> None:
        """Write all of it to one file, together with its card."""
        check_is_fitted(self)
        backbone, inputs = self.backbone_, self.n_features_in_
        saved = SavedClassifier(
            self.classes_,
            self.learnt_,
            backbone.saved(),
            backbone.fingerprint,
            inputs,
            self.unknown_,
            card or self.card(),
        )
        write_model(Path(path), to_file(saved))

    @staticmethod
    def load(path: str | Path, backbone: Backbone | None = None) -> "FewShotClassifier":
        """The classifier in a file. A backbone of your own is not in the file, and must be given again."""
        saved = read_classifier(Path(path))
        backbone = backbone or loaded_backbone(saved, path)
        if backbone.fingerprint != saved.fingerprint:
            raise ConfigError(f"`backbone` is not the one that {path} was made with: its features would differ")
        found = FewShotClassifier(backbone, saved.learnt.head, saved.card.reject, saved.unknown)
        found.backbone_, found.classes_, found.unknown_ = backbone, saved.classes, saved.unknown
        found.n_features_in_ = saved.inputs
        return found._keep(saved.learnt)

    def __sklearn_is_fitted__(self) -> bool:
        return "classes_" in vars(self)

    def _checked(self, X: Any, y: Any, first: bool) -> tuple[Float[np.ndarray, "m F"], Shaped[np.ndarray, "m"]]:
        """The features of samples and their labels."""
        if y is None:
            raise ConfigError("FewShotClassifier requires y to be passed, but the target y is None")
        features = self._features(X, first)
        return features, checked_labels(features, y)

    def _features(self, X: Any, first: bool = False) -> Float[np.ndarray, "N F"]:
        if isinstance(X, Iterator):
            X = list(X)
        if first:
            self.backbone_ = chosen_backbone(self.backbone, X)
        else:
            check_is_fitted(self)
        if self.backbone_.image_format is None:
            return self.backbone_.features(validate_data(self, X, reset=first, dtype=np.float32))
        features = features_of(X, self.backbone_)
        if first:
            self.n_features_in_ = features.shape[1]
        return features

    def _learn(self, features: Float[np.ndarray, "m F"], labels: Shaped[np.ndarray, "m"]) -> "FewShotClassifier":
        head = chosen_head(self.head)
        check_rate(self.reject, len(labels))
        classes, numbers = np.unique(labels, return_inverse=True)
        unknown = None if self.reject is None else self._unknown_label(classes)
        learnt = learn(head, features, numbers, len(classes), self.reject is not None)
        self.classes_, self.unknown_ = classes, unknown  # only now, so that a failure changes nothing
        return self._keep(learnt)

    def _keep(self, learnt: Learnt) -> "FewShotClassifier":
        self.learnt_ = learnt
        self.label_trust_ = learnt.trust
        self.suggested_labels_ = self.classes_[learnt.suggested]
        self.noise_ = learnt.noise
        return self

    def _unknown_label(self, classes: Shaped[np.ndarray, "way"]) -> Any:
        if self.unknown is None and not is_text(classes):
            raise ConfigError("`unknown` must be given if labels are not text, for example unknown=-1")
        label = UNKNOWN if self.unknown is None else self.unknown
        label = label.item() if isinstance(label, np.generic) else label
        kind = classes.dtype.kind
        if np.ndim(label) or np.asarray(label).dtype.kind not in KINDS_OF_UNKNOWN.get(kind, kind):
            raise ConfigError(f"`unknown` must be of the same type as the labels, such as {classes[0]}: {label!r}")
        if label in classes:
            raise ConfigError(f"`unknown` must not be one of the classes: {label!r}")
        return label


def is_text(labels: Shaped[np.ndarray, "n"]) -> bool:
    return isinstance(labels[0], str)


def checked_labels(features: Float[np.ndarray, "m F"], y: Any) -> Shaped[np.ndarray, "m"]:
    """The labels as an array; ValueError if they are none, or not as many as samples."""
    labels: np.ndarray = column_or_1d(y, warn=True)
    check_consistent_length(features, labels)
    if labels.dtype.kind == "f":
        assert_all_finite(labels, input_name="y")
    check_classification_targets(labels)
    return labels
