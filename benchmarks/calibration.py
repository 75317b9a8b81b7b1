"""How many labels the audit expects to be wrong, and how many are: human labels of CIFAR-10N, whose truth is known."""

import io
import zipfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int, UInt8
from PIL import Image
from scipy.optimize import minimize

from benchmarks.timing import measured_table
from eigen_reptile.errors import RunError
from eigen_reptile.practice.audit.audit import FIRST
from eigen_reptile.practice.audit.calibration import Calibration
from eigen_reptile.practice.backbones import EfficientNetLite0, FeatureCache
from eigen_reptile.practice.heads import LabelTrust, Support, Trust
from eigen_reptile.practice.samples import features_of
from eigen_reptile.report.benchmark import BenchmarkTable
from eigen_reptile.runtime.progress import StartProgress

DATA = Path(__file__).parents[2] / "shared" / "data" / "cifar10n"
FITTED, CHECKED, ALL = np.arange(5), np.arange(5, 10), np.arange(10)
"""Classes on which slope and offset were fitted, those on which they are checked, and both together, where more labels
are wrong, because none is left out."""
LABELS = {"none": "clean_label", "aggregate": "aggre_label", "random": "random_label1", "worse": "worse_label"}
DRAWS = {10: 4, 50: 2, 300: 1}
"""For each number of pictures a class, the draws in each repeat."""


class Labelled(NamedTuple):
    """All pictures of CIFAR-10N's subset."""

    features: Float[np.ndarray, "N F"]
    labels: dict[str, Int[np.ndarray, "N"]]
    """By column; that of `clean_label` is right."""


class Judged(NamedTuple):
    """The labels of one draw that could be judged."""

    posterior: Float[np.ndarray, "N way"]
    given: Int[np.ndarray, "N"]
    noise: float
    is_wrong: Float[np.ndarray, "N"]


def calibration(repeats: int, start_progress: StartProgress) -> BenchmarkTable:
    """Expected and actual numbers of wrong labels among the first hundred, on CIFAR-10N."""
    data = read_cifar10n(start_progress)
    report = start_progress("Calibration", 3 * len(DRAWS) * len(LABELS))
    rows: list[list[str | float]] = []
    fitting: list[list[Judged]] = []
    for classes in (FITTED, CHECKED, ALL):
        for shots, draws in DRAWS.items():
            for name, column in LABELS.items():
                found = [draw(data, classes, column, shots, number) for number in range(repeats * draws)]
                rows.append([f"{classes[0]} to {classes[-1]}", name, str(shots), *_counts(found)])
                fitting += [found] if classes is FITTED else []
                report(len(rows), {})
    slope, offset = fit_slope_and_offset(fitting)
    about = (
        f"Labels of CIFAR-10N among the {FIRST} least trusted, or all if there are fewer: how many are expected to be "
        "wrong, and how many are, as means over draws of so many pictures a class, with 95 % intervals over draws "
        "(which share pictures). Pictures whose label is not among the classes are left out. Slope and offset "
        f"were fitted on the classes 0 to 4 ({slope:.2f} and {offset:.2f} here); the classes 5 to 9 were not used for "
        "any choice. The rows of all ten classes contain both, and were not used for any choice either."
    )
    columns = ("classes", "labels", "pictures a class", "wrong, %", "among", "expected wrong", "±", "found wrong", "±")
    return measured_table("Calibration of the audit", about, columns, rows, repeats)


def read_cifar10n(start_progress: StartProgress) -> Labelled:
    """Features of 600 pictures a class and their labels by people; RunError if the data is missing."""
    if not DATA.is_dir():
        raise RunError(f"this benchmark needs CIFAR-10N in {DATA}")
    with zipfile.ZipFile(DATA / "images_600_per_class.zip") as archive:
        pixels = np.concatenate([_tiles(archive.read(f"{number}.webp")) for number in range(10)])
    with np.load(DATA / "labels.npz", allow_pickle=False) as labels:
        columns = {column: labels[column].astype(np.int64) for column in LABELS.values()}
    return Labelled(features_of(pixels, EfficientNetLite0(), FeatureCache.default(), start_progress), columns)


def _tiles(data: bytes) -> UInt8[np.ndarray, "600 32 32 3"]:
    """The pictures of a class, which are side by side in one large picture."""
    with Image.open(io.BytesIO(data)) as image:
        pixels = np.asarray(image.convert("RGB"))
    return pixels.reshape(24, 32, 25, 32, 3).transpose(0, 2, 1, 3, 4).reshape(600, 32, 32, 3)


def draw(data: Labelled, classes: Int[np.ndarray, "way"], column: str, shots: int, number: int) -> Judged:
    """Judge the labels of so many pictures of each class."""
    rng = np.random.default_rng([number, shots, list(LABELS.values()).index(column)])
    right, given = data.labels[LABELS["none"]], data.labels[column]
    rows = np.concatenate([rng.choice(np.flatnonzero(right == one), shots, replace=False) for one in classes])
    rows = rows[np.isin(given[rows], classes)]
    y = np.searchsorted(classes, given[rows])
    x = torch.from_numpy(data.features[rows])
    found: LabelTrust = Trust().judge(Support(x[None], torch.from_numpy(y)[None], len(classes)))
    judged = found.trust[0].isfinite().numpy()
    is_wrong = (given[rows] != right[rows])[judged].astype(np.float64)
    return Judged(found.posterior[0].numpy()[judged], y[judged], float(found.noise[0]), is_wrong)


def _counts(draws: list[Judged]) -> list[str | float]:
    expected, found = [], []
    for one in draws:
        wrong = Calibration().wrong(one.posterior, one.given, one.noise)
        first = np.argsort(-wrong, kind="stable")[:FIRST]
        expected.append(wrong[first].sum())
        found.append(one.is_wrong[first].sum())
    rate = 100 * np.concatenate([one.is_wrong for one in draws]).mean()
    among = np.mean([min(FIRST, len(one.given)) for one in draws])
    return [float(round(value, 1)) for value in (rate, among, *_interval(expected), *_interval(found))]


def _interval(values: list[float]) -> tuple[float, float]:
    """The mean, and half the width of its 95 % interval."""
    spread = np.std(values, ddof=1) if len(values) > 1 else 0.0
    return float(np.mean(values)), float(1.96 * spread / np.sqrt(len(values)))


def fit_slope_and_offset(groups: list[list[Judged]]) -> tuple[float, float]:
    """Logistic regression of being wrong on the uncorrected log-odds; all groups have the same weight."""
    x, y, weights = [], [], []
    for group in groups:
        size = sum(len(one.given) for one in group)
        for one in group:
            x.append(Calibration().uncorrected(one.posterior, one.given, one.noise))
            y.append(one.is_wrong)
            weights.append(np.full(len(one.given), 1 / size))
    log_odds, is_wrong, weight = map(np.concatenate, (x, y, weights))

    def loss(parameters: Float[np.ndarray, "2"]) -> float:
        slope, offset = parameters
        logits = slope * log_odds + offset
        return float((weight * (np.logaddexp(0, logits) - is_wrong * logits)).sum())

    slope, offset = minimize(loss, np.array([1.0, 0.0])).x
    return float(slope), float(offset)
