"""Appendix D: how much of a path lies along its main direction, with right and with wrong labels."""

import numpy as np
import torch

from eigen_reptile.progress import Announce
from eigen_reptile.theory.noisy_tasks import SGD, eigenvalues, noisy_stage, paths, trained
from eigen_reptile.theory.study import Finding, Panel, Study, line
from eigen_reptile.train import training_data

RATES = (0.0, 0.2, 0.5)
TASKS = 60


@torch.no_grad()
def spectrum(announce: Announce) -> Study:
    """Singular values of the inner loop's points, on clean and on corrupted tasks."""
    theta = trained(announce)
    report = announce("spectrum", TASKS * len(RATES))
    places = [float(place) for place in range(1, SGD.steps + 1)]
    values, ratios = [], []
    for number, rate in enumerate(RATES):
        stage = noisy_stage(rate, announce)
        found = []
        for task in range(TASKS):
            found.append(eigenvalues(paths(stage.learner, theta, *training_data(stage, task)).all)[: SGD.steps].numpy())
            report(number * TASKS + task + 1, {})
        scatter = np.array(found)
        name = f"{100 * rate:g} % wrong labels"
        values.append(line(name, places, list(np.sqrt(scatter).T)))
        ratios.append(scatter[:, 0] / scatter[:, 1:].sum(1))
    about = (
        f"{TASKS} tasks of glyphs, plain gradient descent from a trained initialisation, 95 % intervals over tasks. "
        "The paper takes the largest singular value of W, squared, for the signal, and the others for noise: the more "
        "labels are wrong, the smaller should be their ratio."
    )
    panels = [
        Panel("singular values of W", "place", "singular value", values),
        Panel(
            "signal to noise", "rate of wrong labels", "largest eigenvalue / all others", [line("ratio", RATES, ratios)]
        ),
    ]
    losses = [ratio - ratios[0] for ratio in ratios[1:]]
    less = line("signal to noise less that with right labels, by rate", RATES[1:], losses)
    findings = [Finding("Wrong labels leave less signal in the spectrum of the path (appendix D)", less)]
    return Study("Appendix D: the spectrum of the path", about, panels, findings)
