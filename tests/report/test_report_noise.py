"""The report on label noise."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from eigen_reptile.methods import METHODS
from eigen_reptile.noise import NoiseConfig
from eigen_reptile.report.claims import experiment_claims
from eigen_reptile.report.collect import Cell, collect_results
from eigen_reptile.report.noise import Effect, cells_by_noise_rate, ispl_verdict, selection_table
from eigen_reptile.report.pages import write_report
from eigen_reptile.report.verdicts import HOLDS, INCONCLUSIVE, REVERSED, verdict_on_difference
from eigen_reptile.tasks import TaskConfig
from eigen_reptile.training.config import MetaConfig
from eigen_reptile.training.experiment import run
from patterns import SMALL
from report.shared import as_if_on_cifar_fs

pytestmark = pytest.mark.xdist_group("report_noise")  # so that the shared results are computed once

NOISES = {"p0": NoiseConfig(), "s50": NoiseConfig("symmetric", 0.5)}
NAMES = ("reptile", "reptile-ispl", "eigen-reptile", "eigen-reptile-ispl")


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("results") / "noisy"
    base = replace(
        SMALL,
        meta=MetaConfig(steps=2, batch=2),
        task=TaskConfig(SMALL.task.way, 40),
        evaluation=replace(SMALL.evaluation, tasks=6, monitor_tasks=2, shots=(1,), inner_steps=(2,)),
    )
    for end, noise in NOISES.items():
        for name in NAMES:
            run(replace(base, method=METHODS[name], noise=noise), folder / f"{name}-{end}")
    return as_if_on_cifar_fs(folder)


def cell(results: Path, name: str) -> Cell:
    (group,) = collect_results(results)
    return next(cell for cell in group.cells if cell.name == name)


def test_methods_are_compared_with_the_same_noise(results: Path) -> None:
    by_statement = {claim.statement: claim for claim in experiment_claims(collect_results(results))}
    pairs = {
        "Eigen-Reptile (authors' form) is more accurate than Reptile: noisy, 1-shot, transductive": "p0",
        "Eigen-Reptile (authors' form) is more accurate than Reptile: noisy, 1-shot, transductive, 50 % symmetric "
        "noise in the task": "s50",
    }
    for statement, end in pairs.items():
        means = [cell(results, f"{name}-{end}").task_scores(1, "transductive") for name in ("eigen-reptile", "reptile")]
        numbers = " against ".join(f"{100 * mean.mean():.2f} %" for mean in means if mean is not None)
        assert by_statement[statement].measured.startswith(numbers)


def test_the_effects_of_ispl_are_those_that_the_paper_claims(results: Path) -> None:
    statements = {claim.statement for claim in experiment_claims(collect_results(results))}
    noise = ", 50 % symmetric noise in the task"
    for column in ("inductive", "transductive"):
        assert f"ISPL hurts Eigen-Reptile: noisy, 1-shot, {column}, no noise" in statements
        assert f"ISPL helps Eigen-Reptile: noisy, 1-shot, {column}{noise}" in statements
        assert f"ISPL does not help Reptile: noisy, 1-shot, {column}{noise}" in statements


def test_robustness_is_the_difference_between_losses_of_accuracy(results: Path) -> None:
    claims = experiment_claims(collect_results(results))
    (claim,) = (claim for claim in claims if "costs Eigen-Reptile less accuracy" in claim.statement)
    scores = {
        (name, end): cell(results, f"{name}-{end}").task_scores(1, "transductive")
        for name in ("reptile", "eigen-reptile")
        for end in NOISES
    }
    lost = {name: np.subtract(scores[name, "p0"], scores[name, "s50"]) for name in ("reptile", "eigen-reptile")}  # type: ignore[arg-type]
    expected = 100 * float((lost["reptile"] - lost["eigen-reptile"]).mean())
    assert f"paired difference {expected:+.2f}" in claim.measured


def test_helping_more_is_the_difference_between_gains(results: Path) -> None:
    (claim,) = (
        claim for claim in experiment_claims(collect_results(results)) if "helps Eigen-Reptile more" in claim.statement
    )
    gains = []
    for end in NOISES:
        names = (f"eigen-reptile-ispl-{end}", f"eigen-reptile-{end}")
        pair = [cell(results, name).task_scores(1, "transductive") for name in names]
        gains.append(100 * float(np.subtract(*pair).mean()))  # type: ignore[arg-type]
    by_end = dict(zip(NOISES, gains, strict=True))
    assert claim.measured.startswith(f"gain {by_end['s50']:+.2f} points, without noise {by_end['p0']:+.2f}")
    assert f"paired difference {by_end['s50'] - by_end['p0']:+.2f}" in claim.measured


@pytest.mark.parametrize(
    ("effect", "gain", "expected"),
    [
        ("helps", 1, HOLDS),
        ("helps", -1, REVERSED),
        ("helps", 0, INCONCLUSIVE),
        ("hurts", -1, HOLDS),
        ("hurts", 1, "it helps"),
        ("hurts", 0, INCONCLUSIVE),
        ("does not help", 1, "it helps"),
        ("does not help", 0, HOLDS),
        ("does not help", -1, HOLDS),
    ],
)
def test_the_verdict_depends_on_the_claimed_effect(effect: Effect, gain: int, expected: str) -> None:
    assert expected in ispl_verdict(effect, verdict_on_difference(float(gain), 0.5))
    assert ispl_verdict(effect, f"{HOLDS} for the networks").endswith(" for the networks")


def test_the_table_of_selection_and_the_figure_over_noise_rates(results: Path, tmp_path: Path) -> None:
    (group,) = collect_results(results)
    table = selection_table(group)
    assert table is not None
    by_cell = {name: cells for name, *cells in table.rows}
    assert sum("-ispl-" in name for name in by_cell) == len(by_cell) == 4
    training = cell(results, "reptile-ispl-s50").result.training
    assert by_cell["reptile-ispl-s50"][1] == f"{training['kept']:.2f}"
    assert training["wrong"] == pytest.approx(0.5, abs=0.15)
    lines = cells_by_noise_rate(group, "symmetric")
    assert {name: [rate for rate, _ in points] for name, points in lines.items()} == {name: [0, 0.5] for name in NAMES}
    write_report(results, tmp_path, ())
    assert (tmp_path / "figures" / "noisy-symmetric-1.png").stat().st_size > 0
    assert "samples kept and discarded" in (tmp_path / "results.md").read_text()
