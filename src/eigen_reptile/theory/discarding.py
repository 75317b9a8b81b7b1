"""Theorem 2: does discarding what has a high loss make the wrong labels' part in the main direction smaller?"""

import math

import numpy as np
import torch
from torch import Tensor

from eigen_reptile.direction import main_direction
from eigen_reptile.inner import InnerState
from eigen_reptile.methods import Ispl
from eigen_reptile.progress import Announce
from eigen_reptile.stage import Stage
from eigen_reptile.tasks import Batches, Tasks
from eigen_reptile.theory.noisy_tasks import SGD, eigenvalues, noisy_stage, paths, trained
from eigen_reptile.theory.study import Panel, Study, line
from eigen_reptile.train import training_data

RATES = (0.1, 0.2, 0.3, 0.4, 0.5)
TASKS = 60


def discarding(announce: Announce) -> Study:
    """The wrong labels' share of the main direction, and the direction's error, with and without discarding."""
    report = announce("theorem 2", TASKS * len(RATES))
    found = []
    for number, rate in enumerate(RATES):
        stage, clean = noisy_stage(rate, announce), noisy_stage(0.0, announce)
        measured = []
        for task in range(TASKS):
            measured.append(_before_and_after(stage, clean, task))
            report(number * TASKS + task + 1, {})
        found.append(np.array(measured))
    names = ("all samples", "without what ISPL discards")
    ratios = [line(name, RATES, [values[:, column] for values in found]) for column, name in enumerate(names)]
    errors = [line(name, RATES, [values[:, 2 + column] for values in found]) for column, name in enumerate(names)]
    about = (
        f"{TASKS} tasks of glyphs under symmetric noise, plain gradient descent from a trained initialisation. Each "
        "step is the sum of what right and what wrong labels do; lambda is the largest eigenvalue of the scatter of "
        "the whole path, lambda_o that of the wrong labels' part of it. The theorem says that discarding samples with "
        "a high loss makes lambda_o / lambda smaller, and the main direction more accurate; its accuracy here is its "
        "angle to the main direction with all labels right."
    )
    panels = [
        Panel("the wrong labels' part", "rate of wrong labels", "lambda_o / lambda", ratios),
        Panel("the main direction", "rate of wrong labels", "angle to the clean one, degrees", errors),
    ]
    return Study("Theorem 2: discarding samples with a high loss", about, panels)


@torch.no_grad()
def _before_and_after(stage: Stage, clean: Stage, task: int) -> tuple[float, float, float, float]:
    """lambda_o / lambda before and after discarding, then the angles to the clean main direction."""
    tasks, drawn = training_data(stage, task)
    true_tasks, true = training_data(clean, task)
    theta = trained()[None, None]
    chosen = Ispl().select(stage.learner, theta, InnerState.empty(theta), tasks, drawn, SGD, torch.tensor(0)).batches
    reference = main_direction(paths(stage.learner, true_tasks, true).all).vector
    ratios, angles = zip(*(_measured(stage, tasks, batches, reference) for batches in (drawn, chosen)), strict=True)
    return (*ratios, *angles)


def _measured(stage: Stage, tasks: Tasks, batches: Batches, reference: Tensor) -> tuple[float, float]:
    path = paths(stage.learner, tasks, batches)
    ratio = float(eigenvalues(path.wrong)[0] / eigenvalues(path.all)[0])
    cosine = float(main_direction(path.all).vector @ reference)
    return ratio, math.degrees(math.acos(min(1.0, max(-1.0, cosine))))
