"""The report on wrong labels in the support of test tasks."""

from dataclasses import replace
from pathlib import Path

import pytest

from eigen_reptile.methods import METHODS
from eigen_reptile.noise import SupportNoise
from eigen_reptile.recipes.published import TRANFS
from eigen_reptile.report.claims import experiment_claims
from eigen_reptile.report.collect import collect_results, read_cell
from eigen_reptile.report.pages import write_report
from eigen_reptile.report.support_noise import noisy_tests
from eigen_reptile.training.config import MetaConfig
from eigen_reptile.training.experiment import evaluate_run, run
from patterns import SMALL
from report.shared import as_if_on_cifar_fs, rows

pytestmark = pytest.mark.xdist_group("report_support_noise")  # so that the shared results are computed once

RATES: dict[str, tuple[SupportNoise, float]] = {
    "symmetric-20": ("symmetric", 0.2),
    "symmetric-40": ("symmetric", 0.4),
    "outlier-40": ("outlier", 0.4),
}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("results") / "support-noise"
    base = replace(
        SMALL, meta=MetaConfig(steps=2, batch=2), evaluation=replace(SMALL.evaluation, tasks=4, shots=(5,), queries=2)
    )
    for name in ("reptile", "eigen-reptile"):
        exp = replace(base, method=METHODS[name])
        run(exp, folder / name)
        for suffix, (kind, rate) in RATES.items():
            noisy = replace(exp, evaluation=replace(exp.evaluation, support_noise=kind, support_rate=rate))
            evaluate_run(folder / name, noisy, folder / f"{name}-{suffix}")
    return as_if_on_cifar_fs(folder)


def test_tests_of_one_training_are_brought_together(results: Path) -> None:
    (group,) = collect_results(results)
    found = noisy_tests(group, "symmetric")
    assert {name: [cell.name for cell in cells.values()] for name, cells in found.items()} == {
        name: [name, f"{name}-symmetric-20", f"{name}-symmetric-40"] for name in ("eigen-reptile", "reptile")
    }
    assert list(noisy_tests(group, "outlier")["reptile"]) == [0.0, 0.4]
    assert noisy_tests(group, "paired") == {}


def test_tables_have_the_accuracies_and_what_was_published(results: Path, tmp_path: Path) -> None:
    write_report(results, tmp_path, ())
    text = (tmp_path / "results.md").read_text()
    table = rows(text, "support-noise: symmetric noise in the support, 5-shot")
    scores = read_cell(results / "reptile-symmetric-40" / "result.json").scores(5, "inductive")
    assert scores is not None
    assert table["cell"] == ["0 % wrong", "20 % wrong", "40 % wrong", "60 % wrong"]
    assert table["reptile"][2].startswith(f"{100 * scores.mean:.1f} ± ")
    assert table["reptile"][3] == ""
    assert table["TraNFS-3, published"] == [
        f"{TRANFS['TraNFS-3'][rate]:.1f}" if rate in TRANFS["TraNFS-3"] else "" for rate in (0.0, 0.2, 0.4, 0.6)
    ]
    outliers = rows(text, "support-noise: outlier noise in the support, 5-shot")
    assert set(outliers) == {"cell", "---", "reptile", "eigen-reptile"}
    assert (tmp_path / "figures" / "support-noise-support-symmetric-5.png").stat().st_size > 0


def test_other_sections_are_about_clean_tests(results: Path, tmp_path: Path) -> None:
    write_report(results, tmp_path, ())
    accuracy = rows((tmp_path / "results.md").read_text(), "support-noise: accuracy on test tasks")
    assert {name for name in accuracy if "reptile" in name} == {"reptile", "eigen-reptile"}
    claims = experiment_claims(collect_results(results))
    assert len({claim.statement for claim in claims}) == len(claims)
