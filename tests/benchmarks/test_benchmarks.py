"""The benchmarks compare equal work: plain PyTorch and other libraries compute the same update as this one."""

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

from benchmarks import timing
from benchmarks.contenders import jax_meta, library_setup
from benchmarks.conv4 import experiment, operations_per_iteration, plain_conv4
from benchmarks.ispl import prior_passes
from benchmarks.maml import experiment as maml_experiment, higher_maml, torchopt_maml
from benchmarks.peers import (
    OuterIteration,
    float_data,
    higher_reptile,
    optimizer_of,
    plain_reptile,
    torchopt_reptile,
)
from benchmarks.timing import ContenderFactory, compare_speeds
from eigen_reptile.errors import RunError
from eigen_reptile.inner import InnerState
from eigen_reptile.methods import METHODS, Ispl, MetaBatch
from eigen_reptile.nn import Conv4, CrossEntropy, FlatModule, Network
from eigen_reptile.runtime.progress import ReportProgress, no_progress
from eigen_reptile.tasks import TaskConfig
from eigen_reptile.training.config import Experiment, MetaConfig
from eigen_reptile.training.data import TrainingData
from eigen_reptile.training.loop import iterate
from eigen_reptile.training.setup import set_up
from eigen_reptile.training.state import TrainState

SINE = replace(Experiment(method=METHODS["reptile"], meta=MetaConfig(batch=5, lr=(0.1,))), precision="float64")
IMAGES = replace(experiment(12, 1, 4), precision="float64")
# TensorFlow's form of Adam, which this library uses, differs from PyTorch's only in where eps is added.
IMAGES = replace(IMAGES, inner=replace(IMAGES.inner, eps=1e-14))


@pytest.mark.parametrize(
    ("exp", "build", "reptile"),
    [
        (SINE, lambda: SINE.model.build((1,), 1), plain_reptile),
        (IMAGES, lambda: IMAGES.model.build((1, 12, 12), 5), plain_reptile),
        (IMAGES, lambda: IMAGES.model.build((1, 12, 12), 5), higher_reptile),
        (IMAGES, lambda: IMAGES.model.build((1, 12, 12), 5), torchopt_reptile),
    ],
    ids=["plain, sine", "plain", "higher", "torchopt"],
)
def test_all_implementations_of_reptile_take_the_same_step(
    exp: Experiment, build: Callable[[], nn.Module], reptile: OuterIteration
) -> None:
    setup = set_up(exp, no_progress, "cpu")
    state = TrainState.fresh(setup)
    module = build().double()
    nn.utils.vector_to_parameters(state.theta[0].clone(), module.parameters())
    after, _ = iterate(setup, exp.method.meta_update, state, *TrainingData(setup).at(state.step))
    loss = nn.CrossEntropyLoss() if exp.data.is_classification else nn.MSELoss()
    reptile(module, *float_data(setup, 0), optimizer_of(exp), loss, exp.meta.lr[0])
    theta = nn.utils.parameters_to_vector(module.parameters()).detach()
    moved = after.theta[0] - state.theta[0]
    # TorchOpt counts steps in float32, whatever the precision of the rest.
    torch.testing.assert_close(theta - state.theta[0], moved, rtol=0, atol=1e-4 * moved.abs().max().item())


MAML = replace(maml_experiment(12, 3), precision="float64", model=Conv4(4))
MAML = replace(MAML, meta=replace(MAML.meta, batch=2, lr=(0.1,)))


@pytest.mark.parametrize("peer", [higher_maml, torchopt_maml], ids=["higher", "torchopt"])
def test_maml_of_other_libraries_takes_the_same_step(peer: OuterIteration) -> None:
    setup = set_up(MAML, no_progress, "cpu")
    state = TrainState.fresh(setup)
    module = MAML.model.build((3, 12, 12), 5).double()
    nn.utils.vector_to_parameters(state.theta[0].clone(), module.parameters())
    with torch.no_grad():
        after, _ = iterate(setup, MAML.method.meta_update, state, *TrainingData(setup).at(state.step))
    peer(module, *float_data(setup, 0), optimizer_of(MAML), nn.CrossEntropyLoss(), MAML.meta.lr[0])
    theta = nn.utils.parameters_to_vector(module.parameters()).detach()
    torch.testing.assert_close(theta - state.theta[0], after.theta[0] - state.theta[0], rtol=1e-6, atol=1e-10)


def sleeper(seconds: object) -> ContenderFactory:
    """A contender whose process does not have to import these tests."""
    return ContenderFactory(partial(partial, time.sleep, seconds))  # type: ignore[arg-type]


def test_speeds_count_iterations_and_ratios_are_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "SECONDS_PER_TURN", 0.1)
    entries = {"one": sleeper(0.01), "slow, but a thousand": sleeper(0.1)._replace(iterations=1000)}
    table = compare_speeds("title", "", {"group": entries}, ("one", "absent"), 2, no_progress)
    one, thousand = table.rows
    assert [one[1], thousand[1]] == list(entries)
    assert one[5] == 1.0
    assert 50 < float(thousand[5]) < 500
    assert all(row[6] == "" and float(row[3]) <= float(row[2]) <= float(row[4]) for row in table.rows)


def test_entries_that_name_a_process_share_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "SECONDS_PER_TURN", 0.05)
    ours, others = {"short": 0.005, "long": 0.05}, {"other": 0.01}
    entries = {name: sleeper(each)._replace(process="ours") for name, each in ours.items()}
    entries |= {name: sleeper(each) for name, each in others.items()}
    processes = []

    def start_progress(title: str, total: int) -> ReportProgress:
        return lambda done, metrics: processes.append(len(active_children()))

    table = compare_speeds("title", "", {"group": entries}, (), 2, start_progress)
    assert processes == [2, 2]
    for row, each in zip(table.rows, (ours | others).values(), strict=True):
        assert 0.3 / each < float(row[2]) <= 1 / each


def test_contenders_in_one_process_alternate_call_by_call() -> None:
    calls: list[str] = []
    contenders = {name: partial(calls.append, name) for name in ("first", "second")}
    speeds = timing.calls_per_second(contenders, seconds=1e-3)
    assert calls == ["first", "second"] * (len(calls) // 2)
    assert len(calls) > 2
    assert set(speeds) == {"first", "second"}


def test_a_contender_that_cannot_be_made_is_an_error_and_leaves_no_process(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(RunError, match="bad"):
        compare_speeds("title", "", {"group": {"bad": sleeper("no")}}, (), 1, no_progress)
    assert not active_children()
    assert "TypeError" in capfd.readouterr().err


def test_operations_of_an_iteration_are_those_of_its_convolutions_and_products() -> None:
    exp = experiment(8, 3, 4)
    # Forward, and twice as much backward, except in the first layer, whose input needs no gradient.
    areas, channels = (8 * 8, 4 * 4, 2 * 2, 1), (3, 4, 4, 4)
    forward = [2 * 10 * area * 9 * before * 4 for area, before in zip(areas, channels, strict=True)] + [2 * 10 * 4 * 5]
    expected = 35 * (3 * sum(forward) - forward[0])
    assert operations_per_iteration(exp, plain_conv4(8, 3, 4), (3, 8, 8)) == expected


def test_passes_counted_for_ispl_are_those_that_it_makes() -> None:
    exp = replace(experiment(8, 3, 4), task=TaskConfig(way=5, shots=30))
    samples = Counter[str]()

    class Counted(nn.Module):
        """Counts the samples of forward passes, with and without a gradient."""

        def __init__(self) -> None:
            super().__init__()
            self.network = plain_conv4(8, 3, 4)

        def forward(self, x: Tensor) -> Tensor:
            samples["fitting" if torch.is_grad_enabled() else "judging"] += len(x)
            output: Tensor = self.network(x)
            return output

    setup = library_setup(replace(exp, method=METHODS["reptile-ispl"], meta=MetaConfig(batch=1)))
    network = Network(FlatModule(Counted), CrossEntropy())
    theta = network.module.init(0)[None]
    inner_state, step = InnerState.empty(theta), torch.tensor(0)
    with torch.no_grad():
        Ispl().select(MetaBatch(network, theta, inner_state, *TrainingData(setup).at(0), exp.inner, step))
    fitting, judging = prior_passes(exp, Ispl())
    assert fitting.inner.batch is not None
    assert samples == {
        "fitting": fitting.inner.steps * fitting.inner.batch,
        "judging": judging.inner.steps * fitting.inner.batch,
    }


def test_a_python_without_jax_meta_names_the_missing_module(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(RunError, match="jax-meta died"):
        compare_speeds(
            "title",
            "",
            {"group": {"jax-meta": ContenderFactory(partial(jax_meta, sys.executable, 1, 1))}},
            (),
            1,
            no_progress,
        )
    assert "haiku" in capfd.readouterr().err
