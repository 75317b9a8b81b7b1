"""The settings to begin with, for every method on every data set."""

from dataclasses import dataclass, replace
from itertools import product
from typing import final

import pytest
from torch import Tensor

from eigen_reptile.data import DATASETS, CifarFs, Dataset, Omniglot, Sine
from eigen_reptile.errors import ConfigError
from eigen_reptile.inner import InnerState
from eigen_reptile.methods import METHODS, Adaptation, EigenReptile, MetaBatch, Requirements
from eigen_reptile.methods.gradient.gradient_method import GradientMethod, MetaLosses
from eigen_reptile.nn import Conv4, Network
from eigen_reptile.tasks import TaskConfig, Tasks
from eigen_reptile.training.config import Experiment
from eigen_reptile.training.presets import image_preset, preset


@pytest.mark.parametrize(("data", "name"), list(product(DATASETS, METHODS)))
def test_a_preset_is_a_valid_experiment_or_the_reason_why_there_is_none(data: str, name: str) -> None:
    method = METHODS[name]
    if method.requirements.classification_only and data == "sine":
        with pytest.raises(ConfigError, match="can only classify"):
            preset(DATASETS[data], method)
        return
    experiment = preset(DATASETS[data], method)
    assert isinstance(experiment, Experiment)
    assert (experiment.method, experiment.data) == (method, DATASETS[data])
    needs, batch = method.requirements, experiment.inner.batch
    assert experiment.meta.batch >= needs.min_tasks
    if needs.distinct_samples:
        assert batch is not None
        assert needs.batches_to_draw(experiment.inner) * batch <= experiment.task.support


MAML_LIKE = ("maml", "fomaml", "anil", "boil", "maml-ispl", "fomaml-ispl", "taml", "taml-theil", "meta-curvature")
SETTINGS = {
    # inner steps, inner rate, evaluation steps, outer rate, clip, tasks, shots, queries, filters, iterations
    **dict.fromkeys(MAML_LIKE, (5, 0.05, 10, 1e-3, 10.0, 4, 1, 15, 32, 60_000)),
    "meta-curvature": (5, 0.05, 10, 1e-3, 10.0, 4, 1, 15, 128, 60_000),
    "sparse-maml": (35, 0.1, 35, 1e-3, None, 2, 1, 15, 64, 40_000),
    "warp-maml": (5, 0.1, 5, 1e-3, None, 1, 5, 15, 64, 60_000),
    "metal": (5, 0.01, 5, 1e-3, None, 2, 1, 15, 48, 50_000),
    "meta-dropout": (5, 0.01, 5, 1e-3, 3.0, 4, 1, 15, 32, 60_000),
    "prototypical": (1, 1.0, 1, 1e-3, None, 4, 1, 15, 64, 60_000),
    "gnn": (1, 1.0, 1, 1e-3, None, 4, 1, 15, 64, 80_000),
    "ecm": (1, 1.0, 1, 1e-3, None, 4, 1, 15, 64, 60_000),
    "mixtfsl": (1, 1.0, 1, 1e-3, None, 2, 1, 19, 64, 115_200),
}
"""What the authors of each method used on photographs, as the first version of this package had it."""
ON_CHARACTERS = {
    **dict.fromkeys(MAML_LIKE, (1, 0.4, 3, 3e-3, 10.0, 16, 1, 5, 32, 60_000)),
    "meta-curvature": (1, 0.4, 3, 3e-3, 10.0, 16, 1, 5, 128, 60_000),
    "sparse-maml": (35, 0.1, 35, 3e-3, None, 4, 1, 5, 64, 40_000),
    "warp-maml": (5, 0.1, 5, 3e-3, None, 2, 5, 5, 64, 60_000),
    "metal": (5, 0.01, 5, 3e-3, None, 4, 1, 5, 48, 50_000),
    "meta-dropout": (5, 0.1, 5, 3e-3, 3.0, 8, 1, 5, 32, 60_000),
    "prototypical": (1, 1.0, 1, 3e-3, None, 8, 1, 5, 64, 60_000),
    "gnn": (1, 1.0, 1, 3e-3, None, 8, 1, 5, 64, 80_000),
    "ecm": (1, 1.0, 1, 3e-3, None, 8, 1, 5, 64, 60_000),
    "mixtfsl": (1, 1.0, 1, 3e-3, None, 2, 1, 19, 64, 115_200),
}


@pytest.mark.parametrize("name", METHODS)
def test_the_numbers_of_each_image_preset(name: str) -> None:
    own = image_preset(METHODS[name])
    if name not in SETTINGS:
        assert own is None
        return
    assert own is not None
    for settings, expected in ((own, SETTINGS[name]), (own.for_characters(), ON_CHARACTERS[name])):
        outer = (settings.outer_lr, settings.clip, settings.tasks, settings.shots, settings.queries)
        inner = (settings.steps, settings.lr, settings.evaluation_steps)
        assert (*inner, *outer, settings.model.filters, settings.iterations) == pytest.approx(expected)
        assert settings.model.pooling == "valid"
        assert settings.model.layers == {"warp-maml": "warp", "meta-dropout": "noise"}.get(name, "plain")
        assert settings.model.head == (name not in ("prototypical", "gnn", "ecm", "mixtfsl"))
        assert settings.epochs == (name == "mixtfsl")
        assert settings.full_outer_lr == (1e-4 if name == "meta-dropout" else None)


@pytest.mark.parametrize("data", [name for name, data in DATASETS.items() if data.is_classification])
def test_the_preset_for_images_has_the_papers_settings(data: str) -> None:
    """Section 5.2 and the authors' script, apart from the scale."""
    experiment = preset(DATASETS[data], METHODS["eigen-reptile"])
    assert experiment.model == Conv4(filters=32)
    assert experiment.task == TaskConfig(way=5, shots=15)
    inner, meta, evaluation = experiment.inner, experiment.meta, experiment.evaluation
    assert (inner.steps, inner.batch, inner.optimizer, inner.carry) == (7, 10, "adam", "shared")
    assert (meta.batch, meta.lr, meta.final_lr) == (5, (1.0,), 0.0)
    assert (evaluation.shots, evaluation.inner_steps, evaluation.batch) == ((1, 5), (50,), 15)


@pytest.mark.parametrize("data", ["cifar-fs", "omniglot", "glyphs"])
def test_methods_with_a_preset_of_their_own_use_it(data: str) -> None:
    """MAML's on photographs: 5 steps of 0.01 on N times the mean loss, 4 tasks of 15 queries, Adam at 0.001."""
    experiment = preset(DATASETS[data], METHODS["maml"])
    steps, rate, tasks, queries, outer = (5, 0.05, 4, 15, 0.001) if data == "cifar-fs" else (1, 0.4, 16, 5, 0.003)
    assert experiment.model == Conv4(filters=32, pooling="valid")
    assert experiment.task == TaskConfig(way=5, shots=1, queries=queries)
    inner, meta = experiment.inner, experiment.meta
    assert (inner.steps, inner.batch, inner.lr, inner.optimizer) == (steps, None, rate, "sgd")
    assert (meta.batch, meta.lr, meta.optimizer, meta.clip) == (tasks, (outer,), "adam", 10.0)
    assert preset(DATASETS[data], METHODS["maml"], filters=7).model == replace(experiment.model, filters=7)


def test_the_default_preset_for_characters_has_larger_steps_and_more_tasks() -> None:
    photographs, characters = (preset(DATASETS[data], METHODS["prototypical"]) for data in ("cifar-fs", "omniglot"))
    assert characters.meta.batch == 2 * photographs.meta.batch
    assert characters.meta.lr[0] == pytest.approx(3 * photographs.meta.lr[0])
    assert (characters.task.queries, characters.model) == (5, photographs.model)


def test_the_versions_of_eigen_reptile_differ_as_documented() -> None:
    assert METHODS["eigen-reptile-paper"] == EigenReptile.paper()
    assert replace(EigenReptile.authors(), include_start=False, length="net") == EigenReptile.paper()


@final
@dataclass(frozen=True)
class Joint(GradientMethod):
    """A method of a user: one network for all tasks, without adaptation."""

    @property
    def requirements(self) -> Requirements:
        return Requirements(queries=True)

    def meta_losses(self, batch: MetaBatch) -> MetaLosses:
        raise NotImplementedError

    def adapt(self, adaptation: Adaptation) -> tuple[Tensor, InnerState]:
        raise NotImplementedError

    def predict(self, network: Network, theta: Tensor, tasks: Tasks, x: Tensor) -> Tensor:
        raise NotImplementedError


@pytest.mark.parametrize("data", [Sine(), CifarFs(), Omniglot()], ids=lambda data: type(data).__name__)
def test_gradient_methods_of_a_user_are_trained_with_adam(data: Dataset) -> None:
    """A gradient is not a step: without Adam, an outer step size of 1 would diverge."""
    meta = preset(data, Joint()).meta
    assert meta.optimizer == "adam"
    assert max(meta.lr) < 0.01
