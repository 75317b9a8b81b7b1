"""The benchmarks compare like with like: plain PyTorch and the peers compute the library's update."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import nn

from eigen_reptile.bench.contenders import Reptile, higher_reptile, optimizers_of, plain_reptile, torchopt_reptile
from eigen_reptile.bench.conv4 import experiment
from eigen_reptile.bench.turns import Entry, race
from eigen_reptile.config import Experiment, MetaConfig
from eigen_reptile.methods import METHODS
from eigen_reptile.progress import silent
from eigen_reptile.stage import prepare
from eigen_reptile.train import TrainState, iterate, training_data

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
    after, _ = iterate(stage, exp.method.propose, state)
    loss = nn.CrossEntropyLoss() if exp.data.classifies else nn.MSELoss()
    reptile(module, *training_data(stage, 0), optimizers_of(exp), loss, exp.meta.lr[0])
    theta = nn.utils.parameters_to_vector(module.parameters()).detach()
    moved = after.theta[0] - state.theta[0]
    # TorchOpt counts steps in float32, whatever the rest is in.
    torch.testing.assert_close(theta - state.theta[0], moved, rtol=0, atol=1e-4 * moved.abs().max().item())


def test_a_race_counts_calls_and_takes_ratios() -> None:
    calls = {"one": 0, "many": 0}

    def contender(name: str) -> Entry:
        def call() -> None:
            calls[name] += 1

        return Entry(call, 1 if name == "one" else 1000)

    figures = race("race", {"group": {name: contender(name) for name in calls}}, ("one", "absent"), 1, silent)
    assert min(calls.values()) > 3
    (one, many) = figures.rows
    assert (one[1], many[1]) == ("one", "many")
    assert one[5] == 1.0
    assert isinstance(many[5], float)
    assert many[5] > 10
    assert one[6] == many[6] == ""
