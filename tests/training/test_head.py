"""A new last layer for another number of classes, against networks that are put together by hand."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import final

import pytest
import torch
from torch import nn

from eigen_reptile.errors import ConfigError
from eigen_reptile.inner import InnerState
from eigen_reptile.methods import METHODS
from eigen_reptile.nn import Model
from eigen_reptile.runtime.progress import no_progress
from eigen_reptile.training.experiment import evaluate_run, run
from eigen_reptile.training.setup import set_up
from eigen_reptile.training.state import TrainState
from patterns import SMALL


def test_only_the_last_layer_is_new_and_it_is_that_of_a_fresh_network() -> None:
    exp = replace(SMALL, evaluation=replace(SMALL.evaluation, way=4), seeds=(2, 5))
    setup = set_up(exp, no_progress)
    wider = set_up(replace(exp, task=replace(exp.task, way=4)), no_progress)
    fresh = TrainState.fresh(wider)
    state = TrainState.fresh(setup)
    learnt, square = torch.rand_like(state.theta), torch.rand_like(state.theta)
    features = 4  # filters of Conv4, whose images are pooled to one pixel
    body = learnt.shape[1] - 3 * (features + 1)
    found = setup.initialisation(learnt, InnerState(square, state.inner_state.steps + 9))
    assert torch.equal(found.theta[:, :body], learnt[:, :body])
    assert torch.equal(found.theta[:, body:], fresh.theta[:, body:])
    assert torch.equal(found.inner_state.square[:, :body], square[:, :body])
    weight, bias = square[:, body:-3].view(2, 3, features), square[:, -3:]
    expected = [weight.mean(1, keepdim=True).expand(-1, 4, -1).flatten(1), bias.mean(1, keepdim=True).expand(-1, 4)]
    torch.testing.assert_close(found.inner_state.square[:, body:], torch.cat(expected, dim=1))
    assert found.inner_state.steps.tolist() == [9, 9]


def test_a_run_can_be_monitored_and_tested_with_another_number_of_classes(tmp_path: Path) -> None:
    exp = replace(SMALL, meta=replace(SMALL.meta, steps=4), seeds=(0,))
    other = replace(exp, evaluation=replace(exp.evaluation, way=4))
    run(exp, tmp_path / "run")
    result = run(other, tmp_path / "other")
    found = evaluate_run(tmp_path / "run", replace(other, meta=exp.meta), tmp_path / "again")
    assert result.test is not None
    assert found.test is not None
    assert len(found.test) == len(exp.evaluation.shots)


@final
@dataclass(frozen=True)
class WithWideBody(Model):
    """A network whose hidden layer depends on the number of outputs."""

    @property
    def batched(self) -> bool:
        return False

    @property
    def compile_from(self) -> int | None:
        return None

    def build(self, shape: tuple[int, ...], outputs: int) -> nn.Module:
        size = torch.Size(shape).numel()
        return nn.Sequential(nn.Flatten(), nn.Linear(size, 2 * outputs), nn.ReLU(), nn.Linear(2 * outputs, outputs))


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"model": WithWideBody()}, "`evaluation.way` must be the way of training: another one changes more than"),
        (
            {"method": METHODS["sparse-maml"]},
            "`evaluation.way` must be the way of training, 3, not 4: this method learns",
        ),
    ],
)
def test_what_cannot_have_a_new_last_layer_is_refused_before_training(changed: dict[str, object], problem: str) -> None:
    exp = replace(SMALL, inner=replace(SMALL.inner, carry="fresh"), task=replace(SMALL.task, queries=3))
    exp = replace(exp, evaluation=replace(SMALL.evaluation, way=4), **changed)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=problem):
        set_up(exp, no_progress)
