"""The report on runs on one's own data speaks of these runs, and not of the paper."""

import json
import re
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

from eigen_reptile.data import Folder, Glyphs
from eigen_reptile.errors import RunError
from eigen_reptile.methods import METHODS
from eigen_reptile.report import figures
from eigen_reptile.report.collect import collect_results
from eigen_reptile.report.figures import ExampleTask
from eigen_reptile.report.pages import write_report
from eigen_reptile.runtime.checksums import with_checksum
from eigen_reptile.runtime.files import read_tensors, write_json, write_tensors
from eigen_reptile.training.config import Experiment
from eigen_reptile.training.experiment import EXAMPLES, run
from eigen_reptile.training.serialise import to_json
from image_files import encoded, images_of, load_banks, write_files
from patterns import SMALL
from report.shared import changed, rows, saved

pytestmark = pytest.mark.xdist_group("report")  # so that shared results are computed by one worker only

SIGNS = ("speed limit 30", "speed limit 50", "stop", "yield", "no entry", "children", "bend", "ice", "road works")
SEEDS = (0, 1)


@pytest.fixture(scope="module")
def experiment(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    rng = np.random.default_rng(0)
    files = {f"{sign}/{number}.png": rng.integers(256, size=(8, 8, 3)) for sign in SIGNS for number in range(9)}
    root = write_files(
        tmp_path_factory.mktemp("data") / "traffic",
        {path: encoded(pixels.astype(np.uint8)) for path, pixels in files.items()},
    )
    data = Folder(root=root, size=8, least=3)
    meta = replace(SMALL.meta, steps=2, keep="last")
    evaluation = replace(SMALL.evaluation, tasks=5, shots=(1,), queries=2)
    return replace(SMALL, data=data, meta=meta, evaluation=evaluation, seeds=SEEDS)


@pytest.fixture(scope="module")
def signs(experiment: Experiment, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "signs"
    run(replace(experiment, method=METHODS["reptile"]), folder)
    return folder


def texts(results: Path, out: Path) -> dict[str, str]:
    """The texts of a report, without the images in the page."""
    written = [path for path in write_report(results, out, []) if path.suffix in (".md", ".html")]
    return {path.name: re.sub('base64,[^"]*', "", path.read_text()) for path in written}


def test_a_run_on_own_images_is_reported_by_its_name_and_without_the_paper(signs: Path, tmp_path: Path) -> None:
    found = texts(signs, tmp_path)
    assert set(found) == {"report.html", "results.md"}
    for text in found.values():
        assert "paper" not in text
        assert "cell" not in text.replace("cell_content", "")
        assert "The learning rates were set, not tuned." in text
        assert "chosen on validation" not in text
        assert "± is the 95 % interval over 5 tasks of these 3 test classes" in text
        assert "the interval over 2 seeds" in text
    headings = re.findall("^#+ (.*)", found["results.md"], re.MULTILINE)
    assert headings[0] == "Results of signs"
    assert headings[1:-1] == [
        f"signs: {part}"
        for part in (
            "accuracy on test tasks",
            "classes of each split",
            "accuracy during training",
            "images and predictions",
        )
    ]
    assert "<title>Results of signs</title>" in found["report.html"]
    method, inner, outer, *_ = rows(found["results.md"], "signs: accuracy on test tasks")["signs"]
    assert (method, inner, outer) == ("reptile", "0.01", "1")


def test_the_classes_of_each_split_are_listed(experiment: Experiment, signs: Path, tmp_path: Path) -> None:
    assert isinstance(experiment.data, Folder)
    listed = rows(texts(signs, tmp_path)["results.md"], "signs: classes of each split")
    for split, bank in load_banks(experiment.data).items():
        assert listed[split] == [str(len(bank.names)), str(9 * len(bank.names)), ", ".join(bank.names), "signs"]
    assert sorted(name for split in ("train", "validation", "test") for name in listed[split][2].split(", ")) == sorted(
        SIGNS
    )


def test_the_picture_of_a_task_names_its_classes(
    experiment: Experiment, signs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[Mapping[str, ExampleTask]] = []

    def draw(examples: Mapping[str, ExampleTask], path: Path) -> None:
        drawn.append(examples)
        path.touch()

    monkeypatch.setattr(figures, "plot_example_task", draw)
    write_report(signs, tmp_path / "named", [])
    assert isinstance(experiment.data, Folder)
    bank = load_banks(experiment.data)["test"]
    (example,) = drawn.pop().values()
    for image, name in zip(example.support, example.classes, strict=True):
        assert any((np.moveaxis(image, 0, -1) == other).all() for other in images_of(bank, name))
    shutil.copytree(signs, tmp_path / "early")  # versions that did not record the classes
    early = saved(tmp_path / "early")
    del early["classes"]
    (tmp_path / "early" / "result.json").write_text(json.dumps(with_checksum(early)))
    assert "these test classes" in texts(tmp_path / "early", tmp_path / "out")["results.md"]
    (example,) = drawn.pop().values()
    assert list(example.classes) == ["class 1", "class 2", "class 3"]


@pytest.mark.parametrize("indices", [[0, 1, 99], [0, -1, 2], [0, 1]])
def test_an_example_with_classes_that_the_test_split_lacks_is_refused(
    signs: Path, tmp_path: Path, indices: list[int]
) -> None:
    shutil.copytree(signs, tmp_path / "signs")
    file = tmp_path / "signs" / EXAMPLES
    write_tensors(file, read_tensors(file) | {"classes": torch.tensor(indices)})
    result = file.with_name("result.json")
    early = {name: part for name, part in saved(file.parent).items() if name != "example"}
    write_json(result, with_checksum(early))  # a version that does not vouch for the example
    with pytest.raises(RunError, match=r"is damaged: (it names other classes than|its classes do not belong to)"):
        write_report(tmp_path / "signs", tmp_path / "out", [])


def test_runs_on_the_same_images_are_compared_with_the_best_on_validation(own_results: Path, tmp_path: Path) -> None:
    tasks = np.linspace(0.2, 0.8, 6)
    wiggle = np.array([0.01, -0.01] * 3)

    def measured(name: str, result: dict[str, Any]) -> None:
        best = name == "eigen-reptile-paper"
        result["choice"]["validation"] = 0.6 if best else 0.5
        shift = {"reptile": 0.05 + wiggle, "eigen-reptile-authors": wiggle}.get(name, np.zeros(6))
        for test in result["test"]:
            test["per_task"] = [[(tasks - shift).tolist()] * 2] * 2
            test["per_seed"] = [[0.5 - seed / 50 - float(shift.mean())] * 2 for seed in (0, 1)]

    results = changed(own_results / "shapes", tmp_path / "shapes", measured)
    text = texts(results, tmp_path / "out")["results.md"]
    (title,) = re.findall("^## (shapes .*: comparison)$", text, re.MULTILINE)
    part = text.partition(f"## {title}\n")[2].partition("\n## ")[0]
    table = [line[2:-2].split(" | ") for line in part.splitlines() if line.startswith("| eigen-reptile-paper")]
    half = 100 * stats.t.ppf(0.975, 5) * stats.sem(wiggle)
    for other, difference, words in (
        ("reptile", "+5.00", "more accurate, over tasks and over seeds"),
        ("eigen-reptile-authors", "+0.00", "not significantly different"),
    ):
        found = [line for line in table if line[0] == f"eigen-reptile-paper against {other}"]
        assert [line[1] for line in found] == [
            f"{n}-shot, {how}" for n in (1, 2) for how in ("inductive", "transductive")
        ]
        for line in found:
            assert line[2].replace("-0.00", "+0.00").startswith(f"{difference} ± {half:.2f} (p = ")
            assert line[4] == words


def test_own_runs_on_different_data_are_not_in_one_table(own_results: Path, tmp_path: Path) -> None:
    def on_glyphs(name: str, result: dict[str, Any]) -> None:
        if name == "reptile":
            result["experiment"]["data"] = to_json(replace(SMALL, data=Glyphs()))["data"]

    groups = collect_results(changed(own_results / "shapes", tmp_path / "mine", on_glyphs))
    assert sorted((group.name, len(group.cells)) for group in groups) == [("mine", 2), ("reptile", 1)]
    text = texts(tmp_path / "mine", tmp_path / "out")["results.md"]
    assert "paper" not in text.replace("eigen-reptile-paper", "")
    assert "## mine (eigen-reptile-authors, eigen-reptile-paper): accuracy on test tasks" in text
    assert "## reptile: accuracy on test tasks" in text


@pytest.mark.parametrize(
    ("lr", "keep", "said"),
    [
        ((0.5,), "last", {"not tuned"}),
        ((0.5, 1.0, 2.0), "last", {"chosen on validation tasks among 0.5, 1 and 2."}),
        ((0.5,), "best", {"not tuned", "the best on validation tasks was tested."}),
        ((0.5, 1.0, 2.0), "best", {"chosen on validation tasks among 0.5, 1 and 2.", "tasks was tested."}),
    ],
)
def test_only_what_validation_decided_is_said_to_be_chosen(
    own_results: Path, tmp_path: Path, lr: tuple[float, ...], keep: str, said: set[str]
) -> None:
    def decided(name: str, result: dict[str, Any]) -> None:
        result["experiment"]["meta"] |= {"lr": list(lr), "keep": keep}
        result["replicas"] = [replica | {"lr": rate} for rate in lr for replica in result["replicas"]]
        result["learning_curve"]["score"] = [line * len(lr) for line in result["learning_curve"]["score"]]

    text = texts(changed(own_results / "shapes", tmp_path / "shapes", decided), tmp_path / "out")["results.md"]
    assert all(words in text for words in said)
    assert ("not tuned" in text) == (len(lr) == 1)
    assert ("chosen on validation" in text) == (len(lr) > 1)
    assert ("was tested" in text) == (keep == "best")


@pytest.mark.parametrize(
    ("validation", "validation_half", "test", "test_half", "warns"),
    [
        (0.9, 0.03, 0.6, 0.03, True),
        (0.6, 0.03, 0.9, 0.03, False),
        (0.7, 0.03, 0.64, 0.03, False),  # not far
        (0.9, 0.3, 0.6, 0.03, False),  # not significant
        (0.9, 0.03, 0.6, 0.3, False),
        (0.9, 0.03, 0.8, 0.03, True),  # 10 ± 4.2 points
        (0.9, 0.03, 0.81, 0.03, False),  # 9 ± 4.2
        (0.9, None, 0.6, 0.03, True),  # an early version
        (0.9, None, 0.6, None, False),  # a single task
    ],
)
def test_validation_far_above_test_is_a_warning(
    own_results: Path,
    tmp_path: Path,
    validation: float,
    validation_half: float | None,
    test: float,
    test_half: float | None,
    warns: bool,
) -> None:
    def measured(name: str, result: dict[str, Any]) -> None:
        if name == "reptile":
            result["choice"] |= {"validation": validation, "ci95_tasks": validation_half}
            for scores in result["test"]:
                scores |= {"mean": [0.5, test], "ci95_tasks": [0.01, test_half]}
        else:
            result["choice"]["validation"] = 0.0

    found = texts(changed(own_results / "shapes", tmp_path / "shapes", measured), tmp_path / "out")
    for text in found.values():
        assert ("warning" in text) == warns
        drop = 100 * (validation - test)
        assert (f"reptile classifies {100 * validation:.2f} % correctly on validation tasks" in text) == warns
        assert (f"(1-shot, transductive): {drop:.2f} ± " in text) == warns


def test_runs_without_a_test_are_not_said_to_be_a_search(own_results: Path, tmp_path: Path) -> None:
    def untested(name: str, result: dict[str, Any]) -> None:
        result["test"] = None

    text = texts(changed(own_results / "shapes", tmp_path / "shapes", untested), tmp_path / "out")["results.md"]
    assert "accuracy on validation tasks" in text
    assert "tried" not in text
    assert "Test tasks were not evaluated." in text


def test_single_runs_give_their_names_to_headings_and_recipes_keep_theirs(own_results: Path, tmp_path: Path) -> None:
    source = own_results / "shapes" / "reptile"
    for place in ("runs/one", "results/mine/reptile", "noisy/reptile"):
        shutil.copytree(source, tmp_path / place)
    for results, name in (
        ("runs/one", "one"),
        ("runs", "one"),
        ("results", "mine"),
        ("results/mine", "reptile"),
        ("noisy", "noisy"),
    ):
        (group,) = collect_results(tmp_path / results)
        assert group.name == name
    text = texts(tmp_path / "noisy", tmp_path / "out")["results.md"]
    assert "paper" not in text  # a folder that is named like a recipe makes no recipe of a run
