"""What stops an experiment stops it before anything is trained; and which device is taken."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from eigen_reptile import stage as stages
from eigen_reptile.config import Experiment, MetaConfig
from eigen_reptile.data import DataError, TaskShape
from eigen_reptile.evaluate import EvalConfig, Start
from eigen_reptile.experiment import run_experiment
from eigen_reptile.models import Conv4, Mlp
from eigen_reptile.progress import Report, silent
from eigen_reptile.stage import better, found_device, prepare
from eigen_reptile.state import TrainState
from eigen_reptile.tasks import TaskConfig
from pictures import SMALL, Patterns

only_a_cpu = pytest.mark.skipif(
    torch.cuda.is_available() or torch.backends.mps.is_available(), reason="there is more than a CPU here"
)


@only_a_cpu
def test_without_another_device_the_cpu_is_taken() -> None:
    assert found_device("auto") == found_device("cpu") == torch.device("cpu")
    assert prepare(SMALL, silent).device == torch.device("cpu")


@only_a_cpu
@pytest.mark.parametrize("name", ["cuda", "mps"])
def test_a_device_that_is_not_there_is_refused_with_those_that_are(name: stages.Device) -> None:
    with pytest.raises(ValueError, match=rf"^there is no {name} here: use one of auto, cpu$"):
        found_device(name)
    with pytest.raises(ValueError, match=f"no {name}"):
        prepare(SMALL, silent, name)


def test_the_fastest_device_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert found_device("auto") == torch.device("mps")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert found_device("auto") == torch.device("cuda")
    assert found_device("cpu") == torch.device("cpu")


def test_tasks_are_shaped_by_the_experiment_and_by_what_the_classes_hold() -> None:
    stage = prepare(replace(SMALL, evaluation=replace(SMALL.evaluation, queries=8)), silent)
    assert stage.training == TaskShape(3, 3, 0)
    assert stage.validation == TaskShape(3, 1, 8)
    assert stage.tests == (TaskShape(3, 1, 8), TaskShape(3, 2, 7))  # nine pictures a class
    assert stage.learner.d == 9 * 4 * (3 + 3 * 4) + 4 * 8 + (4 + 1) * 3


def test_the_network_fits_the_data() -> None:
    curves = prepare(Experiment(), silent)
    assert curves.learner.d == 2 * 64 + 65 * 64 + 65
    flat = prepare(replace(SMALL, model=Mlp((5,))), silent)
    assert flat.learner.d == (3 * 8 * 9 + 1) * 5 + 6 * 3


WRONG: Mapping[str, tuple[Experiment, str]] = {
    "too few classes to train on": (replace(SMALL, task=TaskConfig(way=9)), r"9 classes .* from 8: .*--task\.way"),
    "too few pictures to test": (replace(SMALL, data=Patterns(test_pictures=2)), r"2 pictures.*--evaluation\.shots"),
    "pictures wanted": (Experiment(model=Conv4()), "conv4 takes pictures"),
    "curves have no classes": (Experiment(task=TaskConfig(way=2), compile="off", meta=MetaConfig(steps=1)), "way"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_cannot_be_done_is_refused_at_once_and_leaves_nothing_behind(name: str, tmp_path: Path) -> None:
    exp, words = WRONG[name]
    told: list[str] = []

    def announce(what: str, total: int) -> Report:
        told.append(what)
        return silent(what, total)

    with pytest.raises((DataError, ValueError), match=words):
        run_experiment(exp, tmp_path / "run", announce)
    assert told == []
    assert not (tmp_path / "run").exists()


def test_validation_and_test_measure_what_they_should() -> None:
    for exp, validated, tested in (
        (SMALL, ("transductive",), ("inductive", "transductive")),
        (Experiment(evaluation=EvalConfig(after=(0, 3), tasks=2)), ("0 steps", "3 steps"), ("0 steps", "3 steps")),
    ):
        stage = prepare(exp, silent)
        state = TrainState.fresh(stage)
        start = Start(state.theta, state.memory, exp.inner, exp.method)
        on_validation = stages.validate(stage, start, 2, silent("", 0))
        on_test = stages.test(stage, start, stage.tests[0], silent("", 0))
        assert on_validation.columns == validated
        assert on_test.columns == tested
        assert on_validation.values.shape == (len(exp.lanes), 2, len(validated))
        assert on_test.values.shape == (len(exp.lanes), exp.evaluation.tasks, len(tested))
        assert np.isfinite(on_test.values).all()


def test_better_is_higher_for_accuracy_and_lower_for_error() -> None:
    score = torch.tensor([0.4, 0.5, 0.6, torch.nan])
    best = torch.tensor([0.5, 0.5, 0.5, 0.5])
    assert better(SMALL, score, best).tolist() == [False, False, True, False]
    assert better(Experiment(), score, best).tolist() == [True, False, False, False]
