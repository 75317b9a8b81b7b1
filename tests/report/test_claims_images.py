"""Verdicts on the claims about images."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from eigen_reptile.methods import METHODS
from eigen_reptile.report.claims import experiment_claims
from eigen_reptile.report.collect import collect_results
from eigen_reptile.report.pages import write_report
from eigen_reptile.runtime.checksums import with_checksum
from report.shared import changed, saved

pytestmark = pytest.mark.xdist_group("report")  # so that shared results are computed by one worker only


@pytest.mark.parametrize(
    ("shift", "seeds", "verdict"),
    [
        (0.05, (0.049, 0.051), "holds"),
        (-0.05, (-0.049, -0.051), "does not hold: the effect is reversed"),
        (0.0, (0.0, 0.0), "inconclusive"),
        (0.0, (0.049, 0.051), "inconclusive"),
        (0.05, (0.09, 0.01), "holds for the trained networks (over tasks); 2 seeds cannot"),
        (-0.05, (-0.12, 0.02), "does not hold: the effect is reversed for the trained networks"),
        (0.05, (0.05,), "holds for the trained networks (over tasks); one seed cannot"),
    ],
)
def test_verdicts_on_images_need_both_tasks_and_seeds(
    image_results: Path, tmp_path: Path, shift: float, seeds: tuple[float, ...], verdict: str
) -> None:
    tasks = np.linspace(0.2, 0.8, 6)  # so far apart that only a paired comparison shows the difference
    wiggle = np.array([0.01, -0.01] * 3)

    def measured(name: str, result: dict[str, Any]) -> None:
        ours = name == "eigen-reptile-authors"
        scores = tasks + (shift + wiggle if ours else 0.0)
        result["experiment"]["seeds"] = list(range(len(seeds)))
        result["replicas"] = result["replicas"][: len(seeds)]
        result["learning_curve"]["score"] = [row[: len(seeds)] for row in result["learning_curve"]["score"]]
        for test in result["test"]:
            test["per_task"] = [[scores.tolist()] * len(seeds)] * 2
            test["per_seed"] = [[0.5 + (seed if ours else 0.0)] * 2 for seed in seeds]

    groups = collect_results(changed(image_results / "shapes", tmp_path / "shapes", measured))
    found = {claim.statement: claim for claim in experiment_claims(groups)}
    half = 100 * stats.t.ppf(0.975, 5) * stats.sem(wiggle)
    for form, expected in (("authors' form", verdict), ("paper's form", "inconclusive")):
        for how in ("1-shot, inductive", "1-shot, transductive", "2-shot, inductive", "2-shot, transductive"):
            claim = found.pop(f"Eigen-Reptile ({form}) is more accurate than Reptile: shapes, {how}")
            assert claim.verdict.startswith(expected)
            assert ("over 2 seeds" in claim.measured) == (len(seeds) == 2)
            assert "50.00 %; paired difference" in claim.measured
            if form == "authors' form":
                assert f"{100 * (0.5 + shift):.2f} % against" in claim.measured
                assert f"{abs(100 * shift):.2f} ± {half:.2f} points" in claim.measured
                assert "6 tasks" in claim.measured
    assert not found


def results_by_inner_steps(image_results: Path, target: Path, scores: Mapping[int, np.ndarray]) -> Path:
    """Results of one method with several numbers of inner steps, with these accuracies on the test tasks."""
    for steps, values in scores.items():
        result = saved(image_results / "shapes" / "eigen-reptile-authors")
        result["experiment"]["inner"]["steps"] = steps
        for test in result["test"]:
            decides = test["shots"] == 2
            other = (values + (0 if decides else steps / 100)).tolist()
            test["per_task"] = [[[0.05 * steps] * 6] * 2, [other] * 2]
        (target / f"{steps}-steps").mkdir(parents=True)
        (target / f"{steps}-steps" / "result.json").write_text(json.dumps(with_checksum(result)))
    return target


QUIET, LOUD = np.array([0.002, -0.002] * 3), np.array([0.03, -0.03] * 3)
LEVEL = np.linspace(0.5, 0.7, 6)


@pytest.mark.parametrize(
    ("scores", "verdict", "measured"),
    [
        ({1: LEVEL - 0.3, 7: LEVEL, 9: LEVEL + 0.01 + QUIET, 11: LEVEL - 0.005}, "holds", "9 against 7: +1.00"),
        ({3: LEVEL, 7: LEVEL, 9: LEVEL + QUIET, 11: LEVEL + 0.04 + QUIET}, "does not hold", "11 against 7: +4.00"),
        ({3: LEVEL, 7: LEVEL, 9: LEVEL + QUIET, 11: LEVEL - 0.04 + QUIET}, "does not hold", "11 against 7: -4.00"),
        ({3: LEVEL, 7: LEVEL, 9: LEVEL + 0.01 + LOUD}, "inconclusive", "9 against 7: +1.00"),
        ({3: LEVEL, 5: LEVEL, 9: LEVEL}, "inconclusive", "no cells with 7"),
        ({1: LEVEL, 3: LEVEL, 7: LEVEL}, "inconclusive", "no cells with 7 and with more"),
    ],
)  # fmt: skip
def test_the_plateau_claim_compares_more_steps_with_seven(
    image_results: Path, tmp_path: Path, scores: dict[int, np.ndarray], verdict: str, measured: str
) -> None:
    groups = collect_results(results_by_inner_steps(image_results, tmp_path / "inner-steps", scores))
    (claim,) = (claim for claim in experiment_claims(groups) if claim.statement.startswith("From 7 inner steps on"))
    assert claim.verdict.startswith(verdict)
    assert measured in claim.measured


def test_a_group_of_several_methods_has_no_plateau_claim(image_results: Path, tmp_path: Path) -> None:
    (group,) = collect_results(
        results_by_inner_steps(image_results, tmp_path / "inner-steps", dict.fromkeys((3, 7, 9), LEVEL))
    )
    assert group.varies_inner_steps
    first, *others = group.cells
    other = replace(first.experiment, method=METHODS["average-weights"])
    changed = replace(first, result=replace(first.result, experiment=other))
    assert not replace(group, cells=(changed, *others)).varies_inner_steps


def test_the_plateau_has_a_figure(image_results: Path, tmp_path: Path) -> None:
    scores = {1: LEVEL - 0.3, 7: LEVEL, 9: LEVEL + 0.01 + QUIET}
    results_by_inner_steps(image_results, tmp_path / "inner-steps", scores)
    write_report(tmp_path, tmp_path / "out", [])
    assert "| holds, within 2 points over tasks |" in (tmp_path / "out" / "claims.md").read_text()
    assert (tmp_path / "out" / "figures" / "inner-steps-steps.png").stat().st_size > 0


def test_the_report_covers_groups_in_which_every_run_diverged(image_results: Path, tmp_path: Path) -> None:
    folder = results_by_inner_steps(image_results, tmp_path / "inner-steps", dict.fromkeys((3, 7, 9), LEVEL))
    for file in folder.glob("*/result.json"):
        result = saved(file.parent) | {"choice": None, "test": None}
        for replica in result["replicas"]:
            replica |= {"diverged_at": 2, "validation": None}
        file.write_text(json.dumps(with_checksum(result)))
    write_report(tmp_path, tmp_path / "out", [])
    assert "diverges" in (tmp_path / "out" / "results.md").read_text()


@pytest.mark.parametrize("unlike", ["shots", "tasks", "one task"])
def test_the_plateau_is_inconclusive_if_test_tasks_differ(image_results: Path, tmp_path: Path, unlike: str) -> None:
    folder = results_by_inner_steps(image_results, tmp_path / "runs", dict.fromkeys((3, 7, 9), LEVEL))
    for steps in (3, 7, 9):
        result = saved(folder / f"{steps}-steps")
        if unlike == "one task" or (unlike == "tasks" and steps == 9):
            count = 1 if unlike == "one task" else 4
            result["experiment"]["evaluation"]["tasks"] = count
            for test in result["test"]:
                test["tasks"] = count
                test["per_task"] = [[tasks[:count] for tasks in column] for column in test["per_task"]]
                test["ci95_tasks"] = [None, None] if count == 1 else test["ci95_tasks"]
        elif unlike == "shots" and steps == 9:
            result["experiment"]["evaluation"]["shots"] = [1]
            result["test"] = result["test"][:1]
        (folder / f"{steps}-steps" / "result.json").write_text(json.dumps(with_checksum(result)))
    write_report(tmp_path, tmp_path / "out", [])
    assert "inconclusive" in (tmp_path / "out" / "claims.md").read_text()
