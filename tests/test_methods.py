"""The contract of every method, and each rule against its formula written out."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import final

import numpy as np
import pytest
import torch
from torch import Tensor

from eigen_reptile.cli import run
from eigen_reptile.config import Experiment, MetaConfig, standard
from eigen_reptile.data import Bank, Banks, Dataset, Samples, Sine, TaskShape
from eigen_reptile.evaluate import EvalConfig, Start
from eigen_reptile.experiment import run_experiment
from eigen_reptile.inner import InnerConfig, InnerState
from eigen_reptile.methods import (
    METHODS,
    AverageGradients,
    AverageWeights,
    EigenReptile,
    Gnn,
    Iteration,
    MetaDropout,
    Metal,
    Method,
    Proposal,
    Reptile,
)
from eigen_reptile.methods.method import Moves, TrajectoryMethod, along
from eigen_reptile.models import Conv4, Mlp
from eigen_reptile.progress import Announce, silent
from eigen_reptile.stage import prepare, validate
from eigen_reptile.state import TrainState
from eigen_reptile.tasks import Batches, TaskConfig, Tasks, each_task
from eigen_reptile.train import iterate, training_data
from interrupted import Interrupted, interrupt_at
from pictures import Patterns

every_method = pytest.mark.parametrize("method", METHODS.values(), ids=METHODS.keys())
DIRECTIONS = {name: method for name, method in METHODS.items() if isinstance(method, TrajectoryMethod)}
every_direction = pytest.mark.parametrize("method", DIRECTIONS.values(), ids=DIRECTIONS.keys())


def walks(seed: int = 0, lanes: int = 2, tasks: int = 3, rows: int = 8, d: int = 20) -> Tensor:
    rng = np.random.default_rng(seed)
    steps = rng.normal(size=(lanes, tasks, rows, d)) + rng.normal(size=(lanes, tasks, 1, d))
    return torch.from_numpy(steps.cumsum(2))


def direction_of(method: TrajectoryMethod, W: Tensor) -> Tensor:
    """Where a method goes from the trajectories of a meta-batch."""
    nothing = InnerState(W.new_zeros(W.shape[:2]), W.new_zeros(W.shape[:2]))
    return method.moves(W).summed(nothing).over(W.shape[1]).direction


def has_layers(method: Method) -> bool:
    """Whether the network for pictures has layers for it."""
    return method.suggests is not None and method.suggests.model.layers != "plain"


def wants_pictures(method: Method) -> bool:
    return method.classifies or has_layers(method)


def problem(method: Method) -> Experiment:
    """The sine wave, or pictures for those that want them."""
    if not wants_pictures(method):
        return standard(Sine(), method)
    epochs = method.suggests is not None and method.suggests.epochs
    task = TaskConfig(way=3, shots=3, queries=4 if method.wants_queries else 0, epochs=epochs)
    # A learnt loss is steep to begin with, which takes smaller steps; and so does noise.
    lr = 0.1 if isinstance(method, Metal) else 0.2 if has_layers(method) else 0.5
    inner = InnerConfig(steps=3, batch=9, lr=lr)
    evaluation = EvalConfig(tasks=30, shots=(3,), queries=4, after=(3,), pictures=())
    model = replace(method.suggests.model, filters=8, pooling="same") if method.suggests else Conv4(8)
    return Experiment(method, Patterns(), model, task, inner=inner, evaluation=evaluation)


def first_update(method: Method, change: slice | list[int] = slice(None), seeds: tuple[int, ...] = (0, 1)) -> Proposal:
    """The update of a fresh network on a meta-batch of four tasks, taken in the order asked for."""
    return method.settled(first_proposal(method, change, seeds))


def first_proposal(method: Method, change: slice | list[int], seeds: tuple[int, ...] = (0, 1)) -> Proposal:
    """The same before the proposals of all workers are averaged."""
    exp = replace(problem(method), meta=MetaConfig(batch=4), seeds=seeds)
    stage = prepare(exp, silent, "cpu")
    state = TrainState.fresh(stage)
    tasks, batches = training_data(stage, 0)
    tasks, batches = Tasks(*(part[:, change] for part in tasks)), Batches(*(part[:, change] for part in batches))
    inner, step = stage.exp.inner, torch.tensor(0)
    iteration = Iteration(stage.learner, state.theta, state.memory, tasks, batches, inner, step)
    with torch.no_grad():
        return method.propose(iteration)


@cache
def usual_update(method: Method) -> Proposal:
    """The update that several tests compare with."""
    return first_update(method)


@every_method
def test_shapes_and_determinism(method: Method) -> None:
    update, again = usual_update(method), first_update(method)
    stage = prepare(problem(method), silent, "cpu")
    assert update.direction.shape == (2, len(method.init(stage.learner, 0, stage.domain)))
    assert update.direction.isfinite().all()
    assert update.direction.norm() > 0
    assert torch.equal(update.direction, again.direction)
    assert all(values.shape == (2,) for values in update.stats.values())


@every_method
def test_the_order_of_tasks_does_not_matter(method: Method) -> None:
    update, reordered = usual_update(method), first_update(method, [2, 0, 3, 1])
    torch.testing.assert_close(update.direction, reordered.direction, rtol=1e-4, atol=1e-6)


@every_method
def test_tasks_can_be_shared_out_between_workers(method: Method) -> None:
    halves = first_proposal(method, [0, 1]).plus(first_proposal(method, [2, 3])).over(2)
    torch.testing.assert_close(method.settled(halves).direction, usual_update(method).direction, rtol=1e-4, atol=1e-6)


@every_method
def test_an_interrupted_run_ends_in_the_same_bits(method: Method, tmp_path: Path) -> None:
    """With the network, but for its pooling, the outer optimiser and the clipping that suit the method on pictures."""
    begun = standard(Patterns(), method, filters=4)
    assert isinstance(begun.model, Conv4)
    exp = replace(
        begun,
        model=replace(begun.model, pooling="same"),  # the pictures are small
        task=replace(begun.task, way=3, shots=4, queries=3 if method.wants_queries else 0),
        inner=replace(begun.inner, steps=2, batch=1),
        meta=replace(begun.meta, steps=4, batch=2),
        evaluation=replace(begun.evaluation, tasks=2, monitor_tasks=2, every=2, shots=(1,), queries=2, after=(2,)),
    )
    check_resumed_in_the_same_bits(exp, tmp_path)


def check_resumed_in_the_same_bits(exp: Experiment, tmp_path: Path) -> None:
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    expected = run_experiment(exp, whole, checkpoint_every=2)
    with pytest.raises(Interrupted):
        run_experiment(exp, broken, interrupt_at(3, broken), checkpoint_every=2)
    found = run_experiment(exp, broken, checkpoint_every=2)
    last = "checkpoints/step-000000004.safetensors"
    assert (broken / last).read_bytes() == (whole / last).read_bytes()
    for part in ("lanes", "history", "choice", "test"):
        assert found[part] == expected[part]


@every_method
def test_a_lane_goes_where_it_would_go_alone(method: Method) -> None:
    together, alone = usual_update(method), first_update(method, seeds=(1,))
    torch.testing.assert_close(together.direction[1], alone.direction[0], rtol=1e-4, atol=1e-6)


@every_direction
def test_a_lane_that_is_not_finite_disturbs_no_other(method: TrajectoryMethod) -> None:
    W = walks()
    spoilt = W.clone()
    spoilt[0, 1, 1:, 3] = float("inf")
    direction = direction_of(method, spoilt)
    assert not direction[0].isfinite().all()
    assert torch.equal(direction[1], direction_of(method, W)[1])


@every_direction
def test_no_movement_is_no_update(method: TrajectoryMethod) -> None:
    direction = direction_of(method, torch.ones(1, 2, 6, 5))
    assert torch.equal(direction, torch.zeros(1, 5))


class LineBank(Bank):
    @property
    def shape(self) -> tuple[int, ...]:
        return (1,)

    def fitted(self, task: TaskShape) -> TaskShape:
        return task

    def draw(self, count: int, task: TaskShape, rngs: Sequence[np.random.Generator]) -> Samples:
        x = np.stack([rng.uniform(-1, 1, (count, task.shots, 1)) for rng in rngs]).astype(np.float32)
        offset = np.stack([rng.normal(0, 0.1, (count, 1, 1)) for rng in rngs]).astype(np.float32)
        right, classes = np.ones(x.shape[:3], dtype=bool), np.zeros((*x.shape[:2], 1), dtype=np.int64)
        return Samples(x, 2 * x + 1 + offset, x, 2 * x + 1 + offset, right, classes)


@dataclass(frozen=True)
class Lines(Dataset):
    """Tasks that are almost the same line, which a good start therefore knows beforehand."""

    @property
    def classifies(self) -> bool:
        return False

    def load(self, announce: Announce) -> Banks:
        return Banks(*[LineBank()] * 3)


def easy(method: Method) -> Experiment:
    """Lines, or pictures, that a few iterations suffice for, with step sizes one of which should suit."""
    rates = (0.5,) if wants_pictures(method) else (0.2, 1.0, 5.0)
    steps = 60 if has_layers(method) else 40 if wants_pictures(method) else 30
    meta = MetaConfig(steps=steps, batch=4, lr=rates, final_lr=max(rates))
    if method.wants_queries:
        lr = 0.02 if has_layers(method) else 0.01 if method.classifies else 0.05
        meta = replace(meta, lr=(lr,), final_lr=lr, optimizer="adam")
    if isinstance(method, Gnn):  # it takes a while to find out what labels are for, the longer the larger it is
        method, meta = Gnn(width=16, edge=8, grown=8, layers=1), replace(meta, steps=70)
    exp = problem(method)
    # One inner step suffices, and takes less to go through; but not under noise.
    if wants_pictures(method) and method.wants_queries and not isinstance(method, MetaDropout):
        evaluation = replace(exp.evaluation, after=(1,))
        exp = replace(exp, inner=replace(exp.inner, steps=1), evaluation=evaluation)
    if not wants_pictures(method):
        evaluation = replace(exp.evaluation, after=(1,), shots=(exp.task.shots,))
        exp = replace(standard(Lines(), method), model=Mlp((4,)), evaluation=evaluation)
    return replace(exp, meta=meta, seeds=(0,) if wants_pictures(method) else (0, 1, 2))


def test_without_the_sign_fix_it_is_the_same_line() -> None:
    """Which way along it, the eigen-solver has to know: so nothing can be said about learning."""
    W = walks(7, lanes=20, tasks=1)
    free, fixed = (direction_of(METHODS[name], W) for name in ("eigen-reptile-no-sign-fix", "eigen-reptile-authors"))  # type: ignore[arg-type]
    torch.testing.assert_close(free, (free * fixed).sum(-1, keepdim=True).sign() * fixed)


@pytest.mark.parametrize("name", sorted(METHODS.keys() - {"eigen-reptile-no-sign-fix"}))
def test_every_method_learns_an_easy_problem(name: str) -> None:
    """On new tasks, though of the same classes, by the method's own adaptation and answers."""
    exp = easy(METHODS[name])
    stage = prepare(exp, silent, "cpu")
    stage = stage._replace(banks=stage.banks._replace(validation=stage.banks.train))
    state = fresh = TrainState.fresh(stage)
    with torch.no_grad():
        for _ in range(exp.meta.steps):
            state, _ = iterate(stage, exp.method.propose, state, *training_data(stage, state.step))
    before, after = (
        validate(stage, Start(at.theta, at.memory, exp.inner, exp.method), 30, silent("", 0)).of_lanes()[:, -1]
        for at in (fresh, state)
    )
    before, after = (scores.reshape(len(exp.meta.lr), -1).mean(1) for scores in (before, after))  # by step size
    if exp.data.classifies:
        wrong, at_first = 1 - np.nanmax(after), 1 - before.max()
        assert wrong < 0.1
        assert wrong < 0.7 * at_first
    else:
        assert np.nanmin(after) < 0.3 * before.min()


@final
@dataclass(frozen=True)
class Halfway(TrajectoryMethod):
    """A method that somebody made up."""

    def moves(self, W: Tensor) -> Moves:
        return along((W[:, :, -1] - W[:, :, 0]) / 2)


def test_a_made_up_method_needs_its_class_and_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS, "halfway", Halfway())
    runs, report = tmp_path / "runs", tmp_path / "report"
    few = ["--evaluation.tasks", "2", "--evaluation.shots", "1", "--evaluation.after", "1", "--quiet"]
    train = ["train", "halfway", "glyphs", "--out", str(runs / "halfway"), "--meta.steps", "2", *few]
    assert run([*train, "--evaluation.monitor-tasks", "2", "--inner.steps", "2"]) == 0
    assert run(["eval", str(runs / "halfway"), "--out", str(runs / "again"), *few]) == 0
    assert run(["report", str(runs), "--out", str(report), "--quiet"]) == 0
    assert "halfway" in (report / "results.md").read_text()
    for contract in (
        test_shapes_and_determinism,
        test_the_order_of_tasks_does_not_matter,
        test_tasks_can_be_shared_out_between_workers,
        test_a_lane_goes_where_it_would_go_alone,
    ):
        contract(Halfway())
    test_an_interrupted_run_ends_in_the_same_bits(Halfway(), tmp_path)
    test_every_method_learns_an_easy_problem("halfway")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_on_a_straight_trajectory_eigen_reptile_is_reptile(dtype: torch.dtype) -> None:
    start, way = walks(1, 1, 1, 2, 300)[0, 0].to(dtype)
    at = torch.tensor([0.0, 0.1, 0.35, 0.4, 0.8, 1.0], dtype=dtype)
    W = (start + at[:, None] * way)[None, None]
    eigen = EigenReptile(include_start=True, combine="mean_of_products", length="net")
    tolerance = 1e-12 if dtype == torch.float64 else 1e-5
    for length in ("net", "path"):
        ours = direction_of(replace(eigen, length=length), W)
        torch.testing.assert_close(ours, direction_of(Reptile(), W), rtol=tolerance, atol=tolerance)


def authors_update(W: np.ndarray) -> np.ndarray:
    """What the authors' code computes for one meta-batch (tasks, rows, d): Gram matrix, path length, two means."""
    lengths, directions = [], []
    for rows in W:
        X = (rows - rows.mean(0)).T
        values, vectors = np.linalg.eig(X.T @ X)
        first = int(np.argmax(values.real))
        e = X @ vectors[:, first].real
        e = e / np.linalg.norm(e)
        lengths.append(sum(abs((rows[i + 1] - rows[i]) @ e) for i in range(len(rows) - 1)))
        half = len(rows) // 2
        towards = (rows[half:] - rows[:half]).mean(0)
        e = e * (values[first] / values.sum()).real
        directions.append(e if e @ towards > 0 else -e)
    update: np.ndarray = np.mean(lengths) * np.mean(directions, axis=0)
    return update


def test_authors_preset_is_the_authors_formula() -> None:
    W = walks(2)
    ours = direction_of(EigenReptile.authors(), W)
    for lane in range(2):
        np.testing.assert_allclose(ours[lane].numpy(), authors_update(W[lane].numpy()), rtol=1e-9)


def test_papers_preset_leaves_the_start_out_and_takes_the_net_length() -> None:
    W = walks(3, lanes=1, tasks=1)
    points = W[0, 0, 1:].numpy()
    X = points - points.mean(0)
    values, vectors = np.linalg.eigh(X.T @ X)
    e = vectors[:, -1] * np.sign(vectors[:, -1] @ (points[-3:].mean(0) - points[:3].mean(0)))
    expected = (points[-1] - points[0]) @ e * values[-1] / values.sum() * e
    np.testing.assert_allclose(direction_of(EigenReptile.paper(), W)[0].numpy(), expected, rtol=1e-9)


def test_the_two_ways_to_combine_tasks() -> None:
    W = walks(4, lanes=1)
    alone = [direction_of(EigenReptile(weighted=False), W[:, task : task + 1])[0] for task in range(3)]
    mean_of_products = direction_of(EigenReptile(weighted=False, combine="mean_of_products"), W)[0]
    torch.testing.assert_close(mean_of_products, torch.stack(alone).mean(0))
    lengths = torch.stack([single.norm() for single in alone])
    product_of_means = direction_of(EigenReptile(weighted=False), W)[0]
    units = torch.stack([single / single.norm() for single in alone])
    torch.testing.assert_close(product_of_means, lengths.mean() * units.mean(0))


def test_the_weight_is_the_share() -> None:
    W = walks(5, tasks=1)
    share = EigenReptile.authors().moves(W).stats["share"]
    plain = direction_of(replace(EigenReptile.authors(), weighted=False), W)
    torch.testing.assert_close(direction_of(EigenReptile.authors(), W), share * plain)


def test_the_averages_are_what_they_say() -> None:
    W = walks(6, lanes=1, tasks=1)
    points = W[0, 0]
    torch.testing.assert_close(direction_of(AverageWeights(), W)[0], points[1:].mean(0) - points[0])
    torch.testing.assert_close(direction_of(AverageGradients(), W)[0], (points[-1] - points[0]) / 7)
    unit = direction_of(AverageGradients(unit=True), W)[0]
    steps = points[1:] - points[:-1]
    mean = (steps / steps.norm(dim=1, keepdim=True)).mean(0)
    torch.testing.assert_close(unit, (points[-1] - points[0]).norm() * mean / mean.norm())


@pytest.mark.parametrize("carry", ["fresh", "shared"])
def test_adams_memory_is_carried_or_not(carry: str) -> None:
    exp = Experiment(method=Reptile(), meta=MetaConfig(batch=2))
    inner = replace(exp.inner, optimizer="adam", lr=1e-3, carry=carry)  # type: ignore[arg-type]
    stage = prepare(exp, silent, "cpu")
    learner, state = stage.learner, TrainState.fresh(stage)
    tasks, batches = training_data(stage, 0)
    memory = InnerState(torch.full_like(state.theta, 1e4), torch.tensor([100.0]))
    empty = Iteration(learner, state.theta, state.memory, tasks, batches, inner, torch.tensor(0))
    remembered = empty._replace(memory=memory)
    update, from_empty = (exp.method.propose(iteration) for iteration in (remembered, empty))
    assert torch.equal(update.direction, from_empty.direction) == (carry == "fresh")
    if carry == "shared":
        assert update.memory.steps.tolist() == [105.0]
        parts = [remembered._replace(tasks=one, batches=its) for one, its in each_task(tasks, batches)]
        each = [exp.method.propose(part).memory.square for part in parts]
        torch.testing.assert_close(update.memory.square, (each[0] + each[1]) / 2)
