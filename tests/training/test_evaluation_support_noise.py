"""Wrong labels in the support of validation and test tasks, from the list of tasks to the result."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from eigen_reptile.data import TaskShape
from eigen_reptile.data.sampling import sample_tasks
from eigen_reptile.errors import DataError
from eigen_reptile.inner import InnerConfig, InnerState
from eigen_reptile.methods import METHODS, Method
from eigen_reptile.noise import NoiseConfig, support_labels
from eigen_reptile.report.collect import read_cell
from eigen_reptile.report.paired import why_not_comparable
from eigen_reptile.runtime.progress import no_progress
from eigen_reptile.runtime.rng import generator_at
from eigen_reptile.tasks import Batches, Tasks, draw_batches
from eigen_reptile.training.config import Experiment
from eigen_reptile.training.data import TrainingData
from eigen_reptile.training.evaluate import EvalConfig, Initialisation, draw_tasks
from eigen_reptile.training.experiment import evaluate_run, run
from eigen_reptile.training.presets import preset
from eigen_reptile.training.serialise import from_json, to_json
from eigen_reptile.training.setup import set_up
from patterns import Patterns

SMALL = Patterns(classes=12, images=20, test_images=20, side=16)
SHAPE = TaskShape(way=5, shots=5, queries=2)
NOISY = EvalConfig(inner_steps=(3,), batch=4, seed=7, support_noise="symmetric", support_rate=0.4)
CLEAN = replace(NOISY, support_noise="none", support_rate=0.0)


def drawn(config: EvalConfig, replicas: int = 1, method: Method = METHODS["reptile"]) -> tuple[Tasks, Batches]:
    theta = torch.zeros(replicas, 3)
    initialisation = Initialisation(theta, InnerState.empty(theta), InnerConfig(), method)
    return draw_tasks(SMALL.load(no_progress).test, initialisation, config, "test", SHAPE, [0, 4])


def test_without_noise_tasks_and_batches_are_those_of_their_generators() -> None:
    """The draws written out, as they were before there was such noise."""
    tasks, batches = drawn(CLEAN)
    rngs = [generator_at(7, "test", number) for number in (0, 4)]
    expected = sample_tasks(SMALL.load(no_progress).test, SHAPE, 1, rngs)
    expected_batches = draw_batches(expected, 3, 4, rngs)
    assert all(found[0].equal(part[:, 0]) for found, part in zip(tasks, expected, strict=True))
    assert all(found[0].equal(part[:, 0]) for found, part in zip(batches, expected_batches, strict=True))


def test_noise_changes_labels_and_nothing_else() -> None:
    (clean, clean_batches), (noisy, batches) = drawn(CLEAN), drawn(NOISY)
    for part in ("x", "query_x", "query_y", "classes"):
        assert getattr(noisy, part).equal(getattr(clean, part))
    for row, number in enumerate((0, 4)):
        given = support_labels("symmetric", 0.4, 5, 5, generator_at(7, "support", number))
        assert noisy.y[0, row].tolist() == given.ravel().tolist()
    assert batches.chosen.equal(clean_batches.chosen)
    assert batches.y.equal(noisy.y[0].gather(1, batches.chosen[0].flatten(1)).view_as(batches.y))
    assert batches.is_clean.equal(batches.y == clean_batches.y)


def test_every_method_gets_the_same_wrong_labels() -> None:
    expected = drawn(NOISY)[0]
    for other in (replace(NOISY, inner_steps=(9,)), replace(NOISY, batch=None), replace(NOISY, tasks=3)):
        assert all(one.equal(two) for one, two in zip(drawn(other)[0], expected, strict=True))
    replicas = drawn(NOISY, replicas=3)[0]
    assert all(part[2].equal(one[0]) for part, one in zip(replicas, expected, strict=True))


def tiny(method: str = "reptile") -> Experiment:
    standard = preset(SMALL, METHODS[method], filters=4)
    config = replace(standard.evaluation, tasks=3, monitor_tasks=2, every=1, shots=(5,), queries=2, inner_steps=(2,))
    return replace(standard, meta=replace(standard.meta, steps=1), evaluation=config, compile="off")


def with_noise(exp: Experiment, kind: str, rate: float) -> Experiment:
    return replace(exp, evaluation=replace(exp.evaluation, support_noise=kind, support_rate=rate))  # type: ignore[arg-type]


def test_a_run_is_evaluated_at_several_rates(tmp_path: Path) -> None:
    """By `run`, and by an evaluation of what was trained before; the result says at which rate."""
    clean = run(tiny(), tmp_path / "clean")
    noisy = with_noise(tiny(), "symmetric", 0.4)
    direct = run(with_noise(tiny(), "outlier", 0.2), tmp_path / "outlier")
    evaluated = evaluate_run(tmp_path / "clean", noisy, tmp_path / "noisy")
    unchanged = evaluate_run(tmp_path / "clean", with_noise(tiny(), "paired", 0.0), tmp_path / "unchanged")
    assert evaluated.test is not None
    assert unchanged.test == clean.test
    saved = read_cell(tmp_path / "noisy" / "result.json").experiment.evaluation
    assert (saved.support_noise, saved.support_rate) == ("symmetric", 0.4)
    assert direct.experiment.evaluation.support_noise == "outlier"
    cells = [read_cell(tmp_path / name / "result.json") for name in ("clean", "noisy")]
    assert any("support_rate" in reason for reason in why_not_comparable(*cells))


def test_outliers_without_other_classes_are_refused_before_training(tmp_path: Path) -> None:
    exp = with_noise(replace(tiny(), data=replace(SMALL, classes=5)), "outlier", 0.4)
    with pytest.raises(DataError, match="5 classes and a task has 5"):
        run(exp, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_configs_without_the_settings_are_read() -> None:
    old = to_json(tiny())
    for name in ("support_noise", "support_rate"):
        del old["evaluation"][name]
    assert from_json(old) == tiny()


@pytest.mark.parametrize("method", ["eigen-reptile", "maml", "prototypical"])
def test_mixed_noise_in_meta_training_leaves_queries_clean(method: str) -> None:
    exp = tiny(method)
    exp = replace(exp, task=replace(exp.task, shots=max(5, exp.task.shots)), noise=NoiseConfig("mixed"))
    setup = set_up(exp, no_progress)
    data = TrainingData(setup)
    rates = set()
    for step in range(8):
        tasks, _ = data.at(step)
        queries = torch.arange(5).repeat_interleave(exp.task.queries).expand_as(tasks.query_y)
        assert tasks.query_y.equal(queries)
        rates |= {round(float(rate), 1) for rate in (~tasks.is_clean).double().mean(-1).flatten()}
    assert rates == {0.0, 0.2, 0.4}


def test_mixed_noise_trains_and_is_tested_on_clean_tasks(tmp_path: Path) -> None:
    exp = replace(tiny(), noise=NoiseConfig("mixed"))
    result = run(exp, tmp_path / "mixed")
    assert result.test is not None
    assert from_json(to_json(exp)) == exp
