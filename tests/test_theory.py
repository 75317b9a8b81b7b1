"""The studies of the theory: that they measure what they say."""

import json
import math
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import torch

from eigen_reptile.direction import main_direction
from eigen_reptile.files import RunError
from eigen_reptile.inner import InnerState, trajectory
from eigen_reptile.progress import silent
from eigen_reptile.report import write_report
from eigen_reptile.report.theory import read_studies
from eigen_reptile.tasks import Batches
from eigen_reptile.theory import STUDIES, made, noisy_tasks, study
from eigen_reptile.theory.gradient_noise import RATE, angles, descent
from eigen_reptile.theory.noisy_tasks import SGD, eigenvalues, noisy_stage, paths
from eigen_reptile.train import training_data


def test_descent_is_gradient_descent_on_the_bowl() -> None:
    start = torch.randn(5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    curvature = torch.logspace(-1.5, 0, 5, dtype=torch.float64)
    points = descent(start, torch.zeros(4, 5, dtype=torch.float64))
    point = start.clone().requires_grad_()
    for found in points[1:]:
        (gradient,) = torch.autograd.grad((curvature * point.square()).sum() / 2, point)
        point = (point - RATE * gradient).detach().requires_grad_()
        torch.testing.assert_close(found, point.detach())


def test_angles_vanish_without_noise_and_grow_with_it() -> None:
    for quiet in angles(7, 50, 0.0, 3):
        assert quiet.max() < 1e-5
    little, much = angles(7, 50, 0.05, 20), angles(7, 50, 1.0, 20)
    for small, large in zip(little, much, strict=True):
        assert 0 < small.mean() < large.mean() < 90


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noisy_tasks, "TRAINING", 2)
    noisy_tasks.trained.cache_clear()


@pytest.mark.usefixtures("short")
def test_paths_are_the_inner_loop_and_the_wrong_labels_part_of_it() -> None:
    stage = noisy_stage(0.5, silent)
    tasks, batches = training_data(stage, 0)
    with torch.no_grad():
        found = paths(stage.learner, tasks, batches)
        first = Batches(*(part[:, :, : SGD.steps] for part in batches))
        theta = noisy_tasks.trained()[None, None]
        W, _ = trajectory(stage.learner, theta, InnerState.empty(theta), tasks.x, first, SGD)
        torch.testing.assert_close(found.all, W[0, 0])
        # With all labels counted as wrong, their part is all of the movement; with none, nothing.
        everything = paths(stage.learner, tasks, batches._replace(right=torch.zeros_like(batches.right)))
        nothing = paths(stage.learner, tasks, batches._replace(right=torch.ones_like(batches.right)))
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
            panels = {"more noise": ("sigma", (0.1, 0.5)), "more steps": ("steps", (3.0, 4.0))}
            monkeypatch.setattr(room, "PANELS", panels)
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
    (tmp_path / "spectrum" / "study.json").write_text('{"format": 1}')
    with pytest.raises(RunError, match="not a study"):
        read_studies(tmp_path)
