"""Training on pictures: the best checkpoint, early stopping, what is tested, and memory."""

import gc
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from eigen_reptile.config import Experiment, MetaConfig
from eigen_reptile.data import Bank, Banks, Dataset, Samples, TaskShape
from eigen_reptile.evaluate import Mode, Start, evaluate, example
from eigen_reptile.experiment import run_experiment
from eigen_reptile.inner import InnerState
from eigen_reptile.methods import METHODS
from eigen_reptile.models import Conv4
from eigen_reptile.progress import Announce, silent
from eigen_reptile.result import read_examples
from eigen_reptile.stage import Stage, prepare
from eigen_reptile.state import Best, TrainState
from eigen_reptile.train import iterate, settle_machine, training_data
from interrupted import Interrupted, interrupt_at
from pictures import SMALL, Patterns


def by_hand(exp: Experiment) -> tuple[Stage, list[TrainState]]:
    """The states after each iteration, without anything else that `train` does."""
    settle_machine()
    stage = prepare(exp, silent, "cpu")
    states = [TrainState.fresh(stage)]
    with torch.no_grad():
        for _ in range(exp.meta.steps):
            states.append(iterate(stage, exp.method.propose, states[-1], *training_data(stage, states[-1].step))[0])
    return stage, states


def scores(stage: Stage, starts: TrainState | Best, split: Literal["validation", "test"], shots: int) -> np.ndarray:
    """Accuracies (S, T, K) on all tasks of a split; the test's also in the inductive mode."""
    config = stage.exp.evaluation
    count = config.monitor_tasks if split == "validation" else config.tasks
    modes: Sequence[Mode] = ("transductive",) if split == "validation" else ("inductive", "transductive")
    start = Start(starts.theta, starts.memory, stage.exp.inner, stage.exp.method)
    shape = TaskShape(stage.exp.task.way, shots, config.queries)
    bank = getattr(stage.banks, split)
    return evaluate(stage.learner, bank, start, config, split, shape, range(count), modes, silent("", 0)).values


def assert_tested(result: dict[str, Any], stage: Stage, starts: TrainState | Best) -> None:
    for test, shots in zip(result["test"], (1, 2), strict=True):
        assert (test["shots"], test["queries"], test["tasks"]) == (shots, 3, 4)
        expected = np.moveaxis(scores(stage, starts, "test", shots), 2, 0)
        np.testing.assert_allclose(test["per_task"], expected, atol=1e-4)
        assert test["mean"] == pytest.approx(expected.mean((1, 2)), rel=1e-5)


def test_the_best_of_the_learning_curve_is_kept_and_tested(tmp_path: Path) -> None:
    stage, states = by_hand(SMALL)
    curve = np.stack([scores(stage, state, "validation", 1).mean((1, 2)) for state in states[::4]]).astype(np.float32)
    result = run_experiment(SMALL, tmp_path / "best")
    assert (result["format"], result["measure"]) == (2, "accuracy")
    assert result["history"]["step"] == list(range(0, 21, 4))
    np.testing.assert_allclose(result["history"]["score"], curve, rtol=1e-5)

    at = 4 * curve.argmax(0)
    assert len({*at, 0, 20}) == 4  # otherwise this could tell neither the lanes apart nor the best from the last
    assert [lane["best_at"] for lane in result["lanes"]] == at.tolist()
    found = load_file(tmp_path / "best/checkpoints/step-000000020.safetensors")
    at_best = [states[step] for step in at]
    best = Best(
        torch.stack([state.theta[lane] for lane, state in enumerate(at_best)]),
        InnerState(
            torch.stack([state.memory.square[lane] for lane, state in enumerate(at_best)]),
            torch.stack([state.memory.steps[lane] for lane, state in enumerate(at_best)]),
        ),
        torch.from_numpy(curve.max(0)),
        torch.from_numpy(at),
    )
    expected = states[-1]._replace(best=best).tensors()
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        assert torch.equal(found[name], tensor), name
    assert_tested(result, stage, best)

    shown = read_examples(tmp_path / "best")
    assert shown is not None
    start = Start(best.theta[:1], InnerState(*(part[:1] for part in best.memory)), SMALL.inner, SMALL.method)
    task, predicted = example(stage.learner, stage.banks.test, start, SMALL.evaluation, TaskShape(3, 1, 3))
    for name, pictures in (("support", task.x), ("query", task.query_x)):
        assert np.array_equal(shown[name], pictures[0, 0])
    assert np.array_equal(shown["query_y"], task.query_y[0, 0])
    assert np.array_equal(shown["predicted"], predicted[0])

    last = replace(SMALL, meta=replace(SMALL.meta, keep="last"))
    assert_tested(run_experiment(last, tmp_path / "last"), stage, states[-1])


def test_lanes_on_pictures_go_where_they_would_go_alone() -> None:
    together = replace(SMALL, meta=replace(SMALL.meta, steps=3, lr=(0.5, 1.0)))
    _, states = by_hand(together)
    for number, lane in enumerate(together.lanes):
        _, alone = by_hand(replace(together, meta=replace(together.meta, lr=(lane.lr,)), seeds=(lane.seed,)))
        torch.testing.assert_close(states[-1].theta[number], alone[-1].theta[0], rtol=1e-4, atol=1e-6)
        torch.testing.assert_close(states[-1].memory.square[number], alone[-1].memory.square[0], rtol=1e-3, atol=1e-9)


def test_patience_stops_where_it_should_also_after_an_interruption(tmp_path: Path) -> None:
    patience, few = 2, replace(SMALL.evaluation, tasks=2, shots=(1,))
    patient = replace(SMALL, meta=replace(SMALL.meta, steps=40, patience=patience), evaluation=few)
    impatient = replace(patient, meta=replace(patient.meta, patience=0))
    curve = np.array(run_experiment(impatient, tmp_path / "whole")["history"]["score"])
    best_so_far = np.array([curve[: point + 1].argmax(0) for point in range(len(curve))])
    since_any_lane_got_better = np.arange(len(curve)) - best_so_far.max(1)
    stop = int(np.flatnonzero(since_any_lane_got_better >= patience)[0])
    assert patience < stop < len(curve) - 1  # not at once, and not only at the end

    stopped = run_experiment(patient, tmp_path / "stopped")
    assert stopped["steps"] == 4 * stop
    assert stopped["history"]["score"] == curve[: stop + 1].tolist()

    folder = tmp_path / "broken"
    for step in (6, 4 * stop):  # between two validations; and after the last iteration, before there is a result
        with pytest.raises(Interrupted):
            run_experiment(patient, folder, interrupt_at(step, folder), checkpoint_every=5)
    continued = run_experiment(patient, folder)
    name = f"checkpoints/step-{4 * stop:09d}.safetensors"
    assert (folder / name).read_bytes() == (tmp_path / "stopped" / name).read_bytes()
    for key in ("steps", "lanes", "history", "choice", "test"):
        assert continued[key] == stopped[key]


def test_the_time_of_training_goes_on_from_where_it_was(tmp_path: Path) -> None:
    folder = tmp_path / "broken"
    with pytest.raises(Interrupted):
        run_experiment(SMALL, folder, interrupt_at(10, folder), checkpoint_every=5)
    metrics = folder / "metrics.jsonl"
    lines = [json.loads(line) for line in metrics.read_text().splitlines()]
    assert lines[-1]["step"] == 8
    lines[-1]["seconds"] = 1000.0  # as if it had taken so long
    metrics.write_text("".join(json.dumps(line) + "\n" for line in lines))
    seconds = run_experiment(SMALL, folder)["training_seconds"]
    assert len(seconds) == len(range(0, 21, 4))
    assert seconds == sorted(seconds)
    assert seconds[0] == 0
    assert seconds[1] < 1000 == seconds[2]
    assert seconds[3] > 1000


class Untouchable(Bank):
    """A bank that knows what it holds, but gives nothing."""

    def __init__(self, bank: Bank) -> None:
        self._bank = bank

    @property
    def shape(self) -> tuple[int, ...]:
        return self._bank.shape

    def fitted(self, task: TaskShape) -> TaskShape:
        return self._bank.fitted(task)

    def draw(self, count: int, task: TaskShape, rngs: Sequence[np.random.Generator]) -> Samples:
        raise AssertionError("a task was drawn that must not be")


@dataclass(frozen=True)
class WithoutTest(Dataset):
    """Pictures whose test split must not be touched."""

    @property
    def classifies(self) -> bool:
        return True

    def load(self, announce: Announce) -> Banks:
        banks = Patterns().load(announce)
        return banks._replace(test=Untouchable(banks.test))


def test_the_test_tasks_are_left_alone_where_they_should_be(tmp_path: Path) -> None:
    tested = replace(SMALL, data=WithoutTest(), meta=replace(SMALL.meta, steps=8, lr=(0.5, 1.0)))
    untested = replace(tested, evaluation=replace(tested.evaluation, test=False))
    result = run_experiment(untested, tmp_path / "untested")
    assert result["test"] is None
    assert result["choice"]["lr"] in (0.5, 1.0)
    assert all(lane["validation"] is not None for lane in result["lanes"])
    with pytest.raises(AssertionError, match="must not be"):
        run_experiment(tested, tmp_path / "tested")
    assert len((tmp_path / "tested/metrics.jsonl").read_text().splitlines()) == 4  # it came only after training


@pytest.mark.parametrize("name", ["reptile", "prototypical", "mixtfsl"])
def test_pictures_per_second_are_those_that_the_network_sees(name: str, tmp_path: Path) -> None:
    method = METHODS[name]
    exp, of_task = replace(SMALL, meta=replace(SMALL.meta, steps=4)), 2 * 5  # in mini-batches
    if method.wants_queries:
        task = replace(SMALL.task, queries=2)
        exp = replace(exp, task=task, model=Conv4(4, head=False), inner=replace(SMALL.inner, steps=1, batch=9))
        of_task = 3 * (3 + 2)  # support and queries
    exp = replace(exp, method=method)
    run_experiment(replace(exp, task=replace(exp.task, epochs=method.takes_whole_set)), tmp_path)
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    (logged,) = [line for line in lines if line["kind"] == "train"]
    lanes, tasks = 2, 2
    assert logged["images_per_second"] / logged["iterations_per_second"] == pytest.approx(lanes * tasks * of_task)


def test_memory_does_not_grow_with_the_iterations(tmp_path: Path) -> None:
    exp = replace(SMALL, meta=MetaConfig(steps=30, keep="best"), seeds=(0,))
    seen: dict[int, tuple[int, int, int]] = {}

    def report(done: int, numbers: Mapping[str, float]) -> None:
        if done in (5, 9, 29):  # each right after the iteration that follows a validation
            gc.collect()
            things = gc.get_objects()
            tensors = [thing for thing in things if type(thing) is Tensor]
            seen[done] = (len(tensors), sum(tensor.numel() for tensor in tensors), len(things))

    run_experiment(exp, tmp_path, lambda name, total: report if name == tmp_path.name else silent(name, total))
    assert seen[29][:2] == seen[9][:2] == seen[5][:2]
    assert seen[29][2] - seen[9][2] < 20  # less than one object an iteration


COMPILED = """
from dataclasses import replace
from pathlib import Path

from eigen_reptile.experiment import run_experiment
from interrupted import Interrupted, interrupt_at
from pictures import SMALL

exp = replace(SMALL, compile="on", precision="float64")
run_experiment(exp, Path("whole"))
try:
    run_experiment(exp, Path("resumed"), interrupt_at(8, Path("resumed")), checkpoint_every=4)
except Interrupted:
    run_experiment(exp, Path("resumed"))
"""


@pytest.mark.skipif(not any(map(shutil.which, ("c++", "g++", "clang++"))), reason="compiling needs a C++ compiler")
def test_compiled_training_agrees_with_plain_and_resumes_bit_for_bit(tmp_path: Path) -> None:
    # In a process of its own, without the type checks of the tests, which do not compile.
    environment = {"PYTHONPATH": str(Path(__file__).parent), "TORCHINDUCTOR_COMPILE_THREADS": "1"}
    subprocess.run([sys.executable, "-c", COMPILED], env=os.environ | environment, cwd=tmp_path, check=True)
    run_experiment(replace(SMALL, precision="float64"), tmp_path / "plain")
    whole, resumed, plain = (
        load_file(tmp_path / name / "checkpoints/step-000000020.safetensors")["theta"]
        for name in ("whole", "resumed", "plain")
    )
    assert torch.equal(whole, resumed)
    assert not torch.equal(whole, plain)  # or nothing was compiled
    torch.testing.assert_close(whole, plain, rtol=1e-6, atol=1e-8)
