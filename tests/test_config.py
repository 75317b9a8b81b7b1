"""Experiments as JSON, and what they refuse."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from eigen_reptile.config import Experiment, MetaConfig, from_json, standard, to_json
from eigen_reptile.data import DATASETS, Banks, CifarFs, Dataset, Glyphs, Omniglot, Sine
from eigen_reptile.evaluate import EvalConfig
from eigen_reptile.inner import InnerConfig
from eigen_reptile.methods import METHODS, EigenReptile, Iteration, Maml, Method
from eigen_reptile.methods.gradient import GradientMethod
from eigen_reptile.models import MODELS, Conv4, Mlp, Model
from eigen_reptile.progress import Announce
from eigen_reptile.tasks import TaskConfig

positive = st.floats(1e-6, 100, allow_nan=False)


@given(
    method=st.sampled_from([*METHODS.values(), EigenReptile(combine="mean_of_products", weighted=False)]),
    hidden=st.lists(st.integers(1, 99), max_size=3),
    steps=st.integers(1, 99),
    inner_lr=positive,
    lr=st.lists(positive, min_size=1, max_size=4, unique=True),
    seeds=st.lists(st.integers(0, 2**31), min_size=1, max_size=4, unique=True),
)
@settings(max_examples=50, deadline=None)
def test_an_experiment_survives_json(
    method: Method, hidden: list[int], steps: int, inner_lr: float, lr: list[float], seeds: list[int]
) -> None:
    experiment = Experiment(
        method=method,
        data=Glyphs() if method.classifies else Sine(),
        task=TaskConfig(way=5, queries=2),
        model=Mlp(tuple(hidden)),
        inner=InnerConfig(steps=steps, lr=inner_lr),
        meta=MetaConfig(lr=tuple(lr)),
        seeds=tuple(seeds),
    )
    assert from_json(json.loads(json.dumps(to_json(experiment)))) == experiment


@pytest.mark.parametrize("data", DATASETS)
@pytest.mark.parametrize("model", MODELS)
def test_every_data_set_and_model_survives_json(data: str, model: str) -> None:
    experiment = replace(standard(DATASETS[data], METHODS["reptile"]), model=MODELS[model])
    assert from_json(json.loads(json.dumps(to_json(experiment)))) == experiment


@dataclass(frozen=True)
class Brought(Dataset):
    """A data set that the package has never heard of."""

    sizes: tuple[int, ...] = (1, 2)

    @property
    def classifies(self) -> bool:
        return True

    def load(self, announce: Announce) -> Banks:
        raise NotImplementedError


@dataclass(frozen=True)
class BroughtModel(Model):
    """And such a model."""

    width: int = 3

    @property
    def batched(self) -> bool:
        return False

    def build(self, shape: tuple[int, ...], outputs: int) -> nn.Module:
        raise NotImplementedError


def test_what_a_user_brings_survives_json_too() -> None:
    experiment = Experiment(data=Brought((3,)), model=BroughtModel(4), task=TaskConfig(way=2))
    assert from_json(json.loads(json.dumps(to_json(experiment)))) == experiment


@pytest.mark.parametrize("data", [name for name, data in DATASETS.items() if data.classifies])
def test_pictures_begin_with_the_papers_settings(data: str) -> None:
    """Section 5.2 and the authors' script: what is not a matter of scale."""
    experiment = standard(DATASETS[data], METHODS["eigen-reptile"])
    assert experiment.model == Conv4(filters=32)
    assert experiment.task == TaskConfig(way=5, shots=15)
    inner, meta, evaluation = experiment.inner, experiment.meta, experiment.evaluation
    assert (inner.steps, inner.batch, inner.optimizer, inner.carry) == (7, 10, "adam", "shared")
    assert (meta.batch, meta.lr, meta.final_lr) == (5, (1.0,), 0.0)
    assert (evaluation.shots, evaluation.after, evaluation.batch) == ((1, 5), (50,), 15)


@pytest.mark.parametrize("data", ["cifar-fs", "omniglot", "glyphs"])
def test_methods_with_settings_of_their_own_begin_with_those(data: str) -> None:
    """MAML's, for things: 5 steps of 0.01 on N times the mean loss, 4 tasks of 15 queries, Adam at 0.001."""
    experiment = standard(DATASETS[data], METHODS["maml"])
    steps, rate, tasks, queries, outer = (5, 0.05, 4, 15, 0.001) if data == "cifar-fs" else (1, 0.4, 16, 5, 0.003)
    assert experiment.model == Conv4(filters=32, pooling="valid")
    assert experiment.task == TaskConfig(way=5, shots=1, queries=queries)
    inner, meta = experiment.inner, experiment.meta
    assert (inner.steps, inner.batch, inner.lr, inner.optimizer) == (steps, 5, rate, "sgd")
    assert (meta.batch, meta.lr, meta.optimizer, meta.clip) == (tasks, (outer,), "adam", 10.0)
    assert standard(DATASETS[data], METHODS["maml"], filters=7).model == replace(experiment.model, filters=7)


def test_characters_are_learnt_in_larger_steps_from_more_tasks_where_nothing_else_is_known() -> None:
    things, characters = (standard(DATASETS[data], METHODS["prototypical"]) for data in ("cifar-fs", "omniglot"))
    assert characters.meta.batch == 2 * things.meta.batch
    assert characters.meta.lr[0] == pytest.approx(3 * things.meta.lr[0])
    assert (characters.task.queries, characters.model) == (5, things.model)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda value: value | {"sedes": [1]}, "sedes"),
        (lambda value: value | {"method": {"kind": "Serpent"}}, "Serpent"),
        (lambda value: value | {"meta": value["meta"] | {"steps": -1}}, "steps must be at least 1, not -1"),
        (lambda value: value | {"seeds": "many"}, "seeds"),
    ],
)
def test_what_is_no_experiment_is_refused(change: Callable[[dict[str, object]], dict[str, object]], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        from_json(change(to_json(Experiment())))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: MetaConfig(steps=0), "steps .* not 0"),
        (lambda: MetaConfig(batch=0), "batch .* not 0"),
        (lambda: MetaConfig(lr=()), "lr"),
        (lambda: MetaConfig(lr=(0.1, 0.0)), "above 0"),
        (lambda: MetaConfig(lr=(0.1, 0.1)), "twice"),
        (lambda: MetaConfig(lr=(float("nan"),)), "finite"),
        (lambda: MetaConfig(final_lr=float("inf")), "finite"),
        (lambda: InnerConfig(lr=float("inf")), "finite"),
        (lambda: Sine(high=float("inf")), "finite"),
        (lambda: EvalConfig(pictures=(-1,)), "pictures"),
        (lambda: Experiment(seeds=(2**64,)), "seeds"),
        (lambda: MetaConfig(final_lr=-1.0), "final_lr"),
        (lambda: InnerConfig(steps=-3), "steps .* not -3"),
        (lambda: InnerConfig(lr=0.0), "lr"),
        (lambda: InnerConfig(beta2=1.0), "beta2"),
        (lambda: EvalConfig(tasks=0), "tasks .* not 0"),
        (lambda: EvalConfig(queries=0), "queries .* not 0"),
        (lambda: EvalConfig(batch=0), "batch .* not 0"),
        (lambda: EvalConfig(shots=()), "shots"),
        (lambda: EvalConfig(shots=(1, 0)), "shots"),
        (lambda: EvalConfig(shots=(5, 5)), "different"),
        (lambda: MetaConfig(patience=-1), "patience .* not -1"),
        (lambda: TaskConfig(way=0), "way .* not 0"),
        (lambda: Conv4(filters=0), "filters .* not 0"),
        (lambda: EvalConfig(after=(8, 0)), "after"),
        (lambda: TaskConfig(shots=0), "shots"),
        (lambda: Sine(points=0), "points"),
        (lambda: Sine(low=1.0, high=0.0), "low"),
        (lambda: Mlp(hidden=(0,)), "hidden"),
        (lambda: Experiment(seeds=()), "seeds"),
        (lambda: Experiment(seeds=(1, 1)), "twice"),
        (lambda: Experiment(data=CifarFs()), "way must be at least 2, not 1"),
        (lambda: Experiment(Maml(), inner=InnerConfig(optimizer="adam")), "use --inner.carry fresh"),
    ],
)
def test_wrong_values_are_refused_and_named(make: Callable[[], object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make()


def test_outer_step_falls_along_a_line() -> None:
    meta = MetaConfig(steps=10, final_lr=0.5)
    assert [meta.lr_at(1.0, step) for step in (0, 5, 10)] == pytest.approx([1.0, 0.75, 0.5])
    # The original script's schedule.
    assert [MetaConfig(steps=4).lr_at(0.1, t) for t in range(4)] == pytest.approx([0.1 * (1 - t / 4) for t in range(4)])


def test_lanes_are_step_sizes_times_seeds() -> None:
    lanes = Experiment(meta=MetaConfig(lr=(0.1, 0.2)), seeds=(5, 7)).lanes
    assert [(lane.lr, lane.seed) for lane in lanes] == [(0.1, 5), (0.1, 7), (0.2, 5), (0.2, 7)]


def test_presets_differ_as_documented() -> None:
    assert METHODS["eigen-reptile-paper"] == EigenReptile.paper()
    assert replace(EigenReptile.authors(), include_start=False, length="net") == EigenReptile.paper()


@final
@dataclass(frozen=True)
class Joint(GradientMethod):
    """A method that somebody made up: one network for all tasks, without adaptation."""

    def losses(self, iteration: Iteration) -> Tensor:
        network, tasks = iteration.network, iteration.tasks
        return iteration.learner.loss(network, tasks.x, tasks.y, network.new_ones(tasks.x.shape[:3]))


@pytest.mark.parametrize("data", [Sine(), CifarFs(), Omniglot()], ids=lambda data: type(data).__name__)
def test_a_gradient_is_not_taken_for_a_step(data: Dataset) -> None:
    """Of a method that suggests nothing itself."""
    meta = standard(data, Joint()).meta
    assert meta.optimizer == "adam"
    assert max(meta.lr) < 0.01
