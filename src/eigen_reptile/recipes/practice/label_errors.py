"""How well wrong labels are found: trust against cleanlab, on human labels (CIFAR-10N) and on symmetric noise."""

import warnings
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.neighbors import KNeighborsClassifier

from eigen_reptile.data import CifarFs, data_folder
from eigen_reptile.errors import ConfigError, DataError
from eigen_reptile.noise.label_files import read_pairs_from_npz
from eigen_reptile.practice.backbones import EfficientNetLite0, FeatureCache
from eigen_reptile.practice.heads import Support, Trust
from eigen_reptile.practice.image_folder import features_of_folder, list_image_folder
from eigen_reptile.recipes.practice.head_accuracy import features_of_test_classes
from eigen_reptile.recipes.study import Line, Panel, Study, mean_line
from eigen_reptile.runtime.progress import StartProgress
from eigen_reptile.runtime.rng import generator_at

DRAWS = {5: 40, 10: 40, 20: 40, 50: 20, 300: 5}
"""Images per class, and how many random subsets of that size are judged."""
ALL = 600
"""All images of a class. There is only one such set, so its interval is over bootstrap samples of the judged images."""
BOOTSTRAP = 200
NOISES = {"aggregate": "aggre_label", "random": "random_label1", "worse": "worse_label"}
CLASSES = {"classes 5 to 9": range(5, 10), "all classes": range(10)}
"""Settings were chosen on classes 0 to 4, with the labels called "worse"."""
MANY_DRAWS = {10: 400}
"""For a narrow interval where few images of a class are judged."""
CIFAR_FS_DRAWS = {5: 20, 10: 20, 20: 10, 50: 5}
CIFAR_FS_RATES = (0.2, 0.4)
FOLDS = 5

Judge = Callable[[Float[np.ndarray, "N F"], Int[np.ndarray, "N"], int], Float[np.ndarray, "N"]]
"""From features, given labels and the number of classes to a score for each label, low where it looks wrong."""


class LabelledFeatures(NamedTuple):
    """Images with the labels that people gave them, and their true classes."""

    x: Float[np.ndarray, "N F"]
    true: Int[np.ndarray, "N"]
    given: Int[np.ndarray, "N"]

    def of_classes(self, classes: range) -> "LabelledFeatures":
        """The images of these classes whose given labels are among them too, with labels from 0."""
        kept = np.isin(self.true, classes) & np.isin(self.given, classes)
        return LabelledFeatures(self.x[kept], self.true[kept] - classes.start, self.given[kept] - classes.start)


def by_trust(x: Float[np.ndarray, "N F"], given: Int[np.ndarray, "N"], way: int) -> Float[np.ndarray, "N"]:
    """A label that cannot be judged gets the average trust, because it is no better and no worse than others."""
    support = Support(torch.from_numpy(x)[None], torch.from_numpy(given)[None], way)
    trust = Trust().judge(support).trust[0].double().numpy()
    return np.where(np.isnan(trust), np.nanmean(trust), trust)


def by_cleanlab(x: Float[np.ndarray, "N F"], given: Int[np.ndarray, "N"], way: int) -> Float[np.ndarray, "N"]:
    """cleanlab's score of cross-validated logistic regression, as its tutorials do it."""
    return _cleanlab_score(LogisticRegression(max_iter=300), x, given, way)


def by_cleanlab_neighbours(x: Float[np.ndarray, "N F"], given: Int[np.ndarray, "N"], way: int) -> np.ndarray:
    """cleanlab's score of cross-validated nearest neighbours."""
    return _cleanlab_score(KNeighborsClassifier(min(5, max(1, len(x) // 4))), x, given, way)


def _cleanlab_score(
    model: LogisticRegression | KNeighborsClassifier, x: np.ndarray, given: np.ndarray, way: int
) -> Float[np.ndarray, "N"]:
    try:
        from cleanlab.rank import get_label_quality_scores
    except ImportError as error:
        raise ConfigError("this study compares with cleanlab: pip install 'eigen-reptile[dev]'") from error
    # Shuffled, because the order of the images tells their true classes.
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=0)
    found = np.unique(given)
    predicted = np.full((len(x), way), 1e-9)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about classes with fewer samples than folds
        predicted[:, found] += cross_val_predict(
            model, x, np.searchsorted(found, given), cv=folds, method="predict_proba"
        )
    predicted /= predicted.sum(1, keepdims=True)
    scores: np.ndarray = get_label_quality_scores(given, predicted)
    return scores


JUDGES: dict[str, Judge] = {
    "trust": by_trust,
    "cleanlab, logistic regression": by_cleanlab,
    "cleanlab, 5 nearest neighbours": by_cleanlab_neighbours,
}


def errors_of_cifar10n(start_progress: StartProgress) -> Study:
    """The study on CIFAR-10N, whose folder must be where the data sets are: images/CLASS and labels.npz."""
    about = (
        f"{_about('the human errors of CIFAR-10N')} Intervals are over random subsets of the images, at {ALL} over "
        "bootstrap samples."
    )
    return label_errors(read_cifar10n(NOISES, start_progress), CLASSES, DRAWS, ALL, about, start_progress)


def errors_of_ten_images(start_progress: StartProgress) -> Study:
    """The labels called "worse" at ten images per class, over enough subsets for a narrow interval."""
    data = read_cifar10n({"worse": NOISES["worse"]}, start_progress)
    about = (
        "Average precision of finding the human errors of CIFAR-10N by trust on features of EfficientNet-Lite0. "
        f"Intervals are over {MANY_DRAWS[10]} random subsets of the images, which share images."
    )
    return label_errors(data, CLASSES, MANY_DRAWS, None, about, start_progress, {"trust": by_trust})


def errors_of_cifar_fs(start_progress: StartProgress) -> Study:
    """The study on the test classes of CIFAR-FS, whose labels are made wrong at random."""
    features = features_of_test_classes(CifarFs(), start_progress)
    way = len(features.sizes)
    true = np.repeat(np.arange(way), features.sizes)
    data = {
        f"{100 * rate:g} % wrong": LabelledFeatures(
            features.x, true, symmetric_labels(true, way, rate, generator_at(0, "noise", number))
        )
        for number, rate in enumerate(CIFAR_FS_RATES)
    }
    about = (
        f"{_about('wrong labels of CIFAR-FS')} Each label is wrong with the same probability, and then any "
        "other class. "
        f"Intervals are over random subsets of the images: {_listed(CIFAR_FS_DRAWS)}."
    )
    return label_errors(data, {f"{way} test classes": range(way)}, CIFAR_FS_DRAWS, None, about, start_progress)


def _about(errors: str) -> str:
    return (
        f"Average precision of finding {errors}, by trust and by cleanlab on the same features of EfficientNet-Lite0."
    )


def _listed(draws: Mapping[int, int]) -> str:
    return ", ".join(f"{count} of {per_class} a class" for per_class, count in draws.items())


def symmetric_labels(
    true: Int[np.ndarray, "N"], way: int, rate: float, rng: np.random.Generator
) -> Int[np.ndarray, "N"]:
    """Labels that are wrong with this probability, and then any other class with equal probability."""
    wrong = rng.random(len(true)) < rate
    return np.where(wrong, (true + rng.integers(1, way, len(true))) % way, true)


def read_cifar10n(columns: Mapping[str, str], start_progress: StartProgress) -> dict[str, LabelledFeatures]:
    """Features of all images of CIFAR-10N, with the labels in each of these columns of its labels.npz."""
    root = data_folder() / "cifar10n"
    folder = list_image_folder(root / "images")
    folder, x = features_of_folder(folder, EfficientNetLite0(), FeatureCache.default(), start_progress)
    data = {}
    for noise, column in columns.items():
        true, given = np.array(read_pairs_from_npz(root / "labels.npz", column), dtype=np.int64).T
        if not np.array_equal(true, folder.labels):
            raise DataError(f"the images in {root} are not those that its labels are about")
        data[noise] = LabelledFeatures(x, true, given)
    return data


def label_errors(
    data: Mapping[str, LabelledFeatures],
    classes: Mapping[str, range],
    draws: Mapping[int, int],
    whole: int | None,
    about: str,
    start_progress: StartProgress,
    judges: Mapping[str, Judge] = JUDGES,
) -> Study:
    """Average precision of finding the wrong labels, for each noise and for each set of classes.

    `whole` is the number of all images of a class, if these are to be judged too.
    """
    parts = {
        f"{noise} labels, {where}": (labelled.of_classes(chosen), len(chosen))
        for where, chosen in classes.items()
        for noise, labelled in data.items()
    }
    report = start_progress("finding wrong labels", len(parts) * len(judges))
    panels: list[Panel] = []
    for title, (part, way) in parts.items():
        lines: list[Line] = []
        for name, judge in judges.items():
            lines.append(_line(name, judge, part, way, draws, whole))
            report(len(panels) * len(judges) + len(lines), {})
        panels.append(Panel(title, "images a class", "average precision", lines, True))
    return Study("Finding wrong labels", about, panels, [])


def _line(
    name: str, judge: Judge, data: LabelledFeatures, way: int, draws: Mapping[int, int], whole: int | None
) -> Line:
    values = [
        np.array([_precision(*_judged(judge, data, per_class, draw, way)) for draw in range(count)])
        for per_class, count in draws.items()
    ]
    line = mean_line(name, [*map(float, draws)], [found[np.isfinite(found)] for found in values])
    if whole is None:
        return line
    scores, wrong = _judged(judge, data, whole, 0, way)
    rng = generator_at(0, "test", whole)
    again = [rng.integers(len(wrong), size=len(wrong)) for _ in range(BOOTSTRAP)]
    half = 1.96 * float(np.nanstd([_precision(scores[rows], wrong[rows]) for rows in again]))
    return Line(name, [*line.x, float(whole)], [*line.y, _precision(scores, wrong)], [*line.ci95, half])


def _judged(
    judge: Judge, data: LabelledFeatures, per_class: int, draw: int, way: int
) -> tuple[Float[np.ndarray, "n"], Bool[np.ndarray, "n"]]:
    """The scores of a random subset, and which of its labels are wrong."""
    rows = draw_rows(data, per_class, draw, way)
    return judge(data.x[rows], data.given[rows], way), data.given[rows] != data.true[rows]


def draw_rows(data: LabelledFeatures, per_class: int, draw: int, way: int) -> Int[np.ndarray, "n"]:
    """A random subset with this many images per class, in random order; the same for every judge."""
    rng = generator_at(draw, "test", per_class)
    members = [np.flatnonzero(data.true == true) for true in range(way)]
    return rng.permutation(np.concatenate([rng.permutation(some)[:per_class] for some in members]))


def _precision(scores: Float[np.ndarray, "n"], wrong: Bool[np.ndarray, "n"]) -> float:
    """NaN if there is no wrong label to find."""
    return float(average_precision_score(wrong, -scores)) if wrong.any() else float("nan")
