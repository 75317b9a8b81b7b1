"""Evaluation against slow loops, and its fixed lists of tasks."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor, nn

from eigen_reptile import evaluate as module
from eigen_reptile.bench.conv4 import Noise
from eigen_reptile.config import Experiment, standard
from eigen_reptile.data import Bank, Samples, TaskShape
from eigen_reptile.evaluate import (
    MODES,
    EvalConfig,
    Mode,
    Scores,
    Start,
    evaluate,
    example,
    fit_one,
    interval95,
)
from eigen_reptile.inner import InnerConfig, InnerState
from eigen_reptile.learner import Learner, class_error
from eigen_reptile.methods import METHODS, Reptile
from eigen_reptile.models import Conv4
from eigen_reptile.progress import silent
from eigen_reptile.stage import Stage, prepare
from eigen_reptile.state import TrainState
from eigen_reptile.streams import Purpose, stream
from eigen_reptile.tasks import Tasks, draw_batches, sample_tasks
from pictures import Patterns

IGNORE = silent("", 0)

# Curves

CONFIG = EvalConfig(tasks=5, shots=(4,), after=(0, 2, 5))
CURVE = TaskShape(1, 4, 15)


def setting() -> tuple[Stage, Start]:
    stage = prepare(Experiment(evaluation=CONFIG, seeds=(3, 4)), silent, "cpu")
    state = TrainState.fresh(stage)
    return stage, Start(state.theta, state.memory, stage.exp.inner, stage.exp.method)


def errors(count: int = 5, purpose: Purpose = "validation") -> np.ndarray:
    stage, start = setting()
    scores = evaluate(stage.learner, stage.banks.test, start, CONFIG, purpose, CURVE, range(count), (), IGNORE)
    assert scores.columns == ("0 steps", "2 steps", "5 steps")
    return scores.values


def test_error_is_that_of_a_plain_loop() -> None:
    stage, start = setting()
    exp, found = stage.exp, errors()
    for lane in range(2):
        for number in range(5):
            task = sample_tasks(stage.banks.test, CURVE, 1, [stream(0, "validation", number)])
            net = exp.model.build((1,), 1)
            nn.utils.vector_to_parameters(start.theta[lane].clone(), net.parameters())
            optimizer = torch.optim.SGD(net.parameters(), lr=exp.inner.lr)
            for step in range(6):
                if step in CONFIG.after:
                    expected = nn.functional.mse_loss(net(task.query_x[0, 0]), task.query_y[0, 0]).item()
                    assert found[lane, number, CONFIG.after.index(step)] == pytest.approx(expected, rel=1e-4)
                optimizer.zero_grad()
                nn.functional.mse_loss(net(task.x[0, 0]), task.y[0, 0]).backward()
                optimizer.step()


def test_a_longer_list_begins_with_the_shorter() -> None:
    np.testing.assert_allclose(errors(5)[:, :3], errors(3), rtol=1e-5)


def test_test_tasks_are_not_validation_tasks() -> None:
    assert not np.isin(errors(purpose="test"), errors()).any()


def test_taking_few_tasks_at_once_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    at_once = errors()
    monkeypatch.setattr(module, "BYTES_AT_ONCE", 300_000)
    np.testing.assert_allclose(errors(), at_once, rtol=1e-5)


def test_evaluation_leaves_the_parameters_alone() -> None:
    stage, start = setting()
    before = start.theta.clone()
    fit = fit_one(stage.learner, stage.banks.validation, start, CONFIG, CURVE)
    assert torch.equal(start.theta, before)
    assert fit.curves.shape == (2, 3, 50)
    assert fit.support.shape == (2, 4)
    assert np.interp(fit.support[0], fit.x, fit.truth) == pytest.approx(fit.support[1], abs=1e-4)


# Pictures


class Exact(Bank):
    """The pictures of another bank as float64, so that no rounding blurs the comparison."""

    def __init__(self, bank: Bank) -> None:
        self.bank = bank
        self.drawn = 0

    @property
    def shape(self) -> tuple[int, ...]:
        return self.bank.shape

    def fitted(self, task: TaskShape) -> TaskShape:
        return self.bank.fitted(task)

    def draw(self, count: int, task: TaskShape, rngs: Sequence[np.random.Generator]) -> Samples:
        self.drawn += 1
        samples = self.bank.draw(count, task, rngs)
        return samples._replace(x=samples.x / 255, query_x=samples.query_x / 255)


PICTURES = EvalConfig(after=(2, 6), batch=5, seed=3)
TASK = TaskShape(way=3, shots=2, queries=3)
TASKS = 5
LANES = 2


def build() -> nn.Module:
    return Conv4(filters=4).build((3, 8, 9), 3).double()


LEARNER = Learner(build, class_error)


def picture_bank() -> Exact:
    return Exact(Patterns().load(silent).test)


def picture_start(carry: Literal["fresh", "shared"]) -> Start:
    theta = torch.stack([LEARNER.init(seed) for seed in range(LANES)])
    memory = InnerState(theta.square() * 0.01, torch.tensor([7.0, 20.0], dtype=torch.float64))
    return Start(theta, memory, InnerConfig(lr=0.02, optimizer="adam", carry=carry), Reptile())


def accuracy(
    start: Start,
    count: int = TASKS,
    modes: Sequence[Mode] = MODES,
    bank: Exact | None = None,
    purpose: Purpose = "test",
) -> Scores:
    return evaluate(LEARNER, bank or picture_bank(), start, PICTURES, purpose, TASK, range(count), modes, IGNORE)


def adapted_slowly(start: Start, lane: int, tasks: Tasks, chosen: Tensor) -> nn.Module:
    """One network, one task, one step after the other: TensorFlow's Adam without momentum, written out."""
    net = build()
    nn.utils.vector_to_parameters(start.theta[lane].clone(), net.parameters())
    fresh = start.inner.carry == "fresh"
    square = torch.zeros_like(start.theta[lane]) if fresh else start.memory.square[lane]
    done = 0 if fresh else int(start.memory.steps[lane])
    for batch in chosen:
        net.zero_grad()
        nn.functional.cross_entropy(net(tasks.x[0, 0, batch]), tasks.y[0, 0, batch]).backward()
        gradient = torch.cat([parameter.grad.flatten() for parameter in net.parameters() if parameter.grad is not None])
        done += 1
        square = 0.999 * square + 0.001 * gradient**2
        move = 0.02 * (1 - 0.999**done) ** 0.5 * gradient / (square**0.5 + 1e-8)
        theta = nn.utils.parameters_to_vector(net.parameters()).detach() - move
        nn.utils.vector_to_parameters(theta, net.parameters())
    return net


def answers_slowly(net: nn.Module, tasks: Tasks, mode: Mode) -> list[int]:
    queries = tasks.query_x[0, 0]
    if mode == "transductive":
        return [int(answer) for answer in net(queries).argmax(1)]
    return [int(net(torch.cat([tasks.x[0, 0], query[None]]))[-1].argmax()) for query in queries]


def accuracy_slowly(start: Start, lane: int, number: int, mode: Mode) -> float:
    rng = stream(PICTURES.seed, "test", number)
    tasks = sample_tasks(picture_bank(), TASK, 1, [rng], dtype=torch.float64)
    chosen = draw_batches(tasks, 6, 5, [rng]).chosen[0, 0]
    net = adapted_slowly(start, lane, tasks, chosen)
    pairs = zip(answers_slowly(net, tasks, mode), tasks.query_y[0, 0].tolist(), strict=True)
    return float(np.mean([said == true for said, true in pairs]))


@pytest.mark.parametrize("carry", ["fresh", "shared"])
def test_accuracy_is_that_of_a_slow_loop(carry: Literal["fresh", "shared"]) -> None:
    start = picture_start(carry)
    scores = accuracy(start)
    assert scores.columns == ("inductive", "transductive")
    expected = np.array(
        [
            [[accuracy_slowly(start, lane, number, mode) for mode in MODES] for number in range(TASKS)]
            for lane in range(LANES)
        ]
    )
    np.testing.assert_allclose(scores.values, expected, atol=1e-6)
    np.testing.assert_allclose(scores.of_lanes(), expected.mean(1), atol=1e-6)
    assert (expected[..., 0] != expected[..., 1]).any()  # otherwise this could not tell the modes apart


@pytest.mark.parametrize("name", [name for name, method in METHODS.items() if method.classifies])
def test_a_query_is_asked_about_with_the_support_once(name: str) -> None:
    """However a method gets to its answers, no batch of an inductive evaluation holds more than support and query."""
    sizes: list[int] = []

    class Counted(Learner):
        def output(self, theta: Tensor, x: Tensor) -> Tensor:
            sizes.append(len(x))
            return super().output(theta, x)

    exp = standard(Noise(side=16), METHODS[name], 4)
    stage = prepare(exp, silent, "cpu")
    learner = Counted(lambda: exp.model.build(stage.banks.train.shape, 5), class_error)
    state = TrainState.fresh(stage)
    start = Start(state.theta, state.memory, exp.inner, exp.method)
    config = replace(exp.evaluation, after=(1,))
    evaluate(learner, stage.banks.test, start, config, "test", TaskShape(5, 2, 3), [0], ["inductive"], IGNORE)
    assert sizes[-15:] == [5 * 2 + 1] * 15


def test_the_start_of_adams_memory_matters_only_if_it_is_shared() -> None:
    fresh, shared = picture_start("fresh"), picture_start("shared")
    emptied = shared._replace(memory=InnerState.empty(shared.theta))
    assert np.array_equal(accuracy(fresh).values, accuracy(emptied).values)
    assert not np.array_equal(accuracy(fresh).values, accuracy(shared).values)


def test_a_mode_alone_scores_as_beside_the_other() -> None:
    both = accuracy(picture_start("shared"))
    for number, mode in enumerate(MODES):
        alone = accuracy(picture_start("shared"), modes=[mode])
        assert alone.columns == (mode,)
        assert np.array_equal(alone.values[..., 0], both.values[..., number])


def test_lists_of_pictures_have_fixed_beginnings_and_ends_of_their_own() -> None:
    start = picture_start("shared")
    assert np.array_equal(accuracy(start, 12).values[:, :5], accuracy(start, 5).values)
    assert not np.array_equal(accuracy(start, 12, purpose="validation").values, accuracy(start, 12).values)


def test_the_bytes_at_once_decide_the_chunks_and_not_the_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    start, bank = picture_start("shared"), picture_bank()
    at_once = accuracy(start)
    monkeypatch.setattr(module, "BYTES_AT_ONCE", 1)
    told: list[int] = []
    found = evaluate(
        LEARNER, bank, start, PICTURES, "test", TASK, range(TASKS), MODES, lambda done, numbers: told.append(done)
    )
    assert np.array_equal(found.values, at_once.values)
    assert bank.drawn == TASKS
    assert told == list(range(1, TASKS + 1))


def test_a_small_support_is_taken_whole() -> None:
    """One shot of three classes is a batch of three, not of seven with repetitions."""
    start, one_shot = picture_start("shared"), TASK._replace(shots=1)
    found = [
        evaluate(
            LEARNER,
            picture_bank(),
            start,
            replace(PICTURES, batch=batch),
            "test",
            one_shot,
            range(TASKS),
            MODES,
            IGNORE,
        ).values
        for batch in (2, 3, 7)
    ]
    assert np.array_equal(found[1], found[2])
    assert not np.array_equal(found[0], found[1])


def test_the_example_is_a_task_with_the_answers_of_each_lane() -> None:
    start = picture_start("shared")
    task, predicted = example(LEARNER, picture_bank(), start, PICTURES, TASK)
    assert task.x.shape == (1, 1, 6, 3, 8, 9)
    rng = stream(PICTURES.seed, "picture", 0)
    tasks = sample_tasks(picture_bank(), TASK, 1, [rng], dtype=torch.float64)
    chosen = draw_batches(tasks, 6, 5, [rng]).chosen[0, 0]
    assert all(torch.equal(part, own) for part, own in zip(task, tasks, strict=True))
    for lane in range(LANES):
        net = adapted_slowly(start, lane, tasks, chosen)
        assert predicted[lane].tolist() == answers_slowly(net, tasks, "transductive")


def test_protocols() -> None:
    ours = EvalConfig(tasks=200, shots=(1, 5), queries=7, after=(30,), batch=3, every=123, seed=9)
    authors, field = ours.by_authors(), ours.by_field()
    assert (authors.tasks, authors.queries, authors.after, authors.batch) == (10_000, 1, (50,), 15)
    assert (field.tasks, field.queries) == (600, 15)
    for other in (authors, field):
        assert (other.shots, other.every, other.seed) == ((1, 5), 123, 9)


def test_interval_is_students() -> None:
    values = [3.0, 4.5, 5.0, 7.25]
    mean, half = interval95(values)
    low, high = stats.t.interval(0.95, 3, loc=np.mean(values), scale=stats.sem(values))
    assert (mean - half, mean + half) == pytest.approx((low, high))
    assert interval95([2.0]) == (2.0, float("inf"))
