"""The report says what the result files say, and the documents are those of the committed results."""

import base64
import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from eigen_reptile import methods
from eigen_reptile.bench import Figures
from eigen_reptile.bench.turns import race_columns
from eigen_reptile.config import Experiment, MetaConfig
from eigen_reptile.data import ImageBank
from eigen_reptile.evaluate import EvalConfig
from eigen_reptile.experiment import run_experiment
from eigen_reptile.files import RunError
from eigen_reptile.methods import METHODS, EigenReptile
from eigen_reptile.progress import silent
from eigen_reptile.recipes import RECIPES
from eigen_reptile.report.claims import claims, mean_of_curve
from eigen_reptile.report.collect import Cell, collect
from eigen_reptile.report.methods import methods_table
from eigen_reptile.report.pages import write_report
from eigen_reptile.report.performance import write_performance
from eigen_reptile.result import read_examples
from pictures import SMALL as FEW

ROOT = Path(__file__).parent.parent
SMALL = Experiment(
    meta=MetaConfig(steps=8, lr=(0.5, 1e12)),
    evaluation=EvalConfig(tasks=3, monitor_tasks=2, every=4, shots=(3,), after=(0, 2), pictures=(1, 8)),
    seeds=(0, 1, 2),
    compile="off",
)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("results")
    for name in ("reptile", "eigen-reptile-paper", "eigen-reptile-authors", "eigen-reptile-no-sign-fix"):
        run_experiment(replace(SMALL, method=METHODS[name]), folder / name)
    wild = replace(SMALL, meta=replace(SMALL.meta, lr=(1e12,)))
    run_experiment(replace(wild, method=METHODS["average-weights"]), folder / "average-weights")
    return folder


PICTURES = replace(
    FEW,
    meta=MetaConfig(steps=4, batch=2, lr=(0.5,)),
    evaluation=replace(FEW.evaluation, tasks=6, every=2, shots=(1, 2), queries=2),
    seeds=(0, 1),
)


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results on pictures, in a folder called `shapes`."""
    folder = tmp_path_factory.mktemp("pictures")
    for name in ("reptile", "eigen-reptile-paper", "eigen-reptile-authors"):
        run_experiment(replace(PICTURES, method=METHODS[name]), folder / "shapes" / name)
    return folder


def reported(results: Path, out: Path, section: str) -> Path:
    """The folder of a report, and a README.md in it that one of its sections was put into."""
    readme = out / "README.md"
    readme.write_text(f"before\n<!-- report:{section} -->\nold\n<!-- end -->\nafter\n")
    assert all(path.stat().st_size > 0 for path in write_report(results, out, [readme]))
    return out


@pytest.fixture(scope="module")
def report(results: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return reported(results, tmp_path_factory.mktemp("report"), f"{results.name}-errors")


@pytest.fixture(scope="module")
def report_on_pictures(pictures: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return reported(pictures, tmp_path_factory.mktemp("report"), "shapes")


def saved(folder: Path) -> dict[str, Any]:
    value: dict[str, Any] = json.loads((folder / "result.json").read_text())
    return value


def rows(text: str, section: str = "") -> dict[str, list[str]]:
    """The rows of the table in a section of a Markdown text, or in all of it, by their first column."""
    part = text.partition(f"## {section}\n")[2].partition("\n## ")[0] if section else text
    lines = (line[2:-2].split(" | ") for line in part.splitlines() if line.startswith("| "))
    return {first: [value.strip() for value in others] for first, *others in lines}


def only(folder: Path) -> tuple[Cell, ...]:
    """The cells of the one group of results that there is."""
    (group,) = collect(folder)
    return group.cells


def test_the_report_holds_the_results_numbers(results: Path, report: Path) -> None:
    (test,) = saved(results / "reptile")["test"]
    number = f"{test['mean'][-1]:.4f} ± {test['ci95_seeds'][-1]:.4f}"
    for file in ("report.html", "results.md", "README.md"):
        assert number in (report / file).read_text()
    text = (report / "README.md").read_text()
    assert text.startswith("before\n")
    assert text.endswith("<!-- end -->\nafter\n")
    assert "old" not in text
    assert "all diverge" in text
    assert {path.name for path in (report / "figures").iterdir()} == {
        f"{results.name}-directions.png",
        f"{results.name}-curves.png",
        f"{results.name}-step-sizes.png",
    }


def test_the_page_stands_alone(report: Path) -> None:
    page = (report / "report.html").read_text()
    assert page.count("data:image/png;base64,") == 3
    assert "http" not in page


def test_intervals_and_integral_come_from_the_seeds(results: Path, report: Path) -> None:
    shown = rows((report / "results.md").read_text(), f"{results.name}: error on test tasks")
    for cell in only(results):
        if cell.converged:
            (test,) = cell.tests
            per_seed = np.array(test["per_seed"])[:, -1]
            assert per_seed.tolist() == cell.final_scores().tolist()
            low, high = stats.t.interval(0.95, 2, loc=per_seed.mean(), scale=stats.sem(per_seed))
            assert test["mean"][-1] == pytest.approx(per_seed.mean(), rel=1e-4)
            assert test["ci95_seeds"][-1] == pytest.approx((high - low) / 2, rel=1e-3)
            integral, half = map(float, shown[cell.name][-1].split(" ± "))
            assert integral == pytest.approx(10 * per_seed.mean(), rel=1e-4, abs=1e-4)
            assert half == pytest.approx(5 * (high - low), rel=1e-3, abs=1e-4)


def changed(results: Path, target: Path, change: Callable[[str, dict[str, Any]], None]) -> Path:
    """A copy of the results, each changed as if something else had been measured."""
    for file in results.glob("*/result.json"):
        result = json.loads(file.read_text())
        change(file.parent.name, result)
        (target / file.parent.name).mkdir(parents=True)
        (target / file.parent.name / "result.json").write_text(json.dumps(result))
    return target


@pytest.mark.parametrize(
    ("shift", "verdict"),
    [(-0.5, "holds here"), (0.5, "does not hold here: it is the other way round"), (0.0, "not seen here")],
)
def test_verdicts_follow_the_paired_difference(results: Path, tmp_path: Path, shift: float, verdict: str) -> None:
    def measured(name: str, result: dict[str, Any]) -> None:
        for number, row in enumerate(result["test"][0]["per_seed"] if result["test"] else []):
            row[-1] = 1.0 + number + (shift + 0.01 * (number - 1) if name == "eigen-reptile-paper" else 0.0)

    groups = collect(changed(results, tmp_path, measured))
    found = {claim.says: claim for claim in claims(groups)}
    claim = found["The main direction (paper's form) ends lower than Reptile"]
    assert claim.verdict.startswith(verdict)
    assert f"{shift:+.4f}" in claim.measured or shift == 0.0


def test_without_the_sign_fix_the_verdict_follows_the_learning_curve(results: Path, tmp_path: Path) -> None:
    def no_progress(name: str, result: dict[str, Any]) -> None:
        result["history"]["score"] = [[2.0] * len(line) for line in result["history"]["score"]]

    groups = collect(changed(results, tmp_path, no_progress))
    assert mean_of_curve(groups[0].cells[-1]).tolist() == [2.0, 2.0, 2.0]
    verdicts = [claim.verdict for claim in claims(groups) if claim.says.startswith("Without the sign fix")]
    assert verdicts == ["holds here"]


def test_a_folder_without_results_or_with_broken_ones_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="train something"):
        write_report(tmp_path, tmp_path / "out", [])
    for content, words in (("{", "not valid JSON"), ('{"format": 1}', "format"), ('{"format": 2}', "understood")):
        (tmp_path / "result.json").write_text(content)
        with pytest.raises(RunError, match=words):
            write_report(tmp_path, tmp_path / "out", [])


def test_the_documents_are_those_of_the_committed_results(tmp_path: Path) -> None:
    copies = []
    inserted = ("README.md", "docs/algorithm.md", "docs/methods.md")
    for name in inserted:
        copies.append(tmp_path / Path(name).name)
        copies[-1].write_text((ROOT / name).read_text())
    write_report(ROOT / "results", tmp_path, copies, ROOT / "benchmarks")
    write_performance(ROOT / "benchmarks", tmp_path)
    for name in (*inserted, "docs/claims.md", "docs/results.md", "docs/performance.md"):
        assert (tmp_path / Path(name).name).read_text() == (ROOT / name).read_text(), f"{name}: run make docs"


# Pictures


def test_the_report_on_pictures_holds_the_results_numbers(pictures: Path, report_on_pictures: Path) -> None:
    page, text = ((report_on_pictures / name).read_text() for name in ("report.html", "README.md"))
    assert "old" not in text
    assert "scaled down: 4 iterations here, 100,000 in section 5.2 of the paper" in page
    for folder in (pictures / "shapes").iterdir():
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
        # The scores of single tasks are kept with four digits.
        np.testing.assert_allclose(found, expected, atol=0.03)


def test_the_page_shows_the_pictures(pictures: Path, report_on_pictures: Path) -> None:
    page, drawings = (report_on_pictures / "report.html").read_text(), report_on_pictures / "figures"
    assert "http" not in page
    images = [base64.b64decode(image) for image in re.findall('data:image/png;base64,([^"]*)', page)]
    assert images == [(drawings / name).read_bytes() for name in ("shapes.png", "shapes-example.png")]
    assert len(list(drawings.iterdir())) == 2
    # What is shown is one task from the test split, the same for each method.
    examples = [read_examples(folder) for folder in sorted((pictures / "shapes").iterdir())]
    bank = PICTURES.data.load(silent).test
    assert isinstance(bank, ImageBank)
    label = {picture.tobytes(): number // 9 for number, picture in enumerate(np.moveaxis(bank.pixels, -1, 1))}
    for example in examples:
        assert example is not None
        assert examples[0] is not None
        classes = [label[picture.tobytes()] for picture in example["support"]]
        assert len(set(classes)) == 3
        assert [label[picture.tobytes()] for picture in example["query"]] == [
            classes[truth] for truth in example["query_y"]
        ]
        assert all(0 <= said < 3 for said in example["predicted"])
        assert all((example[part] == examples[0][part]).all() for part in ("support", "query", "query_y"))


def test_the_papers_numbers_stand_beside_those_of_its_recipe(pictures: Path, tmp_path: Path) -> None:
    shutil.copytree(pictures / "shapes", tmp_path / "cifar-fs")
    write_report(tmp_path / "cifar-fs", tmp_path / "out", [])
    found = rows((tmp_path / "out" / "results.md").read_text(), "cifar-fs: accuracy on test tasks")
    assert found["method"][-1] == "paper, 1-shot"
    assert {name: found[name][-1] for name in ("reptile", "eigen-reptile-paper", "eigen-reptile-authors")} == {
        "reptile": "58.30 ± 1.20",
        "eigen-reptile-paper": "61.90 ± 1.40",
        "eigen-reptile-authors": "61.90 ± 1.40",
    }


def test_rates_that_were_tried_are_told_without_a_test(pictures: Path, tmp_path: Path) -> None:
    def untested(name: str, result: dict[str, Any]) -> None:
        result["test"] = None
        result["lanes"][0]["validation"] = [0.25]
        result["lanes"][1]["validation"] = [0.5]

    changed(pictures / "shapes", tmp_path / "tune", untested)
    write_report(tmp_path, tmp_path / "out", [])
    text = (tmp_path / "out" / "results.md").read_text()
    assert rows(text, "tune: rates tried")["reptile"] == ["0.01", "37.50"]
    assert "the test tasks were not touched" in text
    assert "more accurate" not in (tmp_path / "out" / "claims.md").read_text()


@pytest.mark.parametrize(
    ("shift", "seeds", "verdict"),
    [
        (0.05, (0.049, 0.051), "holds here"),
        (-0.05, (-0.049, -0.051), "does not hold here: it is the other way round"),
        (0.0, (0.0, 0.0), "not seen here"),
        (0.0, (0.049, 0.051), "not seen here"),
        (0.05, (0.09, 0.01), "holds here for the networks that were trained, over the tasks; 2 seeds cannot"),
        (-0.05, (-0.12, 0.02), "does not hold here: it is the other way round for the networks that were trained"),
        (0.05, (0.05,), "holds here for the networks that were trained, over the tasks; one seed cannot"),
    ],
)
def test_verdicts_on_pictures_need_both_tasks_and_seeds(
    pictures: Path, tmp_path: Path, shift: float, seeds: tuple[float, ...], verdict: str
) -> None:
    tasks = np.linspace(0.2, 0.8, 6)  # so far apart that only pairs can tell
    wiggle = np.array([0.01, -0.01] * 3)

    def measured(name: str, result: dict[str, Any]) -> None:
        ours = name == "eigen-reptile-authors"
        scores = tasks + (shift + wiggle if ours else 0.0)
        result["experiment"]["seeds"] = list(range(len(seeds)))
        for test in result["test"]:
            test["per_task"] = [[scores.tolist()] * len(seeds)] * 2
            test["per_seed"] = [[0.5 + (seed if ours else 0.0)] * 2 for seed in seeds]

    groups = collect(changed(pictures / "shapes", tmp_path / "shapes", measured))
    found = {claim.says: claim for claim in claims(groups)}
    half = 100 * stats.t.ppf(0.975, 5) * stats.sem(wiggle)
    for form, expected in (("authors' form", verdict), ("paper's form", "not seen here")):
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


def steps_results(pictures: Path, target: Path, scores: dict[int, list[float]]) -> Path:
    """Results of one method with several numbers of inner steps, and these accuracies on the test tasks."""
    for steps, values in scores.items():
        result = saved(pictures / "shapes" / "eigen-reptile-authors")
        result["experiment"]["inner"]["steps"] = steps
        for test in result["test"]:
            decides = test["shots"] == 2
            other = (np.array(values) + (0 if decides else steps / 100)).tolist()
            test["per_task"] = [[[0.05 * steps] * 6] * 2, [other] * 2]
        (target / f"{steps}-steps").mkdir(parents=True)
        (target / f"{steps}-steps" / "result.json").write_text(json.dumps(result))
    return target


QUIET, LOUD = np.array([0.002, -0.002] * 3), np.array([0.03, -0.03] * 3)
LEVEL = np.linspace(0.5, 0.7, 6)


@pytest.mark.parametrize(
    ("scores", "verdict", "measured"),
    [
        ({1: LEVEL - 0.3, 7: LEVEL, 9: LEVEL + 0.01 + QUIET, 11: LEVEL - 0.005}, "holds here", "9 against 7: +1.00"),
        ({3: LEVEL, 7: LEVEL, 9: LEVEL + QUIET, 11: LEVEL + 0.04 + QUIET}, "does not hold here", "11 against 7: +4.00"),
        ({3: LEVEL, 7: LEVEL, 9: LEVEL + QUIET, 11: LEVEL - 0.04 + QUIET}, "does not hold here", "11 against 7: -4.00"),
        ({3: LEVEL, 7: LEVEL, 9: LEVEL + 0.01 + LOUD}, "not decided", "9 against 7: +1.00"),
        ({3: LEVEL, 5: LEVEL, 9: LEVEL}, "not decided", "no cells with 7"),
        ({1: LEVEL, 3: LEVEL, 7: LEVEL}, "not decided", "no cells with 7 and with more"),
    ],
)  # fmt: skip
def test_the_plateau_is_judged_by_what_comes_after_seven_steps(
    pictures: Path, tmp_path: Path, scores: dict[int, np.ndarray], verdict: str, measured: str
) -> None:
    plain = {steps: values.tolist() for steps, values in scores.items()}
    groups = collect(steps_results(pictures, tmp_path / "inner-steps", plain))
    (claim,) = (claim for claim in claims(groups) if claim.says.startswith("From 7 inner steps on"))
    assert claim.verdict.startswith(verdict)
    assert measured in claim.measured


def test_methods_with_steps_of_their_own_make_no_plateau(pictures: Path, tmp_path: Path) -> None:
    (group,) = collect(steps_results(pictures, tmp_path / "inner-steps", {n: LEVEL.tolist() for n in (3, 7, 9)}))
    assert group.varies_inner_steps
    first, *others = group.cells
    changed = replace(first, experiment=replace(first.experiment, method=METHODS["average-weights"]))
    assert not replace(group, cells=(changed, *others)).varies_inner_steps


def test_the_plateau_is_drawn(pictures: Path, tmp_path: Path) -> None:
    scores = {1: LEVEL - 0.3, 7: LEVEL, 9: LEVEL + 0.01 + QUIET}
    steps_results(pictures, tmp_path / "inner-steps", {steps: values.tolist() for steps, values in scores.items()})
    write_report(tmp_path, tmp_path / "out", [])
    assert "| holds here, within 2 points over the tasks |" in (tmp_path / "out" / "claims.md").read_text()
    assert (tmp_path / "out" / "figures" / "inner-steps-steps.png").stat().st_size > 0


def test_accuracy_is_drawn_against_time_where_methods_had_different_numbers_of_iterations(
    pictures: Path, tmp_path: Path
) -> None:
    shutil.copytree(pictures, tmp_path / "same")
    write_report(tmp_path / "same", tmp_path / "out", [])
    assert not (tmp_path / "out" / "figures" / "shapes-time.png").exists()
    file = tmp_path / "same" / "shapes" / "reptile" / "result.json"
    shorter = json.loads(file.read_text()) | {"steps": 3}
    file.write_text(json.dumps(shorter))
    write_report(tmp_path / "same", tmp_path / "out", [])
    assert (tmp_path / "out" / "figures" / "shapes-time.png").stat().st_size > 0
    del shorter["training_seconds"]  # as in files of an older version
    file.write_text(json.dumps(shorter))
    write_report(tmp_path / "same", tmp_path / "other", [])
    assert not (tmp_path / "other" / "figures" / "shapes-time.png").exists()


def test_every_method_has_a_row_with_its_file_its_cost_and_what_it_does_here(pictures: Path, tmp_path: Path) -> None:
    shutil.copytree(pictures / "shapes", tmp_path / "results" / "all-methods")
    columns = race_columns(("reptile",))
    found: list[list[str | float]] = [["maml", "maml", 1.0, 1.0, 1.0, 0.4], ["reptile", "reptile", 2.5, 2.5, 2.5, 1.0]]
    (tmp_path / "methods.json").write_text(json.dumps(Figures("Methods", "", columns, found, 1, {})._asdict()))
    page = tmp_path / "methods.md"
    page.write_text("<!-- report:methods -->\n<!-- end -->\n")
    write_report(tmp_path / "results", tmp_path / "out", [page], tmp_path)
    table = rows(page.read_text())
    heading = table.pop("name")
    del table["---"]
    assert {f"`{name}`" for name in RECIPES["all-methods"].cells("small")} <= set(table)
    assert set(table) <= {f"`{name}`" for name in METHODS}
    for row in table.values():
        assert (Path(methods.__path__[0]) / row[heading.index("file")].strip("`")).exists()
    costs = {name: row[heading.index("cost")] for name, row in table.items() if row[heading.index("cost")]}
    assert costs == {"`maml`": "2.50", "`reptile`": "1.00"}
    means = [100 * test["mean"][1] for test in saved(pictures / "shapes" / "reptile")["test"]]
    assert table["`reptile`"][heading.index("CIFAR-FS here")] == f"{means[0]:.2f} / {means[1]:.2f}"
    assert table["`reptile`"][heading.index("Omniglot here")] == ""


def test_a_plateau_of_runs_that_all_diverge_is_not_decided(pictures: Path, tmp_path: Path) -> None:
    folder = steps_results(pictures, tmp_path / "inner-steps", {steps: LEVEL.tolist() for steps in (3, 7, 9)})
    for file in folder.glob("*/result.json"):
        result = json.loads(file.read_text()) | {"choice": None, "test": None}
        for lane in result["lanes"]:
            lane |= {"diverged_at": 2, "validation": None}
        file.write_text(json.dumps(result))
    write_report(tmp_path, tmp_path / "out", [])
    assert "diverges" in (tmp_path / "out" / "results.md").read_text()


@pytest.mark.parametrize("unlike", ["shots", "tasks", "one task"])
def test_runs_with_different_inner_steps_need_not_have_the_same_test(
    pictures: Path, tmp_path: Path, unlike: str
) -> None:
    folder = steps_results(pictures, tmp_path / "runs", {steps: LEVEL.tolist() for steps in (3, 7, 9)})
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
        (folder / f"{steps}-steps" / "result.json").write_text(json.dumps(result))
    write_report(tmp_path, tmp_path / "out", [])
    assert "not decided" in (tmp_path / "out" / "claims.md").read_text()


def test_runs_on_different_tasks_may_lie_side_by_side(pictures: Path, tmp_path: Path) -> None:
    """They have nothing to be compared by, and neither has the other's pictures to show."""
    shutil.copytree(pictures / "shapes" / "eigen-reptile-paper", tmp_path / "mixed" / "eigen-reptile-paper")
    pairs = replace(PICTURES, task=replace(PICTURES.task, way=2), method=METHODS["reptile"])
    pairs = replace(pairs, evaluation=replace(pairs.evaluation, shots=(1,)))
    run_experiment(pairs, tmp_path / "mixed" / "reptile")
    write_report(tmp_path, tmp_path / "out", [])
    shown = rows((tmp_path / "out" / "results.md").read_text(), "mixed: accuracy on test tasks")
    for folder in (tmp_path / "mixed").iterdir():
        means = [value.partition(" ±")[0] for value in shown[folder.name][2:] if value]
        assert means == [f"{100 * mean:.2f}" for test in saved(folder)["test"] for mean in test["mean"]]
    claimed = (tmp_path / "out" / "claims.md").read_text()
    assert "These runs decide none of them." in claimed
    assert "|" not in claimed  # no table without rows


@pytest.mark.parametrize("kind", ["curves", "pictures"])
def test_groups_of_the_same_name_keep_their_own_figures(
    results: Path, pictures: Path, tmp_path: Path, kind: str
) -> None:
    for number, place in enumerate(("a", "b")):
        source = results if kind == "curves" else pictures / "shapes"

        def shifted(name: str, result: dict[str, Any], number: int = number) -> None:
            score = result["history"]["score"]
            result["history"]["score"] = [[v if v is None else v + 0.1 * number for v in line] for line in score]

        changed(source, tmp_path / place / "same", shifted)
    write_report(tmp_path, tmp_path / "out", [])
    images = re.findall('data:image/png;base64,([^"]*)', (tmp_path / "out" / "report.html").read_text())
    assert images[0] != images[len(images) // 2]  # the learning curve of each


def test_a_method_that_somebody_adds_has_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS, "mine", EigenReptile(combine="mean_of_products"))
    lines = methods_table([], {"mine": 1.5}).splitlines()
    assert len(lines) == 2 + len(METHODS)
    (row,) = [line for line in lines if "`mine`" in line]
    idea = "Along the main direction of the inner loop's points (paper, algorithm 1)"
    assert row.split(" | ")[1:6] == [idea, "`eigen_reptile.py`", "", "", "1.50"]
