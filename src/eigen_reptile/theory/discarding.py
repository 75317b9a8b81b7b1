"""Theorem 2: does discarding what has a high loss make the wrong labels' part in the main direction smaller?"""

import numpy as np
import torch
from torch import Tensor

from eigen_reptile.direction import main_direction
from eigen_reptile.inner import InnerState
from eigen_reptile.methods import Ispl, Iteration
from eigen_reptile.progress import Announce
from eigen_reptile.stage import Stage
from eigen_reptile.tasks import Batches
from eigen_reptile.theory.noisy_tasks import SGD, eigenvalues, noisy_stage, paths, trained
from eigen_reptile.theory.study import Finding, Line, Panel, Study, degrees, line
from eigen_reptile.train import training_data

RATES = (0.1, 0.2, 0.3, 0.4, 0.5)
TASKS = 60


def discarding(announce: Announce) -> Study:
    """The wrong labels' share of the main direction, and the direction's error, with and without discarding."""
    theta, clean = trained(announce), noisy_stage(0.0, announce)
    report = announce("theorem 2", TASKS * (1 + len(RATES)))
    references = []
    for task in range(TASKS):
        references.append(_right_direction(clean, theta, task))
        report(task + 1, {})
    found = []
    for number, rate in enumerate(RATES, start=1):
        stage = noisy_stage(rate, announce)
        measured = []
        for task, reference in enumerate(references):
            measured.append(_before_and_after(stage, theta, task, reference))
            report(number * TASKS + task + 1, {})
        found.append(np.array(measured))
    ratios, ratio_falls = _told(found, 0, "lambda_o / lambda with discarding less that without, by rate")
    errors, error_falls = _told(found, 2, "the angle with discarding less that without, by rate")
    about = (
        f"{TASKS} tasks of glyphs under symmetric noise, plain gradient descent from a trained initialisation. Each "
        "step is the sum of what right and what wrong labels do; lambda is the largest eigenvalue of the scatter of "
        "the whole path, lambda_o that of the wrong labels' part of it. The theorem says that discarding samples with "
        "a high loss makes lambda_o / lambda smaller, and the main direction more accurate; its accuracy here is its "
        "angle to that of as many steps on all candidates at once, with all labels right."
    )
    panels = [
        Panel("the wrong labels' part", "rate of wrong labels", "lambda_o / lambda", ratios),
        Panel("the main direction", "rate of wrong labels", "angle to the clean one, degrees", errors),
    ]
    findings = [
        Finding("Discarding samples with a high loss makes lambda_o / lambda smaller (theorem 2)", ratio_falls),
        Finding("Discarding samples with a high loss makes the main direction more accurate (theorem 2)", error_falls),
    ]
    return Study("Theorem 2: discarding samples with a high loss", about, panels, findings)


def _told(found: list[np.ndarray], column: int, difference: str) -> tuple[list[Line], Line]:
    """Two columns of what was found, without and with discarding, as lines; and their difference, task by task."""
    before, after = ([values[:, place] for values in found] for place in (column, column + 1))
    change = [late - early for early, late in zip(before, after, strict=True)]
    lines = [line("all samples", RATES, before), line("without what ISPL discards", RATES, after)]
    return lines, line(difference, RATES, change)


@torch.no_grad()
def _right_direction(clean: Stage, theta: Tensor, task: int) -> Tensor:
    """The main direction of steps on all candidates at once, with all labels right."""
    tasks, true = training_data(clean, task)
    at_once = Batches(*(part.flatten(2, 3)[:, :, None].expand(-1, -1, SGD.steps, -1) for part in true))
    return main_direction(paths(clean.learner, theta, tasks, at_once).all).vector


@torch.no_grad()
def _before_and_after(stage: Stage, theta: Tensor, task: int, reference: Tensor) -> list[float]:
    """lambda_o / lambda before and after discarding, then the angles of the main direction to the right one."""
    tasks, drawn = training_data(stage, task)
    empty = InnerState.empty(theta[None])
    iteration = Iteration(stage.learner, theta[None], empty, tasks, drawn, SGD, torch.tensor(0))
    chosen = Ispl().select(iteration).batches
    found = [paths(stage.learner, theta, tasks, batches) for batches in (drawn, chosen)]
    ratios = [float(eigenvalues(path.wrong)[0] / eigenvalues(path.all)[0]) for path in found]
    return [*ratios, *(degrees(main_direction(path.all).vector, reference) for path in found)]
