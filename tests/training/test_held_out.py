"""Evaluations that are interrupted and continue task by task, against uninterrupted ones."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from eigen_reptile.errors import ConfigError
from eigen_reptile.runtime.distributed import WorkerGroup
from eigen_reptile.runtime.progress import ReportProgress, StartProgress
from eigen_reptile.training.config import Experiment, MetaConfig
from eigen_reptile.training.evaluate import EvalConfig
from eigen_reptile.training.experiment import evaluate_run, run
from interrupted import Interrupted
from patterns import SMALL

CURVES = Experiment(
    meta=MetaConfig(steps=2, lr=(0.5, 1.0)),
    evaluation=EvalConfig(tasks=5, monitor_tasks=2, shots=(3, 4), inner_steps=(0, 2), snapshot_steps=()),
    seeds=(0, 1),
    compile="off",
)
IMAGES = replace(SMALL, meta=replace(SMALL.meta, steps=2), evaluation=replace(SMALL.evaluation, tasks=5))


def interrupt_in(bar: str, task: int, error: type[BaseException], seen: list[tuple[str, int]]) -> StartProgress:
    """Interrupts the evaluation with this name when it reports this task; all reports are noted."""

    def start(name: str, total: int) -> ReportProgress:
        def report(done: int, metrics: Mapping[str, float]) -> None:
            seen.append((name, done))
            if (name, done) == (bar, task):
                raise error

        return report

    return start


def without_times(file: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(file.read_text())
    del found["environment"], found["seconds"], found["learning_curve"]["seconds"], found["checksum"]
    return found


def ends(reports: list[tuple[str, int]]) -> set[tuple[str, int]]:
    """The last report of each evaluation."""
    return {(name, done) for name, done in dict(reports).items() if "tasks" in name}


def repeated(before: list[tuple[str, int]], after: list[tuple[str, int]]) -> set[tuple[str, int]]:
    """Reports of evaluations by two starts of a run; the second should only report where the first one ended."""
    return {report for report in before if "tasks" in report[0]} & set(after)


@pytest.mark.parametrize(("at_once", "killed_after"), [(1, 4), (2, 2), (None, 5)])
@pytest.mark.parametrize("exp", [CURVES, IMAGES], ids=["curves", "images"])
def test_an_evaluation_that_is_killed_anywhere_continues_to_the_same_result(
    exp: Experiment,
    at_once: int | None,
    killed_after: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if at_once is not None:
        monkeypatch.setattr("eigen_reptile.training.held_out.tasks_at_once", lambda *args: at_once)
    run(exp, tmp_path / "whole")
    expected = without_times(tmp_path / "whole" / "result.json")
    for bar in ("validation tasks", f"test tasks, {exp.evaluation.shots[-1]}-shot"):
        folder = tmp_path / bar.replace("tasks", "")
        before: list[tuple[str, int]] = []
        with pytest.raises(Interrupted):
            run(exp, folder, interrupt_in(bar, killed_after, Interrupted, before))
        after: list[tuple[str, int]] = []
        run(exp, folder, interrupt_in("", 0, Interrupted, after))
        assert without_times(folder / "result.json") == expected
        assert repeated(before, after) == ends(before)
        assert not (folder / "scores").exists()


def test_another_evaluation_of_a_run_continues_too(tmp_path: Path) -> None:
    run(IMAGES, tmp_path / "run")
    changed = replace(IMAGES, evaluation=replace(IMAGES.evaluation, seed=5))
    evaluate_run(tmp_path / "run", changed, tmp_path / "whole")
    before: list[tuple[str, int]] = []
    interrupt = interrupt_in("test tasks, 2-shot", 3, KeyboardInterrupt, before)
    with pytest.raises(KeyboardInterrupt):
        evaluate_run(tmp_path / "run", changed, tmp_path / "again", interrupt)
    after: list[tuple[str, int]] = []
    evaluate_run(tmp_path / "run", changed, tmp_path / "again", interrupt_in("", 0, Interrupted, after))
    assert without_times(tmp_path / "again" / "result.json") == without_times(tmp_path / "whole" / "result.json")
    assert repeated(before, after) == ends(before)


def test_the_message_says_how_many_tasks_are_done(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt, match="interrupted after 3 of 5 test tasks"):
        run(IMAGES, tmp_path, interrupt_in("test tasks, 2-shot", 3, KeyboardInterrupt, []))


def test_scores_of_other_parameters_or_tasks_are_not_used(tmp_path: Path) -> None:
    run(IMAGES, tmp_path / "whole")
    expected = without_times(tmp_path / "whole" / "result.json")
    folder = tmp_path / "run"
    with pytest.raises(Interrupted):
        run(IMAGES, folder, interrupt_in("test tasks, 1-shot", 3, Interrupted, []))
    for file in (folder / "scores").iterdir():
        lines = file.read_bytes().splitlines(keepends=True)
        other = lines[0].replace(b'"purpose"', b'"Purpose"')
        file.write_bytes(b"".join([other, *lines[1:]]))
    run(IMAGES, folder)
    assert without_times(folder / "result.json") == expected


def test_scores_of_tasks_that_were_computed_together_otherwise_are_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_once = [2]
    monkeypatch.setattr("eigen_reptile.training.held_out.tasks_at_once", lambda *args: at_once[0])
    with pytest.raises(Interrupted):
        run(IMAGES, tmp_path, interrupt_in("test tasks, 1-shot", 4, Interrupted, []))
    at_once[0] = 1
    after: list[tuple[str, int]] = []
    run(IMAGES, tmp_path, interrupt_in("", 0, Interrupted, after))
    assert [done for name, done in after if name == "test tasks, 1-shot"] == [1, 2, 3, 4, 5]


def test_a_run_that_was_trained_but_not_tested_can_be_evaluated_on_fewer_tasks(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    fewer = replace(IMAGES, evaluation=replace(IMAGES.evaluation, tasks=3))
    run(fewer, tmp_path / "expected")
    with pytest.raises(Interrupted):
        run(IMAGES, folder, interrupt_in("validation tasks", 1, Interrupted, []))
    found = evaluate_run(folder, fewer, tmp_path / "fewer")
    expected = without_times(tmp_path / "expected" / "result.json")
    assert {**without_times(tmp_path / "fewer" / "result.json"), "trained": None} == expected
    assert found.trained is not None


def test_a_run_whose_training_is_not_finished_cannot_be_evaluated(tmp_path: Path) -> None:
    exp = replace(IMAGES, meta=replace(IMAGES.meta, steps=4))
    for step, problem in ((1, "is not finished: repeat its command"), (3, "has done 3 of 4 iterations")):
        folder = tmp_path / str(step)
        error = Interrupted if step == 1 else KeyboardInterrupt  # only the latter saves a checkpoint
        with pytest.raises(error):
            run(exp, folder, interrupt_in(folder.name, step, error, []))
        with pytest.raises(ConfigError, match=problem):
            evaluate_run(folder, exp, tmp_path / "new")


def evaluate_together(folder: Path) -> None:
    """What each of two workers does, with processes that are at the same point."""
    with WorkerGroup(60.0, gpu=False).connected("run") as workers:
        run(IMAGES, folder / "whole", workers=workers)
        with pytest.raises(KeyboardInterrupt, match="after 4 of 5 test tasks"):
            run(IMAGES, folder / "run", interrupt_in("test tasks, 1-shot", 4, KeyboardInterrupt, []), workers=workers)
        seen: list[tuple[str, int]] = []
        run(IMAGES, folder / "run", interrupt_in("", 0, KeyboardInterrupt, seen), workers=workers)
    expected = [("validation tasks", 5), *(("test tasks, 1-shot", done) for done in (4, 5))]
    expected += [("test tasks, 2-shot", done) for done in (2, 4, 5)]
    assert [report for report in seen if "tasks" in report[0]] == expected


def test_an_evaluation_by_two_workers_continues_to_the_same_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = str(free.getsockname()[1])
    together = {"WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": port}
    for name, value in (together | {"RANK": "0", "LOCAL_RANK": "0"}).items():
        monkeypatch.setenv(name, value)
    code = "import sys, pathlib, test_held_out; test_held_out.evaluate_together(pathlib.Path(sys.argv[1]))"
    paths = [str(Path(__file__).parents[1]), str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"RANK": "1", "LOCAL_RANK": "1", "PYTHONPATH": os.pathsep.join(paths)}
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], env=environment, stderr=subprocess.PIPE, text=True
    ) as other:
        try:
            evaluate_together(tmp_path)
        finally:
            _, output = other.communicate(timeout=200)
    assert other.returncode == 0, output
    assert without_times(tmp_path / "run" / "result.json") == without_times(tmp_path / "whole" / "result.json")
