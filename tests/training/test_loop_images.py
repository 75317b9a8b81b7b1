"""Training on images: the best checkpoint, early stopping, throughput and memory."""

import gc
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from eigen_reptile.data import TaskShape
from eigen_reptile.inner import InnerState
from eigen_reptile.methods import METHODS
from eigen_reptile.nn import Conv4
from eigen_reptile.runtime.process import configure_process
from eigen_reptile.runtime.progress import no_progress
from eigen_reptile.training.config import Experiment, MetaConfig
from eigen_reptile.training.data import TrainingData
from eigen_reptile.training.evaluate import Initialisation, evaluate
from eigen_reptile.training.experiment import read_examples, run
from eigen_reptile.training.illustrate import predict_example
from eigen_reptile.training.loop import iterate
from eigen_reptile.training.query_batches import Mode
from eigen_reptile.training.result import Result
from eigen_reptile.training.setup import Setup, set_up
from eigen_reptile.training.state import BestSoFar, TrainState
from interrupted import Interrupted, interrupt_at
from patterns import SMALL


def by_hand(exp: Experiment) -> tuple[Setup, list[TrainState]]:
    """The state after each iteration, without anything else that `train` does."""
    configure_process()
    setup = set_up(exp, no_progress, "cpu")
    data, states = TrainingData(setup), [TrainState.fresh(setup)]
    with torch.no_grad():
        for _ in range(exp.meta.steps):
            states.append(iterate(setup, exp.method.meta_update, states[-1], *data.at(states[-1].step))[0])
    return setup, states


def scores(setup: Setup, kept: TrainState | BestSoFar, split: Literal["validation", "test"], shots: int) -> np.ndarray:
    """Accuracies (S, T, K) on all tasks of a split; the test's also in the inductive mode."""
    config = setup.exp.evaluation
    count = config.monitor_tasks if split == "validation" else config.tasks
    modes: Sequence[Mode] = ("transductive",) if split == "validation" else ("inductive", "transductive")
    initialisation = Initialisation(kept.theta, kept.inner_state, setup.exp.inner, setup.exp.method)
    shape = TaskShape(setup.exp.task.way, shots, config.queries)
    bank = getattr(setup.banks, split)
    return evaluate(
        setup.network, bank, initialisation, config, split, shape, range(count), modes, no_progress("", 0)
    ).values


def assert_tested(result: Result, setup: Setup, kept: TrainState | BestSoFar) -> None:
    assert result.test is not None
    for test, shots in zip(result.test, (1, 2), strict=True):
        assert (test.shots, test.queries, test.tasks) == (shots, 3, 4)
        expected = np.moveaxis(scores(setup, kept, "test", shots), 2, 0)
        assert test.per_task is not None
        np.testing.assert_allclose(np.array(test.per_task, dtype=float), expected, atol=1e-4)
        assert test.mean == pytest.approx(expected.mean((1, 2)), rel=1e-5)


def test_the_best_point_of_the_learning_curve_is_kept_and_tested(tmp_path: Path) -> None:
    setup, states = by_hand(SMALL)
    curve = np.stack([scores(setup, state, "validation", 1).mean((1, 2)) for state in states[::4]]).astype(np.float32)
    result = run(SMALL, tmp_path / "best")
    assert result.measure == "accuracy"
    assert result.learning_curve.step == tuple(range(0, 21, 4))
    np.testing.assert_allclose(np.array(result.learning_curve.score, dtype=float), curve, rtol=1e-5)

    at = 4 * curve.argmax(0)
    assert len({*at, 0, 20}) == 4  # otherwise this test could confuse the replicas, or the best with the last
    assert [replica.best_at for replica in result.replicas] == at.tolist()
    found = load_file(tmp_path / "best/checkpoints/step-000000020.safetensors")
    at_best = [states[step] for step in at]
    best = BestSoFar(
        torch.stack([state.theta[replica] for replica, state in enumerate(at_best)]),
        InnerState(
            torch.stack([state.inner_state.square[replica] for replica, state in enumerate(at_best)]),
            torch.stack([state.inner_state.steps[replica] for replica, state in enumerate(at_best)]),
        ),
        torch.from_numpy(curve.max(0)),
        torch.from_numpy(at),
    )
    expected = states[-1]._replace(best=best).tensors()
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        assert torch.equal(found[name], tensor), name
    assert_tested(result, setup, best)

    shown = read_examples(tmp_path / "best")
    assert shown is not None
    inner_state = InnerState(*(part[:1] for part in best.inner_state))
    first = Initialisation(best.theta[:1], inner_state, SMALL.inner, SMALL.method)
    task, predicted = predict_example(setup.network, setup.banks.test, first, SMALL.evaluation, TaskShape(3, 1, 3))
    for name, images in (("support", task.x), ("query", task.query_x)):
        assert np.array_equal(shown[name], images[0, 0])
    assert np.array_equal(shown["query_y"], task.query_y[0, 0])
    assert np.array_equal(shown["predicted"], predicted[0])
    assert np.array_equal(shown["classes"], task.classes[0, 0])

    last = replace(SMALL, meta=replace(SMALL.meta, keep="last"))
    assert_tested(run(last, tmp_path / "last"), setup, states[-1])


def test_replicas_on_images_train_as_they_would_alone() -> None:
    together = replace(SMALL, meta=replace(SMALL.meta, steps=3, lr=(0.5, 1.0)))
    _, states = by_hand(together)
    for number, replica in enumerate(together.replicas):
        _, alone = by_hand(replace(together, meta=replace(together.meta, lr=(replica.lr,)), seeds=(replica.seed,)))
        torch.testing.assert_close(states[-1].theta[number], alone[-1].theta[0], rtol=1e-4, atol=1e-6)
        torch.testing.assert_close(
            states[-1].inner_state.square[number], alone[-1].inner_state.square[0], rtol=1e-3, atol=1e-9
        )


def test_patience_stops_at_the_same_iteration_after_an_interruption(tmp_path: Path) -> None:
    patience, few = 2, replace(SMALL.evaluation, tasks=2, shots=(1,))
    patient = replace(SMALL, meta=replace(SMALL.meta, steps=40, patience=patience), evaluation=few)
    impatient = replace(patient, meta=replace(patient.meta, patience=0))
    curve = np.array(run(impatient, tmp_path / "whole").learning_curve.score, dtype=float)
    best_so_far = np.array([curve[: point + 1].argmax(0) for point in range(len(curve))])
    since_any_replica_improved = np.arange(len(curve)) - best_so_far.max(1)
    stop = int(np.flatnonzero(since_any_replica_improved >= patience)[0])
    assert patience < stop < len(curve) - 1  # neither at once nor at the end

    stopped = run(patient, tmp_path / "stopped")
    assert stopped.steps == 4 * stop
    assert np.array_equal(np.array(stopped.learning_curve.score, dtype=float), curve[: stop + 1])

    folder = tmp_path / "broken"
    for step in (6, 4 * stop):  # between two validations, and after the last iteration but before the result
        with pytest.raises(Interrupted):
            run(patient, folder, interrupt_at(step, folder), checkpoint_every=5)
    continued = run(patient, folder)
    name = f"checkpoints/step-{4 * stop:09d}.safetensors"
    assert (folder / name).read_bytes() == (tmp_path / "stopped" / name).read_bytes()
    for name in ("steps", "replicas", "choice", "test"):
        assert getattr(continued, name) == getattr(stopped, name)
    assert continued.learning_curve.step == stopped.learning_curve.step
    assert continued.learning_curve.score == stopped.learning_curve.score


@pytest.mark.parametrize("name", ["reptile", "prototypical", "mixtfsl"])
def test_images_per_second_counts_the_images_that_pass_through_the_network(name: str, tmp_path: Path) -> None:
    method = METHODS[name]
    exp, of_task = replace(SMALL, meta=replace(SMALL.meta, steps=4)), 2 * 5  # in mini-batches
    if method.requirements.queries:
        task = replace(SMALL.task, queries=2)
        exp = replace(exp, task=task, model=Conv4(4, head=False), inner=replace(SMALL.inner, steps=1, batch=9))
        of_task = 3 * (3 + 2)  # support and queries
    exp = replace(exp, method=method)
    run(replace(exp, task=replace(exp.task, epochs=method.requirements.supports_epochs)), tmp_path)
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    (logged,) = [line for line in lines if line["kind"] == "train"]
    replicas, tasks = 2, 2
    assert logged["images_per_second"] / logged["iterations_per_second"] == pytest.approx(replicas * tasks * of_task)


def test_memory_does_not_grow_with_the_iterations(tmp_path: Path) -> None:
    exp = replace(SMALL, meta=MetaConfig(steps=22, keep="best"), seeds=(0,))
    seen: dict[int, tuple[int, int, int]] = {}

    def report(done: int, metrics: Mapping[str, float]) -> None:
        if done in (5, 9, 21):  # always the first iteration after a validation
            gc.collect()
            objects = gc.get_objects()
            tensors = [one for one in objects if type(one) is Tensor]
            seen[done] = (len(tensors), sum(tensor.numel() for tensor in tensors), len(objects))

    run(exp, tmp_path, lambda name, total: report if name == tmp_path.name else no_progress(name, total))
    assert seen[21][:2] == seen[9][:2] == seen[5][:2]
    assert seen[21][2] - seen[9][2] < 12  # less than one object per iteration
