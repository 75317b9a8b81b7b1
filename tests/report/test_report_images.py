"""The report on image experiments."""

import base64
import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from eigen_reptile.data import ImageBank
from eigen_reptile.methods import METHODS
from eigen_reptile.report.pages import write_report
from eigen_reptile.runtime.checksums import with_checksum
from eigen_reptile.runtime.progress import no_progress
from eigen_reptile.training.experiment import read_examples, run
from report.shared import IMAGE_EXPERIMENT, as_if_on_cifar_fs, changed, rows, saved

pytestmark = pytest.mark.xdist_group("report")  # so that shared results are computed by one worker only


def test_the_report_on_images_has_the_numbers_of_the_results(image_results: Path, image_report: Path) -> None:
    page, text = ((image_report / name).read_text() for name in ("report.html", "README.md"))
    assert "old" not in text
    assert "scaled down: 4 outer iterations, where section 5.2 of the paper has 100,000" in page
    for folder in (image_results / "shapes").iterdir():
        inner, outer, *shown = rows(text)[folder.name]
        assert (inner, outer) == ("0.01", "0.5")
        expected = []
        for test in saved(folder)["test"]:
            assert test["columns"] == ["inductive", "transductive"]
            for place in range(2):
                assert f"{100 * test['mean'][place]:.2f} ± {100 * test['ci95_tasks'][place]:.2f} (seeds" in page
                tasks, seeds = np.array(test["per_task"][place]).mean(0), np.array(test["per_seed"])[:, place]
                over_tasks, over_seeds = (stats.t.ppf(0.975, len(x) - 1) * stats.sem(x) for x in (tasks, seeds))
                expected.append(100 * np.array([seeds.mean(), over_tasks, over_seeds]))
        found = [[float(number) for number in re.findall(r"[\d.]+", value)] for value in shown]
        # The scores of single tasks are stored with four digits.
        np.testing.assert_allclose(found, expected, atol=0.03)


def test_the_page_shows_the_figures(image_results: Path, image_report: Path) -> None:
    page, drawings = (image_report / "report.html").read_text(), image_report / "figures"
    assert "http" not in page
    figures = [base64.b64decode(figure) for figure in re.findall('data:image/png;base64,([^"]*)', page)]
    assert figures == [(drawings / name).read_bytes() for name in ("shapes.png", "shapes-example.png")]
    assert len(list(drawings.iterdir())) == 2
    # The example is one task of the test split, the same for each method.
    examples = [read_examples(folder) for folder in sorted((image_results / "shapes").iterdir())]
    bank = IMAGE_EXPERIMENT.data.load(no_progress).test
    assert isinstance(bank, ImageBank)
    class_of = {image.tobytes(): number // 9 for number, image in enumerate(np.moveaxis(bank.pixels, -1, 1))}
    for example in examples:
        assert example is not None
        assert examples[0] is not None
        classes = [class_of[image.tobytes()] for image in example["support"]]
        assert len(set(classes)) == 3
        assert [class_of[image.tobytes()] for image in example["query"]] == [
            classes[truth] for truth in example["query_y"]
        ]
        assert all(0 <= label < 3 for label in example["predicted"])
        assert all((example[part] == examples[0][part]).all() for part in ("support", "query", "query_y"))


def test_published_accuracies_are_shown_next_to_the_cells_of_their_recipe(image_results: Path, tmp_path: Path) -> None:
    shutil.copytree(image_results / "shapes", tmp_path / "cifar-fs")
    write_report(tmp_path / "cifar-fs", tmp_path / "out", [])
    found = rows((tmp_path / "out" / "results.md").read_text(), "cifar-fs: accuracy on test tasks")
    assert found["method"][-1] == "paper, 1-shot"
    assert {name: found[name][-1] for name in ("reptile", "eigen-reptile-paper", "eigen-reptile-authors")} == {
        "reptile": "58.30 ± 1.20",
        "eigen-reptile-paper": "61.90 ± 1.40",
        "eigen-reptile-authors": "61.90 ± 1.40",
    }


def test_learning_rates_that_were_tried_are_listed_without_test_tasks(image_results: Path, tmp_path: Path) -> None:
    def untested(name: str, result: dict[str, Any]) -> None:
        result["test"] = None
        result["replicas"][0]["validation"] = [0.25]
        result["replicas"][1]["validation"] = [0.5]

    changed(image_results / "shapes", tmp_path / "tune", untested)
    write_report(tmp_path, tmp_path / "out", [])
    text = (tmp_path / "out" / "results.md").read_text()
    assert rows(text, "tune: learning rates tried")["reptile"] == ["0.01", "37.50"]
    assert "test tasks were not evaluated" in text
    assert "more accurate" not in (tmp_path / "out" / "claims.md").read_text()


def test_accuracy_is_drawn_against_time_if_methods_had_different_numbers_of_iterations(
    image_results: Path, tmp_path: Path
) -> None:
    shutil.copytree(image_results, tmp_path / "same")
    write_report(tmp_path / "same", tmp_path / "out", [])
    assert not (tmp_path / "out" / "figures" / "shapes-time.png").exists()
    file = tmp_path / "same" / "shapes" / "reptile" / "result.json"
    shorter = saved(file.parent) | {"steps": 3}
    shorter["learning_curve"]["step"][-1] = 3
    for replica in shorter["replicas"]:
        replica["best_at"] = 0
    file.write_text(json.dumps(with_checksum(shorter)))
    write_report(tmp_path / "same", tmp_path / "out", [])
    assert (tmp_path / "out" / "figures" / "shapes-time.png").stat().st_size > 0
    shorter["learning_curve"]["seconds"] = [None] * len(shorter["learning_curve"]["step"])  # as in early versions
    file.write_text(json.dumps(with_checksum(shorter)))
    write_report(tmp_path / "same", tmp_path / "other", [])
    assert not (tmp_path / "other" / "figures" / "shapes-time.png").exists()


def test_runs_on_different_tasks_can_share_a_folder(image_results: Path, tmp_path: Path) -> None:
    """They are neither compared nor shown in one figure."""
    shutil.copytree(image_results / "shapes" / "eigen-reptile-paper", tmp_path / "mixed" / "eigen-reptile-paper")
    pairs = replace(IMAGE_EXPERIMENT, task=replace(IMAGE_EXPERIMENT.task, way=2), method=METHODS["reptile"])
    pairs = replace(pairs, evaluation=replace(pairs.evaluation, shots=(1,)))
    run(pairs, tmp_path / "mixed" / "reptile")
    as_if_on_cifar_fs(tmp_path)
    write_report(tmp_path, tmp_path / "out", [])
    shown = rows((tmp_path / "out" / "results.md").read_text(), "mixed: accuracy on test tasks")
    for folder in (tmp_path / "mixed").iterdir():
        means = [value.partition(" ±")[0] for value in shown[folder.name][2:] if value]
        assert means == [f"{100 * mean:.2f}" for test in saved(folder)["test"] for mean in test["mean"]]
    claimed = (tmp_path / "out" / "claims.md").read_text()
    assert "These runs do not test any of the paper's claims." in claimed
    assert "|" not in claimed  # no table without rows
