"""Introspective self-paced learning, and plain self-paced learning: which samples they keep."""

import json
import math
from dataclasses import replace
from functools import cache
from typing import get_args

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from eigen_reptile.bench.conv4 import Noise
from eigen_reptile.config import MetaConfig, from_json, standard, to_json
from eigen_reptile.data import Dataset, Sine
from eigen_reptile.files import RunError
from eigen_reptile.inner import InnerConfig, InnerState
from eigen_reptile.learner import Learner, class_error
from eigen_reptile.methods import (
    METHODS,
    EigenReptile,
    Ispl,
    Iteration,
    Maml,
    Method,
    Reptile,
    Robust,
    Selected,
    Selector,
    SelfPaced,
)
from eigen_reptile.methods.selected import Selection, keep
from eigen_reptile.models import Conv4
from eigen_reptile.noise import NoiseConfig
from eigen_reptile.noise.config import Place
from eigen_reptile.progress import silent
from eigen_reptile.stage import prepare
from eigen_reptile.state import TrainState
from eigen_reptile.tasks import Batches, Tasks, draw_batches
from eigen_reptile.train import iterate, training_data

WAY, SAMPLES = 2, 150
INNER = InnerConfig(steps=7, batch=10, lr=0.1)


def clusters(wrong: float, seed: int) -> Tasks:
    """One task: two clusters far apart, and a share of labels told wrong."""
    generator = torch.Generator().manual_seed(seed)
    true = torch.arange(SAMPLES) % WAY
    x = 8 * nn.functional.one_hot(true, 8) + torch.randn(SAMPLES, 8, generator=generator)
    flip = torch.rand(SAMPLES, generator=generator) < wrong
    parts = (x, torch.where(flip, 1 - true, true), x[:0], true[:0], ~flip, torch.arange(WAY))
    return Tasks(*(part[None, None] for part in parts))


LEARNER = Learner(lambda: nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, WAY)), class_error)


@torch.no_grad()
def selected(selector: Selector, tasks: Tasks, seed: int, step: int = 0, inner: InnerConfig = INNER) -> Selection:
    theta = LEARNER.init(seed)[None]
    batches = draw_batches(tasks, selector.batches(inner), inner.batch, [np.random.default_rng(seed)])
    return selector.select(
        Iteration(LEARNER, theta, InnerState.empty(theta), tasks, batches, inner, torch.tensor(step))
    )


@pytest.mark.parametrize("wrong", [0.1, 0.2])
@pytest.mark.parametrize(
    "inner",
    [INNER, InnerConfig(), replace(INNER, lr=0.02), *(replace(INNER, optimizer="adam", lr=lr) for lr in (0.005, 0.01))],
    ids=str,
)
def test_wrong_labels_are_found(inner: InnerConfig, wrong: float) -> None:
    stats = [selected(Ispl(), clusters(wrong, seed), seed, inner=inner).stats for seed in range(10)]
    kept, told_wrong, found = (sum(float(s[name]) for s in stats) for name in ("kept", "wrong", "wrong_discarded"))
    assert found / (10 - kept) > 0.9
    assert found / told_wrong > 0.8


@pytest.mark.parametrize("lr", [1e-4, 0.002])
def test_priors_that_could_not_learn_much_drop_little_that_is_right(lr: float) -> None:
    inner = replace(INNER, optimizer="adam", lr=lr)
    stats = [selected(Ispl(), clusters(0.2, seed), seed, inner=inner).stats for seed in range(10)]
    kept, found = (sum(float(s[name]) for s in stats) for name in ("kept", "wrong_discarded"))
    assert found / (10 - kept) > 0.9


def test_a_loss_counts_only_where_it_has_grown() -> None:
    """With a threshold that everything exceeds, what is dropped are the samples whose loss grew, and no others."""
    tasks = clusters(0.2, 3)
    ispl = Ispl(gamma=1e-9)
    theta = LEARNER.init(3)[None]
    batches = draw_batches(tasks, ispl.batches(INNER), INNER.batch, [np.random.default_rng(3)])
    candidates = batches.chosen.flatten()
    half = len(candidates) // 2
    grew = torch.zeros(len(candidates), dtype=torch.bool)
    for learnt, asked in ((slice(half), slice(half, None)), (slice(half, None), slice(half))):
        network = LEARNER.init(3)
        for step in range(INNER.steps + ispl.extra_steps):
            places = [(step * INNER.batch + i) % half for i in range(INNER.batch)]
            chosen = candidates[learnt][places]
            gradient = LEARNER.gradient(
                network[None, None], tasks.x[:, :, chosen], tasks.y[:, :, chosen], torch.ones(1, 1, INNER.batch)
            )
            network = network - INNER.lr * gradient[0, 0]
        about = tasks.x[0, 0, candidates[asked]], tasks.y[0, 0, candidates[asked]]
        before, after = (class_error(LEARNER.output(point, about[0]), about[1]) for point in (theta[0], network))
        grew[asked] = after > before
    with torch.no_grad():
        found = ispl.select(Iteration(LEARNER, theta, InnerState.empty(theta), tasks, batches, INNER, torch.tensor(0)))
    assert 0 < grew.sum() <= len(grew) - INNER.steps * INNER.batch
    assert found.batches.chosen.flatten().tolist() == candidates[~grew][: INNER.steps * INNER.batch].tolist()


GRADIENT_BASED = {name: method for name, method in METHODS.items() if isinstance(method, Maml)}


@pytest.mark.parametrize("method", GRADIENT_BASED.values(), ids=GRADIENT_BASED.keys())
def test_methods_that_go_down_gradients_learn_from_what_is_kept(method: Method) -> None:
    """The direction is the one that the method alone takes from the mini-batches that the selector makes."""
    chooses = Selected(method, Ispl())
    exp = standard(Noise(side=16), chooses, 4)
    exp = replace(exp, task=replace(exp.task, shots=10), inner=replace(exp.inner, steps=3, batch=5))
    stage = prepare(replace(exp, meta=replace(exp.meta, batch=2)), silent, "cpu")
    state = TrainState.fresh(stage)
    iteration = Iteration(
        stage.learner, state.theta, state.memory, *training_data(stage, 0), exp.inner, torch.tensor(0)
    )
    with torch.no_grad():
        found = chooses.settled(chooses.propose(iteration))
        kept = Ispl().select(iteration).batches
        alone = method.settled(method.propose(iteration._replace(batches=kept)))
    assert torch.equal(found.direction, alone.direction)
    assert found.direction.shape == state.theta.shape
    assert 0 < float(found.stats["kept"]) < 1


def test_what_is_kept_is_cleaner_than_what_there_was() -> None:
    for selector in (Ispl(), Ispl.authors_bytecode(), SelfPaced()):
        picked = [selected(selector, clusters(0.3, seed), seed) for seed in range(10)]
        before = np.mean([float(1 - one.stats["wrong"]) for one in picked])
        after = np.mean([one.batches.right.double().mean().item() for one in picked])
        assert after > before + 0.05, selector


def test_if_all_looks_wrong_a_mini_batch_is_kept() -> None:
    picked = selected(Ispl(gamma=1e-9, grown=False), clusters(0.2, 0), 0)
    assert float(picked.stats["kept"]) == pytest.approx(INNER.batch / 120)
    assert picked.batches.chosen.shape == (1, 1, INNER.steps, INNER.batch)
    assert len(set(picked.batches.chosen.flatten().tolist())) == INNER.batch


def test_a_loss_that_is_no_number_is_dropped_first() -> None:
    inner = InnerConfig(steps=1, batch=2)
    chosen = torch.arange(8)[None, None]
    candidates = Batches(chosen, chosen % 5, torch.ones(chosen.shape), chosen % 2 == 0)
    losses = torch.tensor([0.1, math.nan, 5, 0.2, math.inf, 6, 0.3, 0.4])[None, None]
    assert float(keep(candidates, losses, torch.tensor(2.0), inner).stats["kept"]) == 0.5
    assert keep(candidates, losses, torch.tensor(math.inf), inner).stats["kept"] == 1


DATA: dict[str, tuple[Dataset, NoiseConfig]] = {
    "sine": (Sine(), NoiseConfig()),
    **{place: (Noise(side=8), NoiseConfig("symmetric", 0.3, place)) for place in get_args(Place)},
}


@cache
def parameters_after(method: Method, problem: str, steps: int = 3) -> Tensor:
    data, noise = DATA[problem]
    exp = replace(standard(data, method), meta=MetaConfig(batch=2), noise=noise)
    exp = replace(exp, task=replace(exp.task, shots=150 // exp.task.way))
    if problem != "sine":
        exp = replace(exp, model=Conv4(filters=4))
    stage = prepare(exp, silent, "cpu")
    state = TrainState.fresh(stage)
    with torch.no_grad():
        for _ in range(steps):
            state, _ = iterate(stage, method.propose, state, *training_data(stage, state.step))
    return state.theta


@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("selector", [Ispl(), Ispl.paper(), SelfPaced()], ids=["default", "paper", "self-paced"])
@pytest.mark.parametrize("method", [Reptile(), EigenReptile()], ids=["reptile", "eigen-reptile"])
def test_without_a_threshold_it_is_the_method_itself_bit_for_bit(method: Method, selector: Selector, data: str) -> None:
    endless = replace(selector, **{"start" if isinstance(selector, SelfPaced) else "gamma": math.inf})
    with_selector = parameters_after(Selected(method, endless), data)
    assert torch.equal(with_selector, parameters_after(method, data))
    assert not torch.equal(with_selector, parameters_after(Selected(method, Ispl(gamma=0.5)), data))


def test_gamma_falls_in_stairs_down_to_its_floor_and_knows_only_the_iteration() -> None:
    ispl = Ispl.paper()
    at = {step: float(ispl.gamma_at(torch.tensor(step))) for step in (0, 999, 1000, 2500, 100_000)}
    expected = {0: 10.0, 999: 10.0, 1000: 9.4, 2500: 8.8, 100_000: math.log(5)}
    assert at == pytest.approx(expected)
    growing = [
        float(SelfPaced(start=1.0, growth=2.0, every=10).threshold(torch.tensor(step))) for step in (0, 9, 10, 25)
    ]
    assert growing == [1.0, 1.0, 2.0, 4.0]


def slowly_kept(losses: list[float], gamma: float, least: int, discard: str) -> list[int]:
    """Which are kept, by sorting and counting."""
    ascending = sorted(range(len(losses)), key=lambda place: losses[place])
    hard = min(sum(loss >= gamma for loss in losses), len(losses) - least)
    kept = ascending[: len(losses) - hard] if discard == "hardest" else ascending[hard:]
    return sorted(kept)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.floats(0, 5, width=32, allow_subnormal=False), min_size=12, max_size=12, unique=True),
    st.floats(0, 6, width=32, allow_subnormal=False),
    st.sampled_from(["hardest", "easiest"]),
    st.sampled_from(["drawn", "easiest-first"]),
)
def test_keep_against_counting(losses: list[float], gamma: float, discard: str, order: str) -> None:
    inner = InnerConfig(steps=3, batch=3)
    chosen = torch.arange(100, 112)[None, None]
    candidates = Batches(chosen, chosen % 5, torch.ones(chosen.shape), chosen % 2 == 0)
    found = keep(candidates, torch.tensor(losses)[None, None], torch.tensor(gamma), inner, order, discard)  # type: ignore[arg-type]
    kept = slowly_kept(losses, gamma, 3, discard)
    turns = kept if order == "drawn" else sorted(kept, key=lambda place: losses[place])
    expected = [100 + turns[turn % len(turns)] for turn in range(9)]
    assert found.batches.chosen.flatten().tolist() == expected
    assert found.batches.y.flatten().tolist() == [number % 5 for number in expected]
    assert float(found.stats["kept"]) == pytest.approx(len(kept) / 12)
    assert float(found.stats["wrong_discarded"]) == pytest.approx(sum(p % 2 for p in range(12) if p not in kept) / 12)


def test_no_prior_is_asked_about_what_it_has_learnt() -> None:
    """With one label turned over, the losses of the other half change, and of its own half only its own."""
    ispl, tasks = Ispl(grown=False), clusters(0.0, 0)
    asked: list[Tensor] = []

    class Heard(Learner):
        def losses(self, theta: Tensor, x: Tensor, y: Tensor) -> Tensor:
            asked.append(super().losses(theta, x, y)[0, 0])
            return asked[-1]

    def heard(turned: int | None) -> list[Tensor]:
        """What both priors say of the half of the candidates that they have not learnt."""
        asked.clear()
        batches = draw_batches(tasks, ispl.batches(INNER), INNER.batch, [np.random.default_rng(0)])
        if turned is not None:
            batches.y.flatten(2)[0, 0, turned] ^= 1
        theta = LEARNER.init(0)[None]
        learner = Heard(LEARNER._build, class_error)
        with torch.no_grad():
            ispl.select(Iteration(learner, theta, InnerState.empty(theta), tasks, batches, INNER, torch.tensor(0)))
        return list(asked)

    before, after = heard(None), heard(3)
    assert all(len(losses) == 60 for losses in before)
    assert not torch.equal(before[0], after[0])  # the first prior learnt it, and judges the second half
    same = before[1] == after[1]
    assert same.sum() == 59  # the second never saw it: only what it says of the turned label itself is new
    assert not same[3]


def test_precision_and_recall_come_from_shares() -> None:
    stats = {"kept": 0.75, "wrong": 0.5, "wrong_discarded": 0.2, "length": 1.0}
    summary = METHODS["reptile-ispl"].summary(stats)
    assert summary["precision"] == pytest.approx(0.8)
    assert summary["recall"] == pytest.approx(0.4)
    assert "precision" not in METHODS["reptile-ispl"].summary({"kept": 1.0, "wrong": 0.0, "wrong_discarded": 0.0})


def test_too_few_samples_are_refused_with_what_to_do() -> None:
    exp = standard(Sine(), METHODS["eigen-reptile-ispl"])
    with pytest.raises(RunError, match=r"--task.shots 100 or more"):
        prepare(replace(exp, task=replace(exp.task, shots=50)), silent, "cpu")


@pytest.mark.parametrize(
    "settings", [{"priors": 0}, {"gamma": 0.0}, {"decay": -1.0}, {"every": 0}, {"priors": 1}, {"sharing": "shared"}]
)
def test_impossible_settings(settings: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"must be"):
        Ispl(**settings)  # type: ignore[arg-type]


def test_what_cannot_select_is_refused() -> None:
    with pytest.raises(ValueError, match="one selector is enough"):
        Selected(METHODS["reptile-ispl"], Ispl())
    with pytest.raises(ValueError, match="for a robust method, not the other way"):
        Robust(METHODS["reptile-ispl"])
    with pytest.raises(ValueError, match="this method has no inner loop"):
        Selected(Robust(METHODS["prototypical"]), SelfPaced())
    with pytest.raises(ValueError, match="40 priors cannot share 30 samples"):
        standard(Sine(), Selected(Reptile(), Ispl(priors=40, prior_batches=3)))


def test_no_threshold_survives_json() -> None:
    exp = standard(Sine(), Selected(Reptile(), Ispl(gamma=math.inf)))
    assert from_json(json.loads(json.dumps(to_json(exp), allow_nan=False))) == exp
