"""Theorem 2: does discarding samples with a high loss reduce the influence of wrong labels on the main direction?"""

import numpy as np
import torch
from torch import Tensor

from eigen_reptile.direction import main_direction
from eigen_reptile.inner import InnerState
from eigen_reptile.methods import Ispl, MetaBatch
from eigen_reptile.recipes.study import Finding, Line, Panel, Study, angle_in_degrees, mean_line
from eigen_reptile.recipes.theorems.noisy_tasks import SGD, eigenvalues, noisy_setup, split_trajectory, trained_theta
from eigen_reptile.runtime.progress import StartProgress
from eigen_reptile.tasks import Batches
from eigen_reptile.training.data import TrainingData
from eigen_reptile.training.setup import Setup

NOISE_RATES = (0.1, 0.2, 0.3, 0.4, 0.5)
TASKS = 60


def discarding(start_progress: StartProgress) -> Study:
    """The share of wrong labels in the main direction, and the direction's error, with and without discarding."""
    theta, clean = trained_theta(start_progress), noisy_setup(0.0, start_progress)
    report = start_progress("theorem 2", TASKS * (1 + len(NOISE_RATES)))
    references = []
    for task in range(TASKS):
        references.append(_reference_direction(clean, theta, task))
        report(task + 1, {})
    measurements = []
    for number, rate in enumerate(NOISE_RATES, start=1):
        setup = noisy_setup(rate, start_progress)
        per_task = []
        for task, reference in enumerate(references):
            per_task.append(_measure_task(setup, theta, task, reference))
            report(number * TASKS + task + 1, {})
        measurements.append(np.array(per_task))
    ratios, ratio_change = _compare_discarding(
        measurements, 0, "lambda_o / lambda with discarding minus without, by noise rate"
    )
    errors, error_change = _compare_discarding(measurements, 2, "angle with discarding minus without, by noise rate")
    about = (
        f"{TASKS} tasks of glyphs under symmetric noise, plain gradient descent from a trained initialisation. Each "
        "step is the sum of a part due to clean labels and a part due to wrong ones; lambda is the largest "
        "eigenvalue of the scatter matrix of the whole trajectory, lambda_o that of the part due to wrong labels. "
        "The theorem says that discarding samples with a high loss makes lambda_o / lambda smaller and the main "
        "direction more accurate; its error here is its angle to the main direction of as many steps on all "
        "candidates at once with clean labels."
    )
    panels = [
        Panel("influence of wrong labels", "noise rate", "lambda_o / lambda", ratios),
        Panel("error of the main direction", "noise rate", "angle to the clean direction, degrees", errors),
    ]
    findings = [
        Finding("Discarding samples with a high loss makes lambda_o / lambda smaller (theorem 2)", ratio_change),
        Finding("Discarding samples with a high loss makes the main direction more accurate (theorem 2)", error_change),
    ]
    return Study("Theorem 2: discarding samples with a high loss", about, panels, findings)


def _compare_discarding(measurements: list[np.ndarray], column: int, name: str) -> tuple[list[Line], Line]:
    """Lines without and with discarding, from this column and the next, and the line of their difference per task."""
    without, discarded = ([values[:, place] for values in measurements] for place in (column, column + 1))
    change = [after - before for before, after in zip(without, discarded, strict=True)]
    lines = [
        mean_line("all samples", NOISE_RATES, without),
        mean_line("without those that ISPL discards", NOISE_RATES, discarded),
    ]
    return lines, mean_line(name, NOISE_RATES, change)


@torch.no_grad()
def _reference_direction(clean: Setup, theta: Tensor, task: int) -> Tensor:
    """The main direction of steps on all candidates at once with clean labels."""
    tasks, batches = TrainingData(clean).at(task)
    at_once = Batches(*(part.flatten(2, 3)[:, :, None].expand(-1, -1, SGD.steps, -1) for part in batches))
    return main_direction(split_trajectory(clean.network, theta, tasks, at_once).whole).vector


@torch.no_grad()
def _measure_task(setup: Setup, theta: Tensor, task: int, reference: Tensor) -> list[float]:
    """lambda_o / lambda without and with discarding, then the angles to the reference direction without and with it."""
    tasks, batches = TrainingData(setup).at(task)
    empty = InnerState.empty(theta[None])
    meta_batch = MetaBatch(setup.network, theta[None], empty, tasks, batches, SGD, torch.tensor(0))
    kept = Ispl().select(meta_batch).batches
    both = [split_trajectory(setup.network, theta, tasks, some) for some in (batches, kept)]
    ratios = [float(eigenvalues(W.from_wrong_labels)[0] / eigenvalues(W.whole)[0]) for W in both]
    return [*ratios, *(angle_in_degrees(main_direction(W.whole).vector, reference) for W in both)]
