"""Files of a run, a study or a benchmark with any entry changed: an answer or one line, never a traceback.

`EIGEN_REPTILE_MUTANTS=1000` tries more of them.
"""

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from command_line import Cli
from eigen_reptile.cli import run as run_command
from eigen_reptile.errors import ConfigError, DataError, RunError
from eigen_reptile.report.benchmark import check_showable, read_benchmark
from eigen_reptile.report.collect import read_cell
from eigen_reptile.report.pages import write_report
from eigen_reptile.report.performance import write_performance
from eigen_reptile.report.theory import read_studies, study_table, theory_claims
from eigen_reptile.training.check_run import check_run
from eigen_reptile.training.config import Experiment, MetaConfig
from eigen_reptile.training.evaluate import EvalConfig
from eigen_reptile.training.experiment import evaluate_run, run
from eigen_reptile.training.serialise import from_json
from mutations import sample
from patterns import SMALL
from siege.mutate import signed

ROOT = Path(__file__).parents[2]
COUNT = int(os.environ.get("EIGEN_REPTILE_MUTANTS", "20"))
EXPENSIVE = 2 + COUNT // 25
"""How many of them are trained, evaluated or drawn."""
CURVES = Experiment(
    meta=MetaConfig(steps=2, lr=(0.5, 1.0)),
    evaluation=EvalConfig(tasks=2, monitor_tasks=2, every=1, shots=(3,), inner_steps=(0, 2), snapshot_steps=(1, 2)),
    seeds=(3, 4),
    compile="off",
)
IMAGES = replace(SMALL, meta=replace(SMALL.meta, steps=2), seeds=(3, 4))
FLAGS = (
    *("--meta.steps", "2", "--meta.lr", "0.5", "1.0", "--seeds", "3", "4", "--compile", "off"),
    *("--evaluation.tasks", "2", "--evaluation.monitor-tasks", "2", "--evaluation.every", "1"),
    *("--evaluation.shots", "3", "--evaluation.inner-steps", "0", "2", "--evaluation.snapshot-steps", "1", "2"),
)
"""Those of `CURVES`."""
EXPERIMENTS = {"curves": CURVES, "images": IMAGES}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the folders of two finished runs."""
    folder = tmp_path_factory.mktemp("finished")
    for name, exp in EXPERIMENTS.items():
        run(exp, folder / name, checkpoint_every=1)
    return folder


@pytest.fixture
def place(finished: Path, tmp_path: Path) -> Path:
    """A copy that may be damaged."""
    shutil.copytree(finished, tmp_path / "runs")
    return tmp_path / "runs"


def content(file: Path) -> Any:
    return json.loads(file.read_text())


def write_signed(file: Path, mutant: str) -> None:
    """Write JSON with a checksum that fits, because another one would notice every change."""
    file.write_bytes(signed(mutant.encode(errors="surrogatepass")))


def attempt(action: Callable[[], object]) -> str | None:
    """Do something that may be refused; returns why, which must be one line."""
    try:
        action()
    except (ConfigError, DataError, RunError) as error:
        problem = str(error)
    else:
        return None
    assert len(problem.splitlines()) == 1
    assert len(problem) < 2500
    return problem


def check_answer(capsys: pytest.CaptureFixture[str], *args: str) -> None:
    """An answer, or one line and an exit code; an error of any other kind would end this test."""
    code = run_command(args)
    problems = [line for line in capsys.readouterr().err.splitlines() if line.startswith("eigen-reptile: ")]
    assert (code, len(problems)) in ((0, 0), (1, 1), (2, 1)), args
    assert all(len(problem) < 2500 for problem in problems)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_changed_result_is_refused_or_can_be_compared_and_reported(
    place: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = place / name / "result.json"
    (place / name / "config.json").unlink()  # with which a changed experiment would be compared
    shutil.copytree(place / name, place / "same")
    accepted: list[str] = []
    for mutant in sample(content(file), 5 * COUNT):
        write_signed(file, mutant)
        if attempt(partial(read_cell, file)) is None:
            accepted.append(mutant)
    assert accepted
    for mutant in accepted:
        write_signed(file, mutant)
        check_answer(capsys, "compare", str(place / name), str(place / "same"))
    for mutant in accepted[:EXPENSIVE]:
        write_signed(file, mutant)
        check_answer(capsys, "report", str(place), "--out", str(place.parent / "out"))


@pytest.mark.parametrize("file", ["result.json", "config.json", "environment.json", "checkpoints/step-000000002.json"])
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_run_with_a_changed_file_is_refused_or_continued(place: Path, name: str, file: str) -> None:
    for number, mutant in enumerate(sample(content(place / name / file), COUNT)):
        copy = place / f"{number}"
        shutil.copytree(place / name, copy)
        write_signed(copy / file, mutant)
        assert all(len(problem.splitlines()) == 1 for problem in check_run(copy))
        if number < EXPENSIVE:
            attempt(partial(evaluate_run, copy, EXPERIMENTS[name], copy / "again"))
            if file != "result.json":
                (copy / "result.json").unlink()
            attempt(partial(run, EXPERIMENTS[name], copy))
        shutil.rmtree(copy)


def test_an_old_run_with_a_changed_line_of_metrics_is_refused_or_continued(tmp_path: Path) -> None:
    old = ROOT / "tests" / "training" / "old_run"
    exp = from_json(content(old / "config.json"))
    lines = (old / "metrics.jsonl").read_text().splitlines()
    for number, line in enumerate(lines):
        for mutant in sample(json.loads(line), EXPENSIVE):
            shutil.copytree(old, tmp_path / "run")
            changed = [*lines[:number], mutant, *lines[number + 1 :]]
            (tmp_path / "run" / "metrics.jsonl").write_text("\n".join(changed) + "\n")
            assert all(len(problem.splitlines()) == 1 for problem in check_run(tmp_path / "run"))
            attempt(lambda: evaluate_run(tmp_path / "run", exp, tmp_path / "again"))
            (tmp_path / "run" / "result.json").unlink()
            attempt(lambda: run(exp, tmp_path / "run"))
            if (tmp_path / "run" / "result.json").exists():
                read_cell(tmp_path / "run" / "result.json")  # what was written can be read
            for folder in ("run", "again"):
                shutil.rmtree(tmp_path / folder, ignore_errors=True)


@pytest.mark.parametrize("name", ["sine", "scaling", "memory"])
def test_a_changed_benchmark_is_refused_or_shown(tmp_path: Path, name: str) -> None:
    value = content(ROOT / "benchmarks" / f"{name}.json")
    shown = 0
    for mutant in sample(value | {"rows": value["rows"][:4]}, 3 * COUNT):
        (tmp_path / f"{name}.json").write_text(mutant)
        attempt(lambda: check_showable(tmp_path / f"{name}.json", read_benchmark(tmp_path / f"{name}.json")))
        if shown < EXPENSIVE:
            attempt(lambda: write_performance(tmp_path, tmp_path / "out"))
            shown += (tmp_path / "out").exists()
            shutil.rmtree(tmp_path / "out", ignore_errors=True)


@pytest.mark.parametrize("name", ["spectrum", "discarding"])
def test_a_changed_study_is_refused_or_shown(tmp_path: Path, name: str) -> None:
    value = content(ROOT / "results" / "theory" / name / "study.json")
    shown = 0
    for mutant in sample(value, 3 * COUNT):
        (tmp_path / name).mkdir(exist_ok=True)
        (tmp_path / name / "study.json").write_text(mutant)
        attempt(lambda: [study_table(found.study) for found in read_studies(tmp_path)])
        attempt(lambda: theory_claims(read_studies(tmp_path)))
        if shown < EXPENSIVE:
            attempt(lambda: write_report(tmp_path, tmp_path / "out", []))
            shown += (tmp_path / "out").exists()
            shutil.rmtree(tmp_path / "out", ignore_errors=True)


@pytest.mark.parametrize("text", ["{}", "[]", "null", "3", '"result"', '{"format": 3}', "[" * 100_000])
@pytest.mark.parametrize("command", ["compare", "report", "eval", "train"])
def test_a_result_that_is_none_is_one_line_that_names_it(
    cli: Cli, finished: Path, tmp_path: Path, command: str, text: str
) -> None:
    shutil.copytree(finished / "curves", tmp_path / "run")
    (tmp_path / "run" / "result.json").write_text(text)
    words = {
        "compare": ("run", str(finished / "curves")),
        "report": ("run",),
        "eval": ("run", "--out", "new"),
        "train": ("eigen-reptile", "sine", "--out", "run", *FLAGS),
    }
    printed = cli(command, *words[command], "--quiet")
    assert printed.code == (2 if command == "eval" else 1)
    assert printed.out == ""
    assert "result.json" in printed.problem()
    assert len(printed.err.splitlines()) == 1
