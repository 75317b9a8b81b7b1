"""How heads survive wrong labels: accuracy on the same tasks and features, and how well trust finds the wrong ones."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from sklearn.metrics import roc_auc_score
from torch import Tensor

from eigen_reptile.data import CifarFs, Dataset, ImageBank, Omniglot, TaskShape
from eigen_reptile.data.sampling import sample_tasks
from eigen_reptile.errors import DataError
from eigen_reptile.noise import SupportNoise, with_support_noise
from eigen_reptile.practice.backbones import EfficientNetLite0, FeatureCache
from eigen_reptile.practice.heads import HEADS, Head, Support, Trust
from eigen_reptile.practice.samples import features_of
from eigen_reptile.recipes.study import Line, Panel, Study, mean_line
from eigen_reptile.runtime.progress import StartProgress
from eigen_reptile.runtime.rng import Purpose, generator_at
from eigen_reptile.tasks import Tasks

TASKS = 600
WAY, QUERIES = 5, 15
SHOTS = (5, 10)
Rates = Mapping[SupportNoise, tuple[float, ...]]
"""Rates of wrong labels, by kind of noise."""
RATES: Rates = {
    "symmetric": (0.0, 0.2, 0.4, 0.6),
    "paired": (0.0, 0.2, 0.4),
    "outlier": (0.0, 0.2, 0.4, 0.6),
}
"""Paired noise above a half would make the wrong class the larger one."""
OMNIGLOT_QUERIES = 10
"""A character has 20 images, of which 10 are in the support."""
OMNIGLOT_RATES: Rates = {"symmetric": (0.0, 0.2, 0.4, 0.6), "paired": (0.0, 0.4), "outlier": (0.0, 0.4)}
INDEX_BYTES = 8
AT_ONCE = 100
"""Tasks whose heads are learnt together, to bound the memory."""


class ClassFeatures(NamedTuple):
    """Features of the samples of some classes, one class after the other; `sizes` are the numbers of samples."""

    x: Float[np.ndarray, "N F"]
    sizes: tuple[int, ...]

    @property
    def bank(self) -> ImageBank:
        """A bank whose images are the numbers of the samples, so that it draws the tasks that one of images draws."""
        numbers = np.arange(len(self.x), dtype=np.int64).view(np.uint8).reshape(-1, 1, 1, INDEX_BYTES)
        return ImageBank(numbers, [f"class {number}" for number in range(len(self.sizes))], self.sizes)

    def at(self, drawn: Tensor) -> Float[Tensor, "T m F"]:
        """The features of drawn samples."""
        numbers = drawn[:, 0].flatten(2).contiguous().numpy().view(np.int64)[..., 0]
        return torch.from_numpy(self.x[numbers])


def heads_on_cifar_fs(start_progress: StartProgress) -> Study:
    """The study on the test classes of CIFAR-FS."""
    return head_accuracy({"CIFAR-FS": features_of_test_classes(CifarFs(), start_progress)}, start_progress)


def heads_on_omniglot(start_progress: StartProgress) -> Study:
    """The study on the test characters of Omniglot, which are enlarged from 28 pixels as the classifier does it."""
    data = {"Omniglot": features_of_test_classes(Omniglot(), start_progress)}
    return head_accuracy(data, start_progress, queries=OMNIGLOT_QUERIES, rates_by_kind=OMNIGLOT_RATES)


def features_of_test_classes(dataset: Dataset, start_progress: StartProgress) -> ClassFeatures:
    """Features by EfficientNet-Lite0 of all test images of a data set."""
    bank = dataset.load(start_progress).test
    if not isinstance(bank, ImageBank):
        raise DataError("this study needs a data set of images")
    x = features_of(bank.pixels, EfficientNetLite0(), FeatureCache.default(), start_progress)
    return ClassFeatures(x, tuple(bank.sizes.tolist()))


def head_accuracy(
    data: Mapping[str, ClassFeatures],
    start_progress: StartProgress,
    purpose: Purpose = "test",
    tasks: int = TASKS,
    heads: Mapping[str, Head] = HEADS,
    queries: int = QUERIES,
    rates_by_kind: Rates = RATES,
) -> Study:
    """Accuracy of each head, and the AUC of trust, by noise, on each of the data sets.

    The tasks are the first ones in the list of this purpose with seed 0, the same as those of trained networks.
    """
    panels = []
    report = start_progress("heads under noise", len(data) * len(rates_by_kind) * (len(SHOTS) + 1))
    for name, features in data.items():
        for kind, rates in rates_by_kind.items():
            found = []
            for shots in SHOTS:
                by_rate = [
                    _scores(features, TaskShape(WAY, shots, queries), kind, rate, purpose, tasks, heads)
                    for rate in rates
                ]
                panels.append(
                    _panel(f"{name}: {kind} noise, {shots}-shot", rates, [scores.accuracy for scores in by_rate])
                )
                found.append(mean_line(f"{shots}-shot", rates[1:], [scores.auc for scores in by_rate[1:]]))
                report(len(panels), {})
            panels.append(Panel(f"{name}: wrong labels found by trust, {kind} noise", "rate", "AUC", found))
            report(len(panels), {})
    return Study("Heads under wrong labels in the support", _about(tasks, purpose, queries), panels, [])


def _about(tasks: int, purpose: Purpose, queries: int) -> str:
    return (
        f"{WAY}-way accuracy in per cent on {tasks} {purpose} tasks with {queries} queries per class and 95 % "
        "intervals over tasks: the same tasks, features and wrong labels for every head. A backbone that was trained "
        "on ImageNet has seen such classes: compare heads with each other, not with networks trained from scratch."
    )


class _Scores(NamedTuple):
    """Of single tasks."""

    accuracy: dict[str, Float[np.ndarray, "T"]]
    auc: Float[np.ndarray, "T"]
    """Of trust as a sign that a label is right; NaN without wrong labels."""


def _panel(title: str, rates: Sequence[float], by_rate: Sequence[Mapping[str, np.ndarray]]) -> Panel:
    lines: list[Line] = [mean_line(head, rates, [100 * scores[head] for scores in by_rate]) for head in by_rate[0]]
    return Panel(title, "rate", "accuracy, %", lines)


def _scores(
    features: ClassFeatures,
    shape: TaskShape,
    kind: SupportNoise,
    rate: float,
    purpose: Purpose,
    tasks: int,
    heads: Mapping[str, Head],
) -> _Scores:
    parts = [range(first, min(first + AT_ONCE, tasks)) for first in range(0, tasks, AT_ONCE)]
    accuracy: dict[str, list[np.ndarray]] = {name: [] for name in heads}
    auc: list[float] = []
    for numbers in parts:
        drawn = _draw(features.bank, shape, kind, rate, purpose, numbers)
        support = Support(features.at(drawn.x), drawn.y[:, 0], shape.way)
        queries, truth = features.at(drawn.query_x), drawn.query_y[:, 0]
        for name, head in heads.items():
            right = head.fit(support).logits(queries).argmax(-1) == truth
            accuracy[name].append(right.double().mean(-1).numpy())
        auc += _auc(Trust().judge(support).trust, drawn.is_clean[:, 0])
    return _Scores({name: np.concatenate(found) for name, found in accuracy.items()}, np.array(auc))


def _draw(
    bank: ImageBank, shape: TaskShape, kind: SupportNoise, rate: float, purpose: Purpose, numbers: Sequence[int]
) -> Tasks:
    """The tasks with these numbers, as an evaluation with seed 0 draws them."""
    tasks = sample_tasks(bank, shape, 1, [generator_at(0, purpose, number) for number in numbers])
    return with_support_noise(
        tasks, bank, shape, kind, rate, [generator_at(0, "support", number) for number in numbers]
    )


def _auc(trust: Float[Tensor, "T m"], is_clean: Tensor) -> list[float]:
    if bool(is_clean.all()):
        return [float("nan")] * len(trust)
    return [float(roc_auc_score(clean, own)) for own, clean in zip(trust.numpy(), is_clean.numpy(), strict=True)]
