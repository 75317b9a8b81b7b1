"""What metric methods have in common: gradients, initialisation, empty classes, presets and other ways."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from eigen_reptile.data import CifarFs, ImageBank
from eigen_reptile.methods import METHODS, Ecm, MixtFsl, RobustLoss, TaskSpec
from eigen_reptile.methods.method import initial_theta
from eigen_reptile.nn import Conv4
from eigen_reptile.runtime.progress import no_progress
from eigen_reptile.tasks import TaskConfig
from eigen_reptile.training.config import MetaConfig
from eigen_reptile.training.experiment import run
from eigen_reptile.training.presets import preset
from eigen_reptile.training.serialise import from_json, to_json
from eigen_reptile.training.setup import set_up
from embeddings import CLASSES, FEATURES, QUERIES, WITH_EXTRA_PARAMETERS, headless_batch
from meta_batches import (
    WAY,
    finite_difference,
    gradient_of,
    image_experiment,
    meta_batch_of,
    predictions,
)

every_method = pytest.mark.parametrize("method", WITH_EXTRA_PARAMETERS.values(), ids=WITH_EXTRA_PARAMETERS.keys())


@every_method
def test_gradients_against_finite_differences(method: Any) -> None:
    batch = headless_batch(method)
    gradient = gradient_of(method, batch)
    generator = torch.Generator().manual_seed(0)
    for _ in range(4):
        along = torch.randn(gradient.shape, generator=generator, dtype=torch.float64)
        if isinstance(method, MixtFsl):  # a part of the loss takes the components for constants
            along[batch.network.d :] = 0
        along /= along.norm()
        expected = finite_difference(method, batch, along, 1e-6)
        assert float(gradient @ along) == pytest.approx(expected, rel=1e-4, abs=1e-7)


@every_method
def test_a_seed_determines_the_initialisation_without_global_draws(method: Any) -> None:
    setup = set_up(image_experiment(method), no_progress, "cpu")
    state = torch.get_rng_state()
    first, again, other = (initial_theta(method, setup.network, seed, setup.spec) for seed in (0, 0, 1))
    batch = headless_batch(method)
    update = gradient_of(method, batch)
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(first, again)
    d = setup.network.d
    assert torch.equal(first[:d], setup.network.module.init(0))
    assert not torch.equal(first[d:], other[d:])
    assert torch.equal(update, gradient_of(method, batch))


@every_method
def test_a_class_without_support_leaves_everything_finite(method: Any) -> None:
    batch = headless_batch(method)
    tasks = batch.tasks
    emptied = batch._replace(tasks=tasks._replace(y=tasks.y.clamp(max=WAY - 2)))
    assert predictions(method, emptied).isfinite().all()
    assert gradient_of(method, emptied).isfinite().all()


@every_method
def test_a_network_may_have_a_head(method: Any) -> None:
    batch = meta_batch_of(image_experiment(method), tasks=1)
    assert predictions(method, batch).shape == (1, 1, QUERIES, WAY)
    assert gradient_of(method, batch).isfinite().all()


@every_method
def test_a_robust_loss_can_be_used(method: Any) -> None:
    batch = headless_batch(method, tasks=1)
    robust = gradient_of(RobustLoss(method), batch)
    assert robust.isfinite().all()
    assert not torch.allclose(robust, gradient_of(method, batch))


@pytest.mark.parametrize("name", ["gnn", "ecm", "mixtfsl"])
def test_presets(name: str) -> None:
    exp = preset(CifarFs(), METHODS[name])
    assert exp.model == Conv4(64, "valid", head=False)
    assert (exp.task.shots, exp.meta.lr, exp.meta.optimizer) == (1, (1e-3,), "adam")
    if name == "mixtfsl":
        assert exp.task.epochs
        assert exp.meta.batch * exp.task.samples == 200
    else:
        assert (exp.task.queries, exp.task.epochs) == (15, False)
    assert exp.method.requirements.classification_only
    assert from_json(to_json(exp)) == exp


def test_extra_parameters_depend_on_the_training_classes() -> None:
    setup = set_up(image_experiment(Ecm()), no_progress, "cpu")
    assert isinstance(setup.banks.train, ImageBank)
    assert setup.spec == TaskSpec((3, 8, 9), WAY, CLASSES)
    assert setup.network.module.features(setup.spec.shape) == WAY
    d = setup.network.d
    assert len(initial_theta(Ecm(), setup.network, 0, setup.spec)) == d + CLASSES * WAY
    assert len(initial_theta(MixtFsl(4), setup.network, 0, setup.spec)) == d + CLASSES * 4 * WAY


@pytest.mark.parametrize("name", ["prototypical", "ecm", "mixtfsl"])
def test_training_tasks_may_have_more_classes_than_test_tasks(name: str, tmp_path: Path) -> None:
    exp = image_experiment(METHODS[name], Conv4(FEATURES, head=False))
    exp = replace(
        exp,
        task=TaskConfig(way=6, shots=1, queries=2),
        meta=MetaConfig(steps=2, batch=1),
        evaluation=replace(exp.evaluation, way=3, every=2),
    )
    setup = set_up(exp, no_progress, "cpu")
    assert (setup.training.way, setup.validation.way, setup.tests[0].way) == (6, 3, 3)
    scores = run(exp, tmp_path).test_with(1)
    assert scores is not None
    correct = 3 * exp.evaluation.queries * np.array(scores.per_task)
    np.testing.assert_allclose(correct, correct.round(), atol=1e-3)  # out of the queries of three classes


def test_a_method_with_parameters_for_each_class_refuses_another_way() -> None:
    exp = image_experiment(METHODS["gnn"], Conv4(FEATURES, head=False))
    with pytest.raises(ValueError, match=r"`evaluation\.way` must be the way of training, 3"):
        replace(exp, evaluation=replace(exp.evaluation, way=2))
