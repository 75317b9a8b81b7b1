"""The studies of the theory measure what they claim to measure."""

import json
import math
from importlib import import_module
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
import torch

from eigen_reptile.direction import main_direction
from eigen_reptile.errors import ConfigError, RunError
from eigen_reptile.inner import InnerState, trajectory
from eigen_reptile.recipes import study
from eigen_reptile.recipes.study import run_study
from eigen_reptile.recipes.theorems import THEORY, noisy_tasks
from eigen_reptile.recipes.theorems.gradient_noise import NoisyDescent, direction_angles, quadratic_trajectory
from eigen_reptile.recipes.theorems.noisy_tasks import SGD, eigenvalues, noisy_setup, split_trajectory
from eigen_reptile.report.pages import write_report
from eigen_reptile.report.theory import StudyResult, read_studies, theory_claims
from eigen_reptile.report.verdicts import HOLDS, INCONCLUSIVE, REVERSED
from eigen_reptile.runtime.progress import no_progress
from eigen_reptile.tasks import Batches
from eigen_reptile.training.data import TrainingData

RESULTS = Path(__file__).parents[2] / "results"


def test_a_trajectory_is_gradient_descent_on_the_quadratic_loss() -> None:
    start = torch.randn(5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    curvature = torch.logspace(-1.5, 0, 5, dtype=torch.float64)
    points = quadratic_trajectory(NoisyDescent(steps=4), start, torch.zeros(4, 5, dtype=torch.float64))
    point = start.clone().requires_grad_()
    for found in points[1:]:
        (gradient,) = torch.autograd.grad((curvature * point.square()).sum() / 2, point)
        point = (point - NoisyDescent().rate * gradient).detach().requires_grad_()
        torch.testing.assert_close(found, point.detach())


def test_noise_accumulates_in_gradients_and_not_on_points() -> None:
    start, noise = torch.ones(5, dtype=torch.float64), torch.zeros(4, 5, dtype=torch.float64)
    noise[1] = 1
    clean = quadratic_trajectory(NoisyDescent(steps=4), start, 0 * noise)
    gradients, points = (
        quadratic_trajectory(NoisyDescent(steps=4, where=where), start, noise) - clean
        for where in ("gradients", "points")
    )
    assert gradients[:2].abs().max() == 0
    assert (gradients[2:].abs() > 0).all()
    assert (points.abs().sum(1) > 0).tolist() == [False, False, True, False, False]


@pytest.mark.parametrize("where", ["gradients", "points"])
def test_angles_vanish_without_noise_and_grow_with_it(where: Literal["gradients", "points"]) -> None:
    quiet, little, much = (
        direction_angles(NoisyDescent(dimensions=50, sigma=sigma, where=where), 20) for sigma in (0.0, 0.05, 1.0)
    )
    assert max(part.max() for part in quiet) < 1e-5
    for small, large in zip(little, much, strict=True):
        assert 0 < small.mean() < large.mean() < 90


def test_the_theorem_holds_where_its_assumption_holds() -> None:
    """With independent noise on many points in few dimensions, the main direction gets closer with more points."""
    setting = NoisyDescent(dimensions=3, where="points")
    few, many = (direction_angles(setting.finer(steps), 40) for steps in (7, 255))
    assert many[0].mean() < few[0].mean() / 2
    assert many[0].mean() < many[1].mean() / 2


@pytest.mark.parametrize(
    ("differences", "expected"),
    [
        ((-2.0, -1.5), HOLDS),
        ((2.0, 1.5), REVERSED),
        ((0.5, -0.5), INCONCLUSIVE),
        ((-2.0, 2.0, 0.5), "holds at 1 of 3 points, reversed"),
    ],
)
def test_verdicts_on_findings(differences: tuple[float, ...], expected: str) -> None:
    """Each difference has an interval of plus or minus one; below zero the claim of the paper holds."""
    places, halves = [float(place) for place in range(len(differences))], [1.0] * len(differences)
    finding = study.Finding("so", study.Line("less", places, list(differences), halves))
    (claim,) = theory_claims([StudyResult("a", study.Study("title", "about", [], [finding]), "origin")])
    assert expected in claim.verdict


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noisy_tasks, "TRAINING_STEPS", 2)


@pytest.mark.usefixtures("short")
def test_split_trajectories_are_the_inner_loop_and_the_part_due_to_wrong_labels() -> None:
    setup = noisy_setup(0.5, no_progress)
    tasks, batches = TrainingData(setup).at(0)
    theta = noisy_tasks.trained_theta(no_progress)
    with torch.no_grad():
        found = split_trajectory(setup.network, theta, tasks, batches)
        first = Batches(*(part[:, :, : SGD.steps] for part in batches))
        start = theta[None, None]
        W, _ = trajectory(setup.network.gradient, start, InnerState.empty(start), tasks.x, first, SGD)
        torch.testing.assert_close(found.whole, W[0, 0])
        # If all labels count as wrong, their part is the whole movement; if none does, it is zero.
        all_wrong, all_clean = (
            split_trajectory(setup.network, theta, tasks, batches._replace(is_clean=is_clean))
            for is_clean in (torch.zeros_like(batches.is_clean), torch.ones_like(batches.is_clean))
        )
    torch.testing.assert_close(all_wrong.from_wrong_labels, W[0, 0] - W[0, 0, :1], atol=1e-6, rtol=1e-4)
    assert all_clean.from_wrong_labels.abs().max() == 0
    assert 0 < found.from_wrong_labels.norm() < all_wrong.from_wrong_labels.norm() * 2


def test_eigenvalues_against_a_dense_matrix() -> None:
    W = torch.randn(4, 30, dtype=torch.float64, generator=torch.Generator().manual_seed(1)).cumsum(0)
    dense = np.linalg.eigvalsh(np.cov(W.numpy().T, bias=True) * 4)[::-1][:4]
    np.testing.assert_allclose(eigenvalues(W).numpy(), dense.clip(0), atol=1e-10)
    assert float(main_direction(W).explained_variance_ratio) == pytest.approx(dense[0] / dense.sum())


def test_a_line_has_means_and_intervals() -> None:
    line = study.mean_line("name", (1.0, 2.0), [np.array([1.0, 3.0, 2.0]), np.array([5.0, 5.0, 5.0])])
    assert line.y == [2, 5]
    assert line.ci95 == pytest.approx([4.302652729 / math.sqrt(3), 0], rel=1e-5)


@pytest.mark.parametrize("name", THEORY)
def test_committed_studies_are_read_and_written_unchanged(name: str) -> None:
    value = json.loads((RESULTS / "theory" / name / "study.json").read_text())
    read = study.Study.from_json(value)
    assert isinstance(read.panels[0].lines[0], study.Line)
    assert isinstance(read.findings[0].difference, study.Line)
    assert {**value, **read.to_json()} == value


@pytest.mark.parametrize(
    ("value", "problem"),
    [({}, "title"), ({"title": "t", "about": "a", "findings": [], "panels": [{"title": "t"}]}, r"panels\[0\].lines")],
)
def test_what_a_study_lacks_is_named(value: dict[str, object], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        study.Study.from_json(value)


@pytest.mark.usefixtures("short")
def test_every_study_runs_once_and_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in THEORY:
        module = import_module(f"eigen_reptile.recipes.theorems.{name.replace('-', '_')}")
        if name == "gradient-noise":
            panel = {sigma: NoisyDescent(dimensions=10, sigma=sigma) for sigma in (0.1, 0.5)}
            monkeypatch.setattr(module, "PANELS", {("more noise", "sigma"): panel})
            monkeypatch.setattr(module, "DRAWS", 3)
        else:
            monkeypatch.setattr(module, "TASKS", 2)
            monkeypatch.setattr(module, "NOISE_RATES", (0.1, 0.5))
        file = run_study(THEORY[name], tmp_path / name, no_progress)
        before = file.stat().st_mtime_ns
        assert run_study(THEORY[name], tmp_path / name, no_progress).stat().st_mtime_ns == before
    found = read_studies(tmp_path)
    assert [name for name, *_ in found] == sorted(THEORY)
    write_report(tmp_path, tmp_path / "report", ())
    text = (tmp_path / "report" / "results.md").read_text()
    saved = json.loads((tmp_path / "spectrum" / "study.json").read_text())
    line = saved["panels"][1]["lines"][0]
    assert f"{line['y'][0]:.4g} ± {line['ci95'][0]:.2g}" in text
    assert all((tmp_path / "report" / "figures" / f"theory-{name}.png").exists() for name in THEORY)
    verdicts = (tmp_path / "report" / "claims.md").read_text()
    for _, finished, _ in found:
        for says, difference in finished.findings:
            assert f"| {says} | {difference.name}: {difference.x[0]:g}: {difference.y[0]:+.3g} ±" in verdicts
    (tmp_path / "spectrum" / "study.json").write_text('{"format": 2}')
    with pytest.raises(RunError, match="not a study"):
        read_studies(tmp_path)
