"""What the report says of wrong labels."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from eigen_reptile.config import MetaConfig
from eigen_reptile.experiment import run_experiment
from eigen_reptile.methods import METHODS
from eigen_reptile.noise import NoiseConfig
from eigen_reptile.report.claims import claims
from eigen_reptile.report.collect import Cell, collect
from eigen_reptile.report.noise import judged, lines_over_rate, selection_table
from eigen_reptile.report.pages import write_report
from eigen_reptile.report.verdicts import HOLDS, REVERSED, UNCLEAR, verdict
from eigen_reptile.tasks import TaskConfig
from pictures import SMALL

pytestmark = pytest.mark.xdist_group("report_noise")  # what they share is made once

NOISES = {"p0": NoiseConfig(), "s50": NoiseConfig("symmetric", 0.5)}
NAMES = ("reptile", "reptile-ispl", "eigen-reptile", "eigen-reptile-ispl")


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("results") / "noisy"
    base = replace(
        SMALL,
        meta=MetaConfig(steps=3, batch=2),
        task=TaskConfig(SMALL.task.way, 40),
        evaluation=replace(SMALL.evaluation, tasks=6, shots=(1,)),
    )
    for end, noise in NOISES.items():
        for name in NAMES:
            run_experiment(replace(base, method=METHODS[name], noise=noise), folder / f"{name}-{end}")
    return folder


def cell(results: Path, name: str) -> Cell:
    (group,) = collect(results)
    return next(cell for cell in group.cells if cell.name == name)


def test_methods_are_compared_under_the_same_noise(results: Path) -> None:
    said = {claim.says: claim for claim in claims(collect(results))}
    pairs = {
        "Eigen-Reptile (authors' form) is more accurate than Reptile: noisy, 1-shot, transductive": "p0",
        "Eigen-Reptile (authors' form) is more accurate than Reptile: noisy, 1-shot, transductive, 50 % symmetric "
        "noise in the task": "s50",
    }
    for says, end in pairs.items():
        means = [cell(results, f"{name}-{end}").task_scores(1, "transductive") for name in ("eigen-reptile", "reptile")]
        numbers = " against ".join(f"{100 * mean.mean():.2f} %" for mean in means if mean is not None)
        assert said[says].measured.startswith(numbers)


def test_what_ispl_does_is_said_as_the_paper_says_it(results: Path) -> None:
    said = {claim.says for claim in claims(collect(results)) if claim.says.startswith("ISPL")}
    noise = ", 50 % symmetric noise in the task"
    for column in ("inductive", "transductive"):
        assert f"ISPL hurts Eigen-Reptile: noisy, 1-shot, {column}, no noise" in said
        assert f"ISPL helps Eigen-Reptile: noisy, 1-shot, {column}{noise}" in said
        assert f"ISPL does not help Reptile: noisy, 1-shot, {column}{noise}" in said


def test_robustness_is_the_difference_of_losses(results: Path) -> None:
    (claim,) = (claim for claim in claims(collect(results)) if "loses less" in claim.says)
    scores = {
        (name, end): cell(results, f"{name}-{end}").task_scores(1, "transductive")
        for name in ("reptile", "eigen-reptile")
        for end in NOISES
    }
    lost = {name: np.subtract(scores[name, "p0"], scores[name, "s50"]) for name in ("reptile", "eigen-reptile")}  # type: ignore[arg-type]
    expected = 100 * float((lost["reptile"] - lost["eigen-reptile"]).mean())
    assert f"paired difference {expected:+.2f}" in claim.measured


def test_helping_more_is_the_difference_of_gains(results: Path) -> None:
    (claim,) = (claim for claim in claims(collect(results)) if "helps Eigen-Reptile more" in claim.says)
    gains = []
    for end in NOISES:
        names = (f"eigen-reptile-ispl-{end}", f"eigen-reptile-{end}")
        pair = [cell(results, name).task_scores(1, "transductive") for name in names]
        gains.append(100 * float(np.subtract(*pair).mean()))  # type: ignore[arg-type]
    by_end = dict(zip(NOISES, gains, strict=True))
    assert claim.measured.startswith(f"it gains {by_end['s50']:+.2f} points, without noise {by_end['p0']:+.2f}")
    assert f"paired difference {by_end['s50'] - by_end['p0']:+.2f}" in claim.measured


@pytest.mark.parametrize(
    ("does", "gain", "expected"),
    [
        ("helps", 1, HOLDS),
        ("helps", -1, REVERSED),
        ("helps", 0, UNCLEAR),
        ("hurts", -1, HOLDS),
        ("hurts", 1, "it helps"),
        ("hurts", 0, UNCLEAR),
        ("does not help", 1, "it helps"),
        ("does not help", 0, HOLDS),
        ("does not help", -1, HOLDS),
    ],
)
def test_the_verdict_goes_by_what_is_claimed(does: str, gain: int, expected: str) -> None:
    assert expected in judged(does, verdict(float(gain), 0.5))
    assert judged(does, f"{HOLDS} for the networks").endswith(" for the networks")


def test_the_selection_and_the_figure_over_rates(results: Path, tmp_path: Path) -> None:
    (group,) = collect(results)
    table = selection_table(group)
    assert table.count("-ispl-") == 4
    training = cell(results, "reptile-ispl-s50").result["training"]
    assert f"| {training['kept']:.2f} |" in table
    assert training["wrong"] == pytest.approx(0.5, abs=0.15)
    lines = lines_over_rate(group, "symmetric")
    assert {name: [rate for rate, _ in points] for name, points in lines.items()} == {name: [0, 0.5] for name in NAMES}
    write_report(results, tmp_path, ())
    assert (tmp_path / "figures" / "noisy-symmetric-1.png").stat().st_size > 0
    assert "samples kept and dropped" in (tmp_path / "results.md").read_text()
