"""The report has the numbers of the result files, and the documents those of the committed results."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure
from scipy import stats

from eigen_reptile.errors import RunError
from eigen_reptile.report.claims import experiment_claims, mean_validation_error
from eigen_reptile.report.collect import collect_results
from eigen_reptile.report.pages import write_report
from eigen_reptile.report.performance import write_performance
from report.shared import cells_of, changed, rows, saved

pytestmark = pytest.mark.xdist_group("report")  # so that shared results are computed by one worker only
ROOT = Path(__file__).parents[2]


def test_the_report_has_the_numbers_of_the_results(sine_results: Path, sine_report: Path) -> None:
    (test,) = saved(sine_results / "reptile")["test"]
    number = f"{test['mean'][-1]:.4f} ± {test['ci95_seeds'][-1]:.4f}"
    for file in ("report.html", "results.md", "README.md"):
        assert number in (sine_report / file).read_text()
    text = (sine_report / "README.md").read_text()
    assert text.startswith("before\n")
    assert text.endswith("<!-- end -->\nafter\n")
    assert "old" not in text
    assert "all diverge" in text
    assert {path.name for path in (sine_report / "figures").iterdir()} == {
        f"{sine_results.name}-directions.png",
        f"{sine_results.name}-curves.png",
        f"{sine_results.name}-step-sizes.png",
    }


def test_the_html_page_needs_no_other_file(sine_report: Path) -> None:
    page = (sine_report / "report.html").read_text()
    assert page.count("data:image/png;base64,") == 3
    assert "http" not in page


def test_intervals_and_integral_are_computed_over_seeds(sine_results: Path, sine_report: Path) -> None:
    shown = rows((sine_report / "results.md").read_text(), f"{sine_results.name}: error on test tasks")
    for cell in cells_of(sine_results):
        if cell.converged:
            (test,) = cell.tests
            per_seed = np.array(test.per_seed)[:, -1]
            assert per_seed.tolist() == cell.final_scores().tolist()
            low, high = stats.t.interval(0.95, 2, loc=per_seed.mean(), scale=stats.sem(per_seed))
            assert test.mean[-1] == pytest.approx(per_seed.mean(), rel=1e-4)
            assert test.ci95_seeds[-1] == pytest.approx((high - low) / 2, rel=1e-3)
            integral, half = map(float, shown[cell.name][-1].split(" ± "))
            assert integral == pytest.approx(10 * per_seed.mean(), rel=1e-4, abs=1e-4)
            assert half == pytest.approx(5 * (high - low), rel=1e-3, abs=1e-4)


@pytest.mark.parametrize(
    ("shift", "verdict"),
    [(-0.5, "holds"), (0.5, "does not hold: the effect is reversed"), (0.0, "inconclusive")],
)
def test_verdicts_follow_the_paired_difference(sine_results: Path, tmp_path: Path, shift: float, verdict: str) -> None:
    def measured(name: str, result: dict[str, Any]) -> None:
        for number, row in enumerate(result["test"][0]["per_seed"] if result["test"] else []):
            row[-1] = 1.0 + number + (shift + 0.01 * (number - 1) if name == "eigen-reptile-paper" else 0.0)

    groups = collect_results(changed(sine_results, tmp_path, measured))
    found = {claim.statement: claim for claim in experiment_claims(groups)}
    claim = found["The main direction (paper's form) reaches a lower error than Reptile"]
    assert claim.verdict.startswith(verdict)
    assert f"{shift:+.4f}" in claim.measured or shift == 0.0


def test_without_the_sign_fix_the_verdict_follows_the_learning_curve(sine_results: Path, tmp_path: Path) -> None:
    def no_progress(name: str, result: dict[str, Any]) -> None:
        result["learning_curve"]["score"] = [[2.0] * len(line) for line in result["learning_curve"]["score"]]

    groups = collect_results(changed(sine_results, tmp_path, no_progress))
    assert mean_validation_error(groups[0].cells[-1]).tolist() == [2.0, 2.0, 2.0]
    (claim,) = (claim for claim in experiment_claims(groups) if claim.statement.startswith("Without the sign fix"))
    assert claim.verdict == "holds"


def test_a_folder_without_results_or_with_broken_ones_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="train something"):
        write_report(tmp_path, tmp_path / "out", [])
    for content, words in (("{", "not valid JSON"), ('{"format": 1}', "format"), ('{"format": 2}', "understood")):
        (tmp_path / "result.json").write_text(content)
        with pytest.raises(RunError, match=words):
            write_report(tmp_path, tmp_path / "out", [])


def test_the_documents_match_the_committed_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # They only name the figures, and drawing takes most of the time: other tests draw.
    monkeypatch.setattr(Figure, "savefig", lambda figure, file, **settings: file.write(b"drawn"))
    copies = []
    inserted = ("README.md", "docs/algorithm.md", "docs/methods.md", "docs/trust.md")
    for name in inserted:
        copies.append(tmp_path / Path(name).name)
        copies[-1].write_text((ROOT / name).read_text())
    write_report(ROOT / "results", tmp_path, copies, ROOT / "benchmarks")
    write_performance(ROOT / "benchmarks", tmp_path)
    for name in (*inserted, "docs/claims.md", "docs/results.md", "docs/performance.md"):
        assert (tmp_path / Path(name).name).read_text() == (ROOT / name).read_text(), f"{name}: run make docs"


@pytest.mark.parametrize("kind", ["curves", "images"])
def test_groups_of_the_same_name_keep_their_own_figures(
    sine_results: Path, image_results: Path, tmp_path: Path, kind: str
) -> None:
    for number, place in enumerate(("a", "b")):
        source = sine_results if kind == "curves" else image_results / "shapes"

        def shifted(name: str, result: dict[str, Any], number: int = number) -> None:
            score = result["learning_curve"]["score"]
            result["learning_curve"]["score"] = [[v if v is None else v + 0.1 * number for v in line] for line in score]

        changed(source, tmp_path / place / "same", shifted)
    write_report(tmp_path, tmp_path / "out", [])
    figures = re.findall('data:image/png;base64,([^"]*)', (tmp_path / "out" / "report.html").read_text())
    assert figures[0] != figures[len(figures) // 2]  # the learning curves of the two groups
