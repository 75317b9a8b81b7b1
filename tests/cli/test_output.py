"""Progress bars, tables and JSON."""

import io
import json
import re
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import Progress

from command_line import ENOUGH, FEW, SMALL, Cli, files, saved, without_tasks
from eigen_reptile.cli.output import ProgressBars, progress_columns


def test_progress_and_remaining_time_are_shown_on_a_narrow_terminal() -> None:
    shown = io.StringIO()
    console = Console(file=shown, width=80, force_terminal=True, color_system=None)
    metrics = {"score": 0.41, "ci95": 0.02, "explained_variance_ratio": 0.6, "length": 0.7, "images_per_second": 1820.0}
    with Progress(*progress_columns(), console=console, expand=True, auto_refresh=False) as bars:
        report = ProgressBars(bars).start("eigen-reptile-ispl-s50", 4000)
        report(1200, metrics)
        bars.refresh()
    assert re.search(r"eigen-reptile-ispl-s50 .*1200/4000 0:00:0\d \S+ validation", shown.getvalue())


def test_json_is_one_object_and_a_finished_run_is_not_repeated(cli: Cli) -> None:
    first = cli("train", "reptile", "sine", "--out", "run", *SMALL, "--json")
    assert (first.code, first.err) == (0, "")
    test = saved("run/result.json")["test"]
    assert json.loads(first.out)["results"]["reptile sine"]["test"] == without_tasks(test)
    before = files("run")
    assert cli("train", "reptile", "sine", "--out", "run", *SMALL, "--json") == first
    assert files("run") == before

    assert cli("train", "reptile", "sine", "--out", "run", *SMALL, "--quiet") == (0, "", "")
    table = cli("train", "reptile", "sine", "--out", "run", *SMALL).out
    assert all(f"{error:.4f}" in table for error in test[0]["mean"])

    other = cli("train", "reptile", "sine", "--out", "run", *SMALL, "--inner.lr", "0.5", "--quiet")
    assert other.code == 2
    assert "inner.lr is 0.02 in its config.json and 0.5 in this experiment" in other.problem()
    assert files("run") == before


def test_a_folder_of_mixed_images_trains_with_one_command_and_its_scores_are_shown(cli: Cli, images: Path) -> None:
    command = ("train", "eigen-reptile", "folder", "--data.root", str(images), "--out", "run", *FEW, *ENOUGH)
    printed = cli(*command, "--json")
    assert (printed.code, printed.err) == (0, "")
    result = saved("run/result.json")
    assert json.loads(printed.out)["results"]["eigen-reptile folder"]["test"] == without_tasks(result["test"])
    assert [(test["shots"], test["columns"]) for test in result["test"]] == [
        (shots, ["inductive", "transductive"]) for shots in (1, 2)
    ]
    # The patterns differ so much that they are easy to classify; chance is 0.2.
    accuracies = [accuracy for test in result["test"] for accuracy in test["mean"]]
    assert min(accuracies) > 0.6
    table = cli(*command).out
    assert all(f"{100 * accuracy:.2f}" in table for accuracy in accuracies)

    assert cli("report", "run", "--out", "page", "--quiet") == (0, "", "")
    page = Path("page/report.html").read_text()
    assert page.count("data:image/png") == 2  # the learning curve and the images with predictions
    assert all(f"{100 * accuracy:.2f} ± " in page for accuracy in accuracies)


def test_a_comparison_is_shown_as_a_table_and_as_json(cli: Cli) -> None:
    for name, seed in (("first", "0"), ("second", "1")):
        assert cli("train", "reptile", "sine", "--out", name, *SMALL, "--seeds", seed, "--quiet") == (0, "", "")
    per_task = [np.array(saved(f"{name}/result.json")["test"][0]["per_task"]) for name in ("first", "second")]
    expected = (per_task[0] - per_task[1]).reshape(-1, 2).mean(1)  # one row for each number of inner steps
    comparisons = json.loads(cli("compare", "first", "second", "--json").out)["comparisons"]
    assert np.allclose([row["over_tasks"]["difference"] for row in comparisons], expected)
    table = cli("compare", "first", "second").out
    assert "first minus second" in table
    assert "needs at least two seeds" in table
