"""Appendix D: how much of a trajectory lies along its main direction, with clean and with wrong labels."""

import numpy as np
import torch

from eigen_reptile.recipes.study import Finding, Panel, Study, mean_line
from eigen_reptile.recipes.theorems.noisy_tasks import SGD, eigenvalues, noisy_setup, split_trajectory, trained_theta
from eigen_reptile.runtime.progress import StartProgress
from eigen_reptile.training.data import TrainingData

NOISE_RATES = (0.0, 0.2, 0.5)
TASKS = 60


@torch.no_grad()
def spectrum(start_progress: StartProgress) -> Study:
    """Singular values of inner-loop trajectories, on clean and on noisy tasks."""
    theta = trained_theta(start_progress)
    report = start_progress("spectrum", TASKS * len(NOISE_RATES))
    ranks = [float(rank) for rank in range(1, SGD.steps + 1)]
    values, ratios = [], []
    for number, rate in enumerate(NOISE_RATES):
        setup = noisy_setup(rate, start_progress)
        per_task, data = [], TrainingData(setup)
        for task in range(TASKS):
            W = split_trajectory(setup.network, theta, *data.at(task)).whole
            per_task.append(eigenvalues(W)[: SGD.steps].numpy())
            report(number * TASKS + task + 1, {})
        scatter = np.array(per_task)
        name = f"{100 * rate:g} % wrong labels"
        values.append(mean_line(name, ranks, list(np.sqrt(scatter).T)))
        ratios.append(scatter[:, 0] / scatter[:, 1:].sum(1))
    about = (
        f"{TASKS} tasks of glyphs, plain gradient descent from a trained initialisation, 95 % intervals over tasks. "
        "The paper regards the square of the largest singular value of W as signal and those of the others as noise: "
        "the more labels are wrong, the smaller their ratio should be."
    )
    panels = [
        Panel("singular values of W", "rank", "singular value", values),
        Panel(
            "signal-to-noise ratio",
            "noise rate",
            "largest eigenvalue / sum of the others",
            [mean_line("ratio", NOISE_RATES, ratios)],
        ),
    ]
    changes = [ratio - ratios[0] for ratio in ratios[1:]]
    change = mean_line("signal-to-noise ratio minus that with clean labels, by noise rate", NOISE_RATES[1:], changes)
    findings = [Finding("Wrong labels lower the signal-to-noise ratio of the trajectory (appendix D)", change)]
    return Study("Appendix D: the spectrum of the trajectory", about, panels, findings)
