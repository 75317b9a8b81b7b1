"""The report says what the result files say, and the documents are those of the committed results."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from eigen_reptile.config import Experiment, MetaConfig
from eigen_reptile.evaluate import EvalConfig
from eigen_reptile.experiment import run_experiment
from eigen_reptile.methods import METHODS
from eigen_reptile.report import write_report
from eigen_reptile.report.claims import claims, mean_of_curve
from eigen_reptile.report.collect import collect
from eigen_reptile.runs import RunError

ROOT = Path(__file__).parent.parent
SMALL = Experiment(
    meta=MetaConfig(steps=8, lr=(0.5, 1e12)),
    evaluation=EvalConfig(tasks=3, monitor_tasks=2, every=4, shots=3, after=(0, 2), pictures=(1, 8)),
    seeds=(0, 1, 2),
    compile="off",
)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("results")
    for name in ("reptile", "eigen-reptile-paper", "eigen-reptile-authors", "eigen-reptile-no-sign-fix"):
        run_experiment(replace(SMALL, method=METHODS[name]), folder / name, lambda step, metrics: None)
    wild = replace(SMALL, meta=replace(SMALL.meta, lr=(1e12,)))
    run_experiment(replace(wild, method=METHODS["average-weights"]), folder / "average-weights", lambda *_: None)
    return folder


def test_the_report_holds_the_results_numbers(results: Path, tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    readme.write_text("before\n<!-- report:errors -->\nold\n<!-- end -->\nafter\n")
    written = write_report(results, tmp_path / "out", [readme])
    assert all(path.stat().st_size > 0 for path in written)
    test = json.loads((results / "reptile" / "result.json").read_text())["test"]
    number = f"{test['mean'][-1]:.4f} ± {test['ci95'][-1]:.4f}"
    for file in ("report.html", "results.md"):
        assert number in (tmp_path / "out" / file).read_text()
    text = readme.read_text()
    assert number in text
    assert text.startswith("before\n")
    assert text.endswith("<!-- end -->\nafter\n")
    assert "old" not in text
    assert "all diverge" in text
    assert {path.name for path in (tmp_path / "out" / "figures").iterdir()} == {
        "directions.png",
        "curves.png",
        "step-sizes.png",
    }


def test_the_page_stands_alone(results: Path, tmp_path: Path) -> None:
    write_report(results, tmp_path, [])
    page = (tmp_path / "report.html").read_text()
    assert page.count("data:image/png;base64,") == 3
    assert "http" not in page


def test_intervals_and_integral_come_from_the_seeds(results: Path) -> None:
    for cell in collect(results):
        if cell.converged:
            per_seed = np.array(cell.test["per_seed"])[:, -1]
            low, high = stats.t.interval(0.95, 2, loc=per_seed.mean(), scale=stats.sem(per_seed))
            assert cell.test["mean"][-1] == pytest.approx(per_seed.mean(), rel=1e-4)
            assert cell.test["ci95"][-1] == pytest.approx((high - low) / 2, rel=1e-3)
            assert cell.test["integral"][-1] == pytest.approx(10 * per_seed.mean(), rel=1e-4)


def changed(results: Path, target: Path, change: Callable[[str, dict[str, Any]], None]) -> Path:
    """A copy of the results, each changed as if something else had been measured."""
    for file in results.glob("*/result.json"):
        result = json.loads(file.read_text())
        change(file.parent.name, result)
        (target / file.parent.name).mkdir()
        (target / file.parent.name / "result.json").write_text(json.dumps(result))
    return target


@pytest.mark.parametrize(
    ("shift", "verdict"),
    [(-0.5, "holds here"), (0.5, "does not hold here: it is the other way round"), (0.0, "not seen here")],
)
def test_verdicts_follow_the_paired_difference(results: Path, tmp_path: Path, shift: float, verdict: str) -> None:
    def measured(name: str, result: dict[str, Any]) -> None:
        for number, row in enumerate(result["test"]["per_seed"] if result["test"] else []):
            row[-1] = 1.0 + number + (shift + 0.01 * (number - 1) if name == "eigen-reptile-paper" else 0.0)

    cells = collect(changed(results, tmp_path, measured))
    found = {claim.says: claim for claim in claims(cells)}
    claim = found["The main direction (paper's form) ends lower than Reptile"]
    assert claim.verdict.startswith(verdict)
    assert f"{shift:+.4f}" in claim.measured or shift == 0.0


def test_without_the_sign_fix_the_verdict_follows_the_learning_curve(results: Path, tmp_path: Path) -> None:
    def no_progress(name: str, result: dict[str, Any]) -> None:
        result["history"]["error"] = [[2.0] * len(line) for line in result["history"]["error"]]

    cells = collect(changed(results, tmp_path, no_progress))
    assert mean_of_curve(cells[-1]).tolist() == [2.0, 2.0, 2.0]
    verdicts = [claim.verdict for claim in claims(cells) if claim.says.startswith("Without the sign fix")]
    assert verdicts == ["holds here"]


def test_a_folder_without_results_or_with_broken_ones_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="train something"):
        write_report(tmp_path, tmp_path / "out", [])
    for content, words in (("{", "not valid JSON"), ('{"format": 99}', "format"), ('{"format": 1}', "understood")):
        (tmp_path / "result.json").write_text(content)
        with pytest.raises(RunError, match=words):
            write_report(tmp_path, tmp_path / "out", [])


def test_the_documents_are_those_of_the_committed_results(tmp_path: Path) -> None:
    copies = []
    for name in ("README.md", "docs/algorithm.md"):
        copies.append(tmp_path / Path(name).name)
        copies[-1].write_text((ROOT / name).read_text())
    write_report(ROOT / "results" / "sine", tmp_path, copies)
    for name in ("README.md", "docs/algorithm.md", "docs/claims.md", "docs/results.md"):
        assert (tmp_path / Path(name).name).read_text() == (ROOT / name).read_text(), f"{name}: run make docs"
