"""The studies of the theory: that they measure what they say."""

import json
import math
from importlib import import_module
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
import torch

from eigen_reptile.direction import main_direction
from eigen_reptile.files import RunError
from eigen_reptile.inner import InnerState, trajectory
from eigen_reptile.progress import silent
from eigen_reptile.report.pages import write_report
from eigen_reptile.report.theory import Found, about_theory, read_studies
from eigen_reptile.report.verdicts import HOLDS, REVERSED, UNCLEAR
from eigen_reptile.tasks import Batches
from eigen_reptile.theory import STUDIES, made, noisy_tasks, study
from eigen_reptile.theory.gradient_noise import Setting, angles, path
from eigen_reptile.theory.noisy_tasks import SGD, eigenvalues, noisy_stage, paths
from eigen_reptile.train import training_data


def test_a_path_is_gradient_descent_on_the_bowl() -> None:
    start = torch.randn(5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    curvature = torch.logspace(-1.5, 0, 5, dtype=torch.float64)
    points = path(Setting(steps=4), start, torch.zeros(4, 5, dtype=torch.float64))
    point = start.clone().requires_grad_()
    for found in points[1:]:
        (gradient,) = torch.autograd.grad((curvature * point.square()).sum() / 2, point)
        point = (point - Setting().rate * gradient).detach().requires_grad_()
        torch.testing.assert_close(found, point.detach())


def test_noise_in_gradients_adds_up_and_on_points_does_not() -> None:
    start, noise = torch.ones(5, dtype=torch.float64), torch.zeros(4, 5, dtype=torch.float64)
    noise[1] = 1
    clean = path(Setting(steps=4), start, 0 * noise)
    gradients, points = (path(Setting(steps=4, where=where), start, noise) - clean for where in ("gradients", "points"))
    assert gradients[:2].abs().max() == 0
    assert (gradients[2:].abs() > 0).all()
    assert (points.abs().sum(1) > 0).tolist() == [False, False, True, False, False]


@pytest.mark.parametrize("where", ["gradients", "points"])
def test_angles_vanish_without_noise_and_grow_with_it(where: Literal["gradients", "points"]) -> None:
    quiet, little, much = (angles(Setting(dimensions=50, sigma=sigma, where=where), 20) for sigma in (0.0, 0.05, 1.0))
    assert max(part.max() for part in quiet) < 1e-5
    for small, large in zip(little, much, strict=True):
        assert 0 < small.mean() < large.mean() < 90


def test_the_theorem_holds_where_its_assumption_does() -> None:
    """Many points for few dimensions, with noise of its own on each: the more, the nearer the main direction."""
    setting = Setting(dimensions=3, where="points")
    few, many = (angles(setting.finer(steps), 40) for steps in (7, 255))
    assert many[0].mean() < few[0].mean() / 2
    assert many[0].mean() < many[1].mean() / 2


@pytest.mark.parametrize(
    ("differences", "expected"),
    [((-2.0, -1.5), HOLDS), ((2.0, 1.5), REVERSED), ((0.5, -0.5), UNCLEAR), ((-2.0, 2.0, 0.5), "holds at 1 of 3, the")],
)
def test_verdicts_on_findings(differences: tuple[float, ...], expected: str) -> None:
    """Each difference has an interval of one either way; below zero is as the paper says."""
    places, halves = [float(place) for place in range(len(differences))], [1.0] * len(differences)
    finding = study.Finding("so", study.Line("less", places, list(differences), halves))
    (claim,) = about_theory([Found("a", study.Study("title", "about", [], [finding]), "origin")])
    assert expected in claim.verdict


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noisy_tasks, "TRAINING", 2)
    noisy_tasks.trained.cache_clear()


@pytest.mark.usefixtures("short")
def test_paths_are_the_inner_loop_and_the_wrong_labels_part_of_it() -> None:
    stage = noisy_stage(0.5, silent)
    tasks, batches = training_data(stage, 0)
    theta = noisy_tasks.trained(silent)
    with torch.no_grad():
        found = paths(stage.learner, theta, tasks, batches)
        first = Batches(*(part[:, :, : SGD.steps] for part in batches))
        start = theta[None, None]
        W, _ = trajectory(stage.learner.gradient, start, InnerState.empty(start), tasks.x, first, SGD)
        torch.testing.assert_close(found.all, W[0, 0])
        # With all labels counted as wrong, their part is all of the movement; with none, nothing.
        everything = paths(stage.learner, theta, tasks, batches._replace(right=torch.zeros_like(batches.right)))
        nothing = paths(stage.learner, theta, tasks, batches._replace(right=torch.ones_like(batches.right)))
    torch.testing.assert_close(everything.wrong, W[0, 0] - W[0, 0, :1], atol=1e-6, rtol=1e-4)
    assert nothing.wrong.abs().max() == 0
    assert 0 < found.wrong.norm() < everything.wrong.norm() * 2


def test_eigenvalues_against_a_dense_matrix() -> None:
    W = torch.randn(4, 30, dtype=torch.float64, generator=torch.Generator().manual_seed(1)).cumsum(0)
    dense = np.linalg.eigvalsh(np.cov(W.numpy().T, bias=True) * 4)[::-1][:4]
    np.testing.assert_allclose(eigenvalues(W).numpy(), dense.clip(0), atol=1e-10)
    share = main_direction(W).share
    assert float(share) == pytest.approx(dense[0] / dense.sum())


def test_a_line_has_means_and_intervals() -> None:
    line = study.line("name", (1.0, 2.0), [np.array([1.0, 3.0, 2.0]), np.array([5.0, 5.0, 5.0])])
    assert line.y == [2, 5]
    assert line.ci95 == pytest.approx([4.302652729 / math.sqrt(3), 0], rel=1e-5)


@pytest.mark.usefixtures("short")
def test_every_study_is_made_once_and_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in STUDIES:
        room = import_module(f"eigen_reptile.theory.{name.replace('-', '_')}")
        if name == "gradient-noise":
            panel = {sigma: Setting(dimensions=10, sigma=sigma) for sigma in (0.1, 0.5)}
            monkeypatch.setattr(room, "PANELS", {("more noise", "sigma"): panel})
            monkeypatch.setattr(room, "DRAWS", 3)
        else:
            monkeypatch.setattr(room, "TASKS", 2)
            monkeypatch.setattr(room, "RATES", (0.1, 0.5))
        file = made(name, tmp_path / name, silent)
        before = file.stat().st_mtime_ns
        assert made(name, tmp_path / name, silent).stat().st_mtime_ns == before
    found = read_studies(tmp_path)
    assert [name for name, *_ in found] == sorted(STUDIES)
    write_report(tmp_path, tmp_path / "report", ())
    text = (tmp_path / "report" / "results.md").read_text()
    saved = json.loads((tmp_path / "spectrum" / "study.json").read_text())
    line = saved["panels"][1]["lines"][0]
    assert f"{line['y'][0]:.4g} ± {line['ci95'][0]:.2g}" in text
    assert all((tmp_path / "report" / "figures" / f"theory-{name}.png").exists() for name in STUDIES)
    verdicts = (tmp_path / "report" / "claims.md").read_text()
    for _, finished, _ in found:
        for says, difference in finished.findings:
            assert f"| {says} | {difference.name}: {difference.x[0]:g}: {difference.y[0]:+.3g} ±" in verdicts
    (tmp_path / "spectrum" / "study.json").write_text('{"format": 2}')
    with pytest.raises(RunError, match="not a study"):
        read_studies(tmp_path)
