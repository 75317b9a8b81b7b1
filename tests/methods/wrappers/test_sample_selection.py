"""Methods that learn from selected samples: what is kept, and what follows for the method."""

import json
import math
from dataclasses import replace
from functools import cache
from typing import Literal, get_args

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch import Tensor

from eigen_reptile.data import Dataset, Sine
from eigen_reptile.inner import InnerConfig
from eigen_reptile.methods import (
    METHODS,
    EigenReptile,
    GradientMethod,
    Ispl,
    MetaBatch,
    Method,
    Reptile,
    RobustLoss,
    SampleSelector,
    SelfPaced,
    WithSampleSelection,
)
from eigen_reptile.methods.wrappers.sample_selection import select_low_loss, selection_scores
from eigen_reptile.nn import Conv4
from eigen_reptile.noise import NoiseConfig
from eigen_reptile.noise.config import NoiseLocation
from eigen_reptile.runtime.progress import no_progress
from eigen_reptile.tasks import Batches
from eigen_reptile.training.config import MetaConfig
from eigen_reptile.training.data import TrainingData
from eigen_reptile.training.loop import iterate
from eigen_reptile.training.presets import preset
from eigen_reptile.training.serialise import from_json, to_json
from eigen_reptile.training.setup import set_up
from eigen_reptile.training.state import TrainState
from noisy_clusters import clusters, selected
from patterns import Patterns

MANY = Patterns(classes=20, images=40)
WITH_INNER_GRADIENTS = {
    name: method
    for name, method in METHODS.items()
    if isinstance(method, GradientMethod) and method.requirements.inner_loop
}


@pytest.mark.parametrize("method", WITH_INNER_GRADIENTS.values(), ids=WITH_INNER_GRADIENTS.keys())
def test_gradient_methods_learn_from_what_is_kept(method: Method) -> None:
    """The direction is that of the method alone on the mini-batches that the selector makes."""
    selecting = WithSampleSelection(method, Ispl())
    exp = preset(replace(MANY, side=16), selecting, 4)
    exp = replace(exp, task=replace(exp.task, shots=10), inner=replace(exp.inner, steps=3, batch=5))
    exp = replace(exp, meta=replace(exp.meta, batch=2), compile="off")
    setup = set_up(exp, no_progress, "cpu")
    state = TrainState.fresh(setup)
    data = TrainingData(setup).at(0)
    batch = MetaBatch(setup.network, state.theta, state.inner_state, *data, exp.inner, torch.tensor(0))
    with torch.no_grad():
        found = selecting.meta_update(batch)
        kept = Ispl().select(batch).batches
        alone = method.meta_update(batch._replace(batches=kept))
    assert torch.equal(found.direction, alone.direction)
    assert found.direction.shape == state.theta.shape
    assert 0 < float(found.means["kept"]) < 1


def test_what_is_kept_is_cleaner_than_the_candidates() -> None:
    for selector in (Ispl(), Ispl.authors(), SelfPaced()):
        picked = [selected(selector, clusters(0.3, seed), seed) for seed in range(10)]
        before = np.mean([float(1 - one.stats["wrong"]) for one in picked])
        after = np.mean([one.batches.is_clean.double().mean().item() for one in picked])
        assert after > before + 0.05, selector


def test_a_loss_that_is_not_a_number_is_discarded_first() -> None:
    inner = InnerConfig(steps=1, batch=2)
    chosen = torch.arange(8)[None, None]
    candidates = Batches(chosen, chosen % 5, torch.ones(chosen.shape), chosen % 2 == 0)
    losses = torch.tensor([0.1, math.nan, 5, 0.2, math.inf, 6, 0.3, 0.4])[None, None]
    assert float(select_low_loss(candidates, losses, torch.tensor(2.0), inner).stats["kept"]) == 0.5
    assert select_low_loss(candidates, losses, torch.tensor(math.inf), inner).stats["kept"] == 1


PROBLEMS: dict[str, tuple[Dataset, NoiseConfig]] = {
    "sine": (Sine(), NoiseConfig()),
    **{place: (MANY, NoiseConfig("symmetric", 0.3, place)) for place in get_args(NoiseLocation)},
}


@cache
def parameters_after(method: Method, problem: str, steps: int = 2) -> Tensor:
    data, noise = PROBLEMS[problem]
    exp = replace(preset(data, method), meta=MetaConfig(batch=2), noise=noise, compile="off")
    exp = replace(exp, task=replace(exp.task, shots=150 // exp.task.way))
    if problem != "sine":
        exp = replace(exp, model=Conv4(filters=4), inner=replace(exp.inner, steps=3))
    setup = set_up(exp, no_progress, "cpu")
    state, training_data = TrainState.fresh(setup), TrainingData(setup)
    with torch.no_grad():
        for _ in range(steps):
            state, _ = iterate(setup, method.meta_update, state, *training_data.at(state.step))
    return state.theta


ENDLESS: dict[str, SampleSelector] = {
    "default": Ispl(gamma=math.inf),
    "paper": replace(Ispl.paper(), gamma=math.inf),
    "self-paced": SelfPaced(start=math.inf),
}
"""Selectors whose threshold nothing exceeds."""


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("selector", ENDLESS.values(), ids=ENDLESS.keys())
@pytest.mark.parametrize("method", [Reptile(), EigenReptile()], ids=["reptile", "eigen-reptile"])
def test_without_a_threshold_it_is_the_method_itself_bit_for_bit(
    method: Method, selector: SampleSelector, problem: str
) -> None:
    without_threshold = parameters_after(WithSampleSelection(method, selector), problem)
    assert torch.equal(without_threshold, parameters_after(method, problem))
    assert not torch.equal(without_threshold, parameters_after(WithSampleSelection(method, Ispl(gamma=0.5)), problem))


def slowly_kept(losses: list[float], gamma: float, least: int, discard: str) -> list[int]:
    """What is kept, by sorting and counting."""
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
def test_keep_against_counting(
    losses: list[float],
    gamma: float,
    discard: Literal["hardest", "easiest"],
    order: Literal["drawn", "easiest-first"],
) -> None:
    inner = InnerConfig(steps=3, batch=3)
    chosen = torch.arange(100, 112)[None, None]
    candidates = Batches(chosen, chosen % 5, torch.ones(chosen.shape), chosen % 2 == 0)
    found = select_low_loss(candidates, torch.tensor(losses)[None, None], torch.tensor(gamma), inner, order, discard)
    kept = slowly_kept(losses, gamma, 3, discard)
    in_order = kept if order == "drawn" else sorted(kept, key=lambda place: losses[place])
    expected = [100 + in_order[number % len(in_order)] for number in range(9)]
    assert found.batches.chosen.flatten().tolist() == expected
    assert found.batches.y.flatten().tolist() == [number % 5 for number in expected]
    assert float(found.stats["kept"]) == pytest.approx(len(kept) / 12)
    assert float(found.stats["wrong_discarded"]) == pytest.approx(sum(p % 2 for p in range(12) if p not in kept) / 12)


def test_precision_and_recall_come_from_fractions() -> None:
    scores = selection_scores({"kept": 0.75, "wrong": 0.5, "wrong_discarded": 0.2, "length": 1.0})
    assert scores == pytest.approx({"precision": 0.8, "recall": 0.4})
    assert selection_scores({"kept": 1.0, "wrong": 0.0, "wrong_discarded": 0.0}) == {}
    assert selection_scores({"length": 1.0}) == {}


def test_too_few_samples_are_refused_with_the_remedy() -> None:
    exp = preset(Sine(), METHODS["eigen-reptile-ispl"])
    with pytest.raises(ValueError, match=r"`task\.shots` must be at least 100"):
        set_up(replace(exp, task=replace(exp.task, shots=50)), no_progress, "cpu")


def test_what_cannot_be_wrapped_is_refused() -> None:
    with pytest.raises(ValueError, match="one selector only"):
        WithSampleSelection(METHODS["reptile-ispl"], Ispl())
    with pytest.raises(ValueError, match="has no inner loop"):
        WithSampleSelection(RobustLoss(METHODS["prototypical"]), SelfPaced())
    with pytest.raises(ValueError, match="40 is too large for 30 samples"):
        preset(Sine(), WithSampleSelection(Reptile(), Ispl(priors=40, prior_batches=3)))


def test_an_infinite_threshold_survives_json() -> None:
    exp = preset(Sine(), WithSampleSelection(Reptile(), Ispl(gamma=math.inf)))
    assert from_json(json.loads(json.dumps(to_json(exp), allow_nan=False))) == exp
