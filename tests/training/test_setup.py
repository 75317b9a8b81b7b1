"""Setting up an experiment: the device, the shapes of its tasks, its network, and what is rejected before training."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from eigen_reptile.data import TaskShape
from eigen_reptile.data.io.cache import SPLITS
from eigen_reptile.errors import ConfigError, DataError
from eigen_reptile.methods import METHODS
from eigen_reptile.nn import Conv4, Mlp
from eigen_reptile.noise import NoiseConfig
from eigen_reptile.runtime.distributed import Workers
from eigen_reptile.runtime.progress import ReportProgress, no_progress
from eigen_reptile.tasks import TaskConfig
from eigen_reptile.training.config import Experiment, MetaConfig
from eigen_reptile.training.evaluate import EvalConfig, Initialisation
from eigen_reptile.training.experiment import run
from eigen_reptile.training.held_out import evaluate_test, validate
from eigen_reptile.training.setup import Device, find_device, is_better, set_up
from eigen_reptile.training.state import TrainState
from patterns import SMALL, Patterns

only_a_cpu = pytest.mark.skipif(
    torch.cuda.is_available() or torch.backends.mps.is_available(), reason="this machine has more than a CPU"
)


@only_a_cpu
def test_the_cpu_is_used_where_there_is_no_other_device() -> None:
    assert find_device("auto") == find_device("cpu") == torch.device("cpu")
    assert set_up(SMALL, no_progress).device == torch.device("cpu")


@only_a_cpu
@pytest.mark.parametrize("name", ["cuda", "mps"])
def test_an_unavailable_device_is_rejected_with_a_list_of_the_available_ones(name: Device) -> None:
    words = rf"^`device` {name} is not available on this machine: use auto or cpu$"
    with pytest.raises(ConfigError, match=words):
        find_device(name)
    with pytest.raises(ConfigError, match=words):
        set_up(SMALL, no_progress, name)


def test_auto_is_the_fastest_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert find_device("auto") == torch.device("mps")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert find_device("auto") == torch.device("cuda")
    assert find_device("cpu") == torch.device("cpu")


def test_the_classes_of_each_split_are_recorded_without_label_noise() -> None:
    names = {split: [f"{number}-{label}" for label in range(8)] for number, split in enumerate(SPLITS)}
    for noise in (NoiseConfig(), NoiseConfig("symmetric", 0.5, "task"), NoiseConfig("symmetric", 0.5, "bank")):
        evaluation = replace(SMALL.evaluation, noisy=noise.where == "task" and noise.kind != "none")
        classes = set_up(replace(SMALL, noise=noise, evaluation=evaluation), no_progress).classes
        assert classes is not None
        assert {split: list(sizes) for split, sizes in classes.items()} == names
        assert set(classes["test"].values()) == {9}
        assert len(set(classes["train"].values())) == 1
    assert set_up(Experiment(), no_progress).classes is None


def test_tasks_have_the_shapes_of_the_experiment_with_as_many_queries_as_the_classes_allow() -> None:
    setup = set_up(replace(SMALL, evaluation=replace(SMALL.evaluation, queries=8)), no_progress)
    assert setup.training == TaskShape(3, 3, 0)
    assert setup.validation == TaskShape(3, 1, 8)
    assert setup.tests == (TaskShape(3, 1, 8), TaskShape(3, 2, 7))  # nine images of each class
    assert setup.network.d == 9 * 4 * (3 + 3 * 4) + 4 * 8 + (4 + 1) * 3


def test_the_network_fits_the_data() -> None:
    curves = set_up(Experiment(), no_progress)
    assert curves.network.d == 2 * 64 + 65 * 64 + 65
    flat = set_up(replace(SMALL, model=Mlp((5,))), no_progress)
    assert flat.network.d == (3 * 8 * 9 + 1) * 5 + 6 * 3


WRONG: Mapping[str, tuple[Experiment, str]] = {
    "too few classes to train on": (replace(SMALL, task=TaskConfig(way=9)), r"9 classes .* from 8: .*task\.way"),
    "too few images to test": (replace(SMALL, data=Patterns(test_images=2)), r"2 \w+: .*evaluation\.shots"),
    "a network for images": (Experiment(model=Conv4()), "conv4 takes images"),
    "regression has no classes": (Experiment(task=TaskConfig(way=2), compile="off", meta=MetaConfig(steps=1)), "way"),
}


@pytest.mark.parametrize("name", WRONG)
def test_an_impossible_experiment_is_rejected_before_training_and_leaves_no_folder(name: str, tmp_path: Path) -> None:
    exp, words = WRONG[name]
    announced: list[str] = []

    def start_progress(what: str, total: int) -> ReportProgress:
        announced.append(what)
        return no_progress(what, total)

    with pytest.raises((DataError, ConfigError), match=words):
        run(exp, tmp_path / "run", start_progress)
    assert announced == []
    assert not (tmp_path / "run").exists()


def test_the_measures_of_validation_and_test() -> None:
    for exp, validated, tested in (
        (SMALL, ("transductive",), ("inductive", "transductive")),
        (
            Experiment(evaluation=EvalConfig(inner_steps=(0, 3), tasks=2)),
            ("0 steps", "3 steps"),
            ("0 steps", "3 steps"),
        ),
    ):
        setup = set_up(exp, no_progress)
        state = TrainState.fresh(setup)
        initialisation = Initialisation(state.theta, state.inner_state, exp.inner, exp.method)
        on_validation = validate(setup, initialisation, 2, no_progress("", 0))
        on_test = evaluate_test(setup, initialisation, setup.tests[0], no_progress("", 0))
        assert on_validation.columns == validated
        assert on_test.columns == tested
        assert on_validation.values.shape == (len(exp.replicas), 2, len(validated))
        assert on_test.values.shape == (len(exp.replicas), exp.evaluation.tasks, len(tested))
        assert np.isfinite(on_test.values).all()


def test_better_is_higher_for_accuracy_and_lower_for_error() -> None:
    score = torch.tensor([0.4, 0.5, 0.6, torch.nan])
    best = torch.tensor([0.5, 0.5, 0.5, 0.5])
    assert is_better(SMALL, score, best).tolist() == [False, False, True, False]
    assert is_better(Experiment(), score, best).tolist() == [True, False, False, False]


REQUIREMENTS: Mapping[str, tuple[Experiment, str]] = {
    "a method that compares tasks": (
        replace(
            SMALL,
            method=METHODS["taml-theil"],
            task=replace(SMALL.task, queries=1),
            inner=replace(SMALL.inner, carry="fresh"),
            meta=replace(SMALL.meta, batch=1),
        ),
        r"`meta\.batch` must be at least 2",
    ),
    "a method that selects among different samples": (
        replace(SMALL, method=METHODS["eigen-reptile-ispl"]),
        r"`task\.shots` must be at least 12",
    ),
    "running statistics in an inner loop": (
        replace(SMALL, model=Conv4(4, statistics="running")),
        r"`model\.statistics` to batch",
    ),
    "an inner loop on a network without a head": (replace(SMALL, model=Conv4(4, head=False)), r"`model\.head`"),
}


@pytest.mark.parametrize("name", REQUIREMENTS)
def test_a_method_whose_requirements_are_not_met_is_rejected(name: str) -> None:
    exp, words = REQUIREMENTS[name]
    with pytest.raises(ConfigError, match=words):
        set_up(exp, no_progress, "cpu")


def test_more_workers_than_tasks_are_rejected() -> None:
    workers = Workers(rank=0, count=3)
    with pytest.raises(ConfigError, match=r"3 `workers` cannot share the 2 tasks .* at most 2 .*`meta\.batch`"):
        set_up(SMALL, no_progress, "cpu", workers)


def test_what_only_training_needs_is_not_checked_for_an_evaluation() -> None:
    exp, _ = REQUIREMENTS["a method that compares tasks"]
    assert set_up(exp, no_progress, "cpu", trains=False).tests == (TaskShape(3, 1, 3), TaskShape(3, 2, 3))


def test_running_statistics_are_marked_among_the_parameters_and_the_methods_own_are_not() -> None:
    exp = replace(SMALL, method=METHODS["ecm"], model=Conv4(4, head=False), task=TaskConfig(3, shots=1, queries=2))
    setup = set_up(exp, no_progress, "cpu")
    assert setup.running_statistics(TrainState.fresh(setup).theta) is None
    setup = set_up(replace(exp, model=Conv4(4, head=False, statistics="running")), no_progress, "cpu")
    theta = TrainState.fresh(setup).theta
    marked = setup.running_statistics(theta)
    assert marked is not None
    assert marked.shape == theta.shape[1:]
    assert int(marked.sum()) == 4 * 2 * 4  # means and variances of four layers with four channels
