"""Numbers that size memory are refused, with what they would take, before anything of that size is allocated."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from eigen_reptile.data import Sine, TaskShape
from eigen_reptile.errors import RunError
from eigen_reptile.nn import Mlp
from eigen_reptile.runtime.progress import no_progress
from eigen_reptile.training.config import Experiment, MetaConfig
from eigen_reptile.training.evaluate import EvalConfig
from eigen_reptile.training.footprint import evaluation_bytes, training_bytes
from eigen_reptile.training.setup import set_up
from eigen_reptile.training.state import TrainState


def test_estimate_counts_what_is_really_allocated() -> None:
    experiment = Experiment(
        data=Sine(), meta=MetaConfig(steps=1, batch=7), evaluation=EvalConfig(tasks=5), seeds=(0, 1), compile="off"
    )
    setup = set_up(experiment, no_progress)
    state = TrainState.fresh(setup)
    parts = training_bytes(experiment, setup.network.module.d, (1,), setup.training)
    assert parts["the parameters: use a smaller network or fewer `seeds`"] == 4 * state.theta.nbytes
    tasks = next(part for name, part in parts.items() if name.startswith("the tasks"))
    assert tasks == 2 * 7 * (50 + 50) * (4 + 8)
    scores = next(
        part
        for name, part in evaluation_bytes(experiment, 10, (1,), (TaskShape(1, 10, 50),)).items()
        if name.startswith("the scores")
    )
    assert scores == 5 * (2 * 5 * 8 + 100)


def test_only_an_experiment_that_cannot_fit_is_refused() -> None:
    set_up(Experiment(), no_progress)
    with pytest.raises(RunError, match=r"^not enough memory for evaluation: .*`evaluation\.tasks`"):
        set_up(replace(Experiment(), evaluation=EvalConfig(tasks=2**31 - 1)), no_progress)


def test_a_network_whose_training_cannot_fit_is_refused_before_it_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[torch.device] = []
    linear = torch.nn.Linear.__init__

    def recorded(layer: torch.nn.Linear, *args: Any, **settings: Any) -> None:
        built.append(torch.get_default_device())
        assert built[-1].type == "meta"  # nothing of this size is allocated
        linear(layer, *args, **settings)

    monkeypatch.setattr(torch.nn.Linear, "__init__", recorded)
    with pytest.raises(RunError, match=r"^not enough memory for training: .*the inner loop"):
        set_up(replace(Experiment(), model=Mlp(hidden=(2**29,))), no_progress)
    assert built
