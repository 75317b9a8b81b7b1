"""The benchmarks compare like with like: plain PyTorch and the peers compute the library's update."""

import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from multiprocessing import active_children

import pytest
import torch
from torch import Tensor, nn

from eigen_reptile.bench import turns
from eigen_reptile.bench.contenders import (
    Reptile,
    higher_reptile,
    jax_meta,
    library_stage,
    optimizers_of,
    plain_data,
    plain_reptile,
    torchopt_reptile,
)
from eigen_reptile.bench.conv4 import arithmetic, experiment, plain_conv4
from eigen_reptile.bench.ispl import priors
from eigen_reptile.bench.maml import experiment as maml_experiment
from eigen_reptile.bench.maml import higher_maml, torchopt_maml
from eigen_reptile.bench.turns import Entry, race
from eigen_reptile.config import Experiment, MetaConfig
from eigen_reptile.files import RunError
from eigen_reptile.inner import InnerState
from eigen_reptile.learner import Learner, class_error
from eigen_reptile.methods import METHODS, Ispl, Iteration
from eigen_reptile.models import Conv4
from eigen_reptile.progress import Report, silent
from eigen_reptile.stage import prepare
from eigen_reptile.state import TrainState
from eigen_reptile.tasks import TaskConfig
from eigen_reptile.train import iterate, training_data

SINE = replace(Experiment(method=METHODS["reptile"], meta=MetaConfig(batch=5, lr=(0.1,))), precision="float64")
PICTURES = replace(experiment(12, 1, 4), precision="float64")
# Adam as TensorFlow has it, which is ours, and as PyTorch has it differ only in where this is added.
PICTURES = replace(PICTURES, inner=replace(PICTURES.inner, eps=1e-14))


@pytest.mark.parametrize(
    ("exp", "build", "reptile"),
    [
        (SINE, lambda: SINE.model.build((1,), 1), plain_reptile),
        (PICTURES, lambda: PICTURES.model.build((1, 12, 12), 5), plain_reptile),
        (PICTURES, lambda: PICTURES.model.build((1, 12, 12), 5), higher_reptile),
        (PICTURES, lambda: PICTURES.model.build((1, 12, 12), 5), torchopt_reptile),
    ],
    ids=["plain, sine", "plain", "higher", "torchopt"],
)
def test_all_take_the_same_step(exp: Experiment, build: Callable[[], nn.Module], reptile: Reptile) -> None:
    stage = prepare(exp, silent, "cpu")
    state = TrainState.fresh(stage)
    module = build().double()
    nn.utils.vector_to_parameters(state.theta[0].clone(), module.parameters())
    after, _ = iterate(stage, exp.method.propose, state, *training_data(stage, state.step))
    loss = nn.CrossEntropyLoss() if exp.data.classifies else nn.MSELoss()
    reptile(module, *plain_data(stage, 0), optimizers_of(exp), loss, exp.meta.lr[0])
    theta = nn.utils.parameters_to_vector(module.parameters()).detach()
    moved = after.theta[0] - state.theta[0]
    # TorchOpt counts steps in float32, whatever the rest is in.
    torch.testing.assert_close(theta - state.theta[0], moved, rtol=0, atol=1e-4 * moved.abs().max().item())


MAML = replace(maml_experiment(12, 3), precision="float64", model=Conv4(4))
MAML = replace(MAML, meta=replace(MAML.meta, batch=2, lr=(0.1,)))


@pytest.mark.parametrize("peer", [higher_maml, torchopt_maml], ids=["higher", "torchopt"])
def test_the_peers_maml_takes_the_same_step(peer: Reptile) -> None:
    stage = prepare(MAML, silent, "cpu")
    state = TrainState.fresh(stage)
    module = MAML.model.build((3, 12, 12), 5).double()
    nn.utils.vector_to_parameters(state.theta[0].clone(), module.parameters())
    with torch.no_grad():
        after, _ = iterate(stage, MAML.method.propose, state, *training_data(stage, state.step))
    peer(module, *plain_data(stage, 0), optimizers_of(MAML), nn.CrossEntropyLoss(), MAML.meta.lr[0])
    theta = nn.utils.parameters_to_vector(module.parameters()).detach()
    torch.testing.assert_close(theta - state.theta[0], after.theta[0] - state.theta[0], rtol=1e-6, atol=1e-10)


def nap(seconds: object) -> Entry:
    """Whose process need not import these tests."""
    return Entry(partial(partial, time.sleep, seconds))  # type: ignore[arg-type]


def test_a_race_counts_calls_and_takes_ratios(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "SECONDS_PER_TURN", 0.1)
    entries = {"one": nap(0.01), "slow, but a thousand": nap(0.1)._replace(does=1000)}
    figures = race("race", "", {"group": entries}, ("one", "absent"), 2, silent)
    one, thousand = figures.rows
    assert [one[1], thousand[1]] == list(entries)
    assert one[5] == 1.0
    assert 50 < float(thousand[5]) < 500
    assert all(row[6] == "" and float(row[3]) <= float(row[2]) <= float(row[4]) for row in figures.rows)


def test_contenders_of_one_home_share_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "SECONDS_PER_TURN", 0.05)
    ours, others = {"short": 0.005, "long": 0.05}, {"other": 0.01}
    entries = {name: nap(each)._replace(home="ours") for name, each in ours.items()}
    entries |= {name: nap(each) for name, each in others.items()}
    processes = []

    def announce(title: str, total: int) -> Report:
        return lambda done, metrics: processes.append(len(active_children()))

    figures = race("race", "", {"group": entries}, (), 2, announce)
    assert processes == [2, 2]
    for row, each in zip(figures.rows, (ours | others).values(), strict=True):
        assert 0.3 / each < float(row[2]) <= 1 / each


def test_what_shares_a_process_takes_turns_call_by_call() -> None:
    calls: list[str] = []
    contenders = {name: partial(calls.append, name) for name in ("first", "second")}
    speeds = turns.calls_per_second(contenders, seconds=1e-3)
    assert calls == ["first", "second"] * (len(calls) // 2)
    assert len(calls) > 2
    assert set(speeds) == {"first", "second"}


def test_a_contender_that_cannot_be_made_is_an_error_and_leaves_no_process(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(RunError, match="bad"):
        race("race", "", {"group": {"bad": nap("no")}}, (), 1, silent)
    assert not active_children()
    assert "TypeError" in capfd.readouterr().err


def test_the_arithmetic_of_an_iteration_is_that_of_its_convolutions_and_products() -> None:
    exp = experiment(8, 3, 4)
    # Forward, and twice as much backward, but for the first layer, whose input needs no gradient.
    areas, channels = (8 * 8, 4 * 4, 2 * 2, 1), (3, 4, 4, 4)
    forward = [2 * 10 * area * 9 * before * 4 for area, before in zip(areas, channels, strict=True)] + [2 * 10 * 4 * 5]
    expected = 35 * (3 * sum(forward) - forward[0])
    assert arithmetic(exp, plain_conv4(8, 3, 4), (3, 8, 8)) == expected


def test_the_passes_of_ispl_are_those_that_it_makes() -> None:
    exp = replace(experiment(8, 3, 4), task=TaskConfig(way=5, shots=30))
    made = Counter[str]()

    class Counted(Learner):
        def gradient(self, theta: Tensor, x: Tensor, y: Tensor, weight: Tensor) -> Tensor:
            made["lessons"] += x.shape[2]
            return super().gradient(theta, x, y, weight)

        def losses(self, theta: Tensor, x: Tensor, y: Tensor) -> Tensor:
            made["questions"] += x.shape[2]
            return super().losses(theta, x, y)

    stage = library_stage(replace(exp, method=METHODS["reptile-ispl"], meta=MetaConfig(batch=1)))
    learner = Counted(partial(plain_conv4, 8, 3, 4), class_error)
    theta = learner.init(0)[None]
    memory, step = InnerState.empty(theta), torch.tensor(0)
    with torch.no_grad():
        Ispl().select(Iteration(learner, theta, memory, *training_data(stage, 0), exp.inner, step))
    lessons, questions = priors(exp, Ispl())
    assert made == {
        "lessons": lessons.inner.steps * lessons.inner.batch,
        "questions": questions.inner.steps * questions.inner.batch,
    }


def test_a_python_without_jax_meta_says_what_it_lacks(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(RunError, match="jax-meta died"):
        race("race", "", {"group": {"jax-meta": Entry(partial(jax_meta, sys.executable, 1, 1))}}, (), 1, silent)
    assert "haiku" in capfd.readouterr().err
