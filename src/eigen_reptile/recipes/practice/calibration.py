"""How many labels the audit expects to be wrong, and how many are: human labels of CIFAR-10N, whose truth is known."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.optimize import minimize
from scipy.special import expit

from eigen_reptile.practice.audit.audit import FIRST
from eigen_reptile.practice.audit.calibration import Calibration, inputs
from eigen_reptile.practice.heads import Support, Trust
from eigen_reptile.recipes.practice.label_errors import NOISES, LabelledFeatures, draw_rows, read_cifar10n
from eigen_reptile.recipes.study import Panel, Study, mean_line
from eigen_reptile.runtime.progress import StartProgress

FITTED = "classes 0 to 4"
CLASSES = {FITTED: range(5), "classes 5 to 9": range(5, 10), "all classes": range(10)}
"""The classes on which the calibration was fitted, those on which it is checked, and both together. With all classes
more labels are wrong, because no image is left out for having a label outside of the classes."""
COLUMNS = {"right": "clean_label", **NOISES}
DRAWS = {10: 30, 50: 15, 300: 5}
"""Images per class, and how many random subsets of that size are judged."""


class Judged(NamedTuple):
    """The labels of one subset that could be judged."""

    posterior: Float[np.ndarray, "N way"]
    given: Int[np.ndarray, "N"]
    noise: float
    is_wrong: Float[np.ndarray, "N"]


def calibration_on_cifar10n(start_progress: StartProgress) -> Study:
    """Expected and actual numbers of wrong labels among the hundred least trusted, on CIFAR-10N."""
    return calibration(read_cifar10n(COLUMNS, start_progress), CLASSES, DRAWS, start_progress)


def calibration(
    data: Mapping[str, LabelledFeatures],
    classes: Mapping[str, range],
    draws: Mapping[int, int],
    start_progress: StartProgress,
) -> Study:
    """Expected and actual numbers for each set of classes and labels, and what a new fit on the first set gives."""
    report = start_progress("calibration", len(classes) * len(data))
    panels: list[Panel] = []
    fitting: list[list[Judged]] = []
    for where, chosen in classes.items():
        for noise, labelled in data.items():
            part, way = labelled.of_classes(chosen), len(chosen)
            groups = [[judged(part, way, size, draw) for draw in range(count)] for size, count in draws.items()]
            fitting += groups if where == FITTED else []
            panels.append(_panel(f"{noise} labels, {where}", list(draws), groups))
            report(len(panels), {})
    numbers = ", ".join(f"{number:.3f}" for number in fit(fitting)) if fitting else "none"
    about = (
        f"Labels of CIFAR-10N among the {FIRST} least trusted, or all if there are fewer: how many are expected to be "
        "wrong and how many are, with 95 % intervals over random subsets, which share images. Images whose label is "
        "not among the classes are left out. The calibration was fitted on classes 0 to 4 (a new fit gives "
        f"{numbers}); classes 5 to 9 were not used for the fit, and all ten contain both."
    )
    return Study("Calibration of the audit", about, panels, [])


def judged(data: LabelledFeatures, way: int, per_class: int, draw: int) -> Judged:
    """Judge the labels of a random subset."""
    rows = draw_rows(data, per_class, draw, way)
    x, given = torch.from_numpy(data.x[rows]), data.given[rows]
    found = Trust().judge(Support(x[None], torch.from_numpy(given)[None], way))
    known = found.trust[0].isfinite().numpy()
    is_wrong = (given != data.true[rows])[known].astype(np.float64)
    return Judged(found.posterior[0].numpy()[known], given[known], float(found.noise[0]), is_wrong)


def _panel(title: str, sizes: Sequence[int], groups: Sequence[Sequence[Judged]]) -> Panel:
    counts = [np.array([_counts(one) for one in group]).T for group in groups]
    x = [*map(float, sizes)]
    lines = [
        mean_line(name, x, [count[number] for count in counts]) for number, name in enumerate(("expected", "found"))
    ]
    lines.append(mean_line("found - expected", x, [found - expected for expected, found in counts]))
    return Panel(title, "images a class", f"wrong among the first {FIRST}", lines, True)


def _counts(one: Judged) -> tuple[float, float]:
    """Expected and actual number of wrong labels among the least trusted."""
    wrong = Calibration().wrong(one.posterior, one.given, one.noise)
    first = np.argsort(-wrong, kind="stable")[:FIRST]
    return float(wrong[first].sum()), float(one.is_wrong[first].sum())


def fit(groups: Sequence[Sequence[Judged]]) -> Float[np.ndarray, "5"]:
    """The numbers of `Calibration` by logistic regression of being wrong; all groups have the same weight."""
    every = [one for group in groups for one in group]
    sizes = [sum(len(one.given) for one in group) for group in groups for _ in group]
    x = np.concatenate([inputs(one.posterior, one.given, one.noise) for one in every])
    is_wrong = np.concatenate([one.is_wrong for one in every])
    weight = np.concatenate([np.full(len(one.given), 1 / size) for one, size in zip(every, sizes, strict=True)])

    def loss(numbers: Float[np.ndarray, "5"]) -> tuple[float, Float[np.ndarray, "5"]]:
        logits = x @ numbers
        value = (weight * (np.logaddexp(0, logits) - is_wrong * logits)).sum()
        return float(value), x.T @ (weight * (expit(logits) - is_wrong))

    return np.asarray(minimize(loss, np.zeros(x.shape[1]), jac=True).x)
