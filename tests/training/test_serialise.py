"""Experiments to and from JSON."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, final

import pytest
from hypothesis import given, settings, strategies as st
from torch import nn

from doubles import ImageDouble
from eigen_reptile.data import DATASETS, Banks, Glyphs, Sine
from eigen_reptile.errors import ConfigError
from eigen_reptile.inner import InnerConfig
from eigen_reptile.methods import METHODS, EigenReptile, Method
from eigen_reptile.nn import MODELS, Mlp, Model
from eigen_reptile.runtime.progress import StartProgress
from eigen_reptile.tasks import TaskConfig
from eigen_reptile.training.config import Experiment, MetaConfig
from eigen_reptile.training.presets import preset
from eigen_reptile.training.serialise import from_json, to_json

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
        data=Glyphs() if method.requirements.classification_only else Sine(),
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
    experiment = replace(preset(DATASETS[data], METHODS["reptile"]), model=MODELS[model])
    assert from_json(json.loads(json.dumps(to_json(experiment)))) == experiment


@final
@dataclass(frozen=True)
class UserDataset(ImageDouble):
    """A data set that the package does not know."""

    sizes: tuple[int, ...] = (1, 2)

    def load(self, start_progress: StartProgress) -> Banks:
        raise NotImplementedError


@final
@dataclass(frozen=True)
class UserModel(Model):
    """A model that the package does not know."""

    width: int = 3

    @property
    def batched(self) -> bool:
        return False

    @property
    def compile_from(self) -> int | None:
        return None

    def build(self, shape: tuple[int, ...], outputs: int) -> nn.Module:
        raise NotImplementedError


def test_data_sets_and_models_of_a_user_survive_json() -> None:
    experiment = Experiment(data=UserDataset((3,)), model=UserModel(4), task=TaskConfig(way=2))
    assert from_json(json.loads(json.dumps(to_json(experiment)))) == experiment


def test_missing_settings_have_their_defaults() -> None:
    assert from_json({}) == Experiment()
    assert from_json({"inner": {"steps": 3}}) == Experiment(inner=InnerConfig(steps=3))


Change = Callable[[dict[str, Any]], dict[str, Any]]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda value: value | {"sedes": [1]}, r"unknown fields 'sedes' @ \$"),
        (lambda value: value | {"method": {"kind": "Serpent"}}, "Serpent"),
        (lambda value: value | {"method": {"kind": ["Maml"]}}, r"@ \$\.method"),
        (lambda value: value | {"method": {"order": 2}}, r"@ \$\.method"),
        (lambda value: value | {"method": 3}, r"@ \$\.method"),
        (lambda value: value | {"meta": value["meta"] | {"steps": -1}}, r"`meta\.steps` must be at least 1, not -1"),
        (lambda value: value | {"meta": value["meta"] | {"steps": None}}, r"@ \$\.meta\.steps"),
        (lambda value: value | {"inner": 3}, r"@ \$\.inner"),
        (lambda value: value | {"inner": {"optimizer": "ad\nam"}}, r"@ \$\.inner\.optimizer"),
        (lambda value: value | {"evaluation": {"after": [1], "batch": 1000}, "task": []}, r"@ \$\.task"),
        (lambda value: value | {"evaluation": {"after": [1]}, "task": {"way": "5", "shots": "x"}}, r"\.task\.shots"),
        (lambda value: value | {"seeds": "many"}, "seeds"),
    ],
)
def test_invalid_experiments_are_rejected_in_one_line_that_names_the_place(change: Change, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        from_json(change(to_json(Experiment())))
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("value", [None, 3, "experiment", [], [{}]])
def test_other_json_than_an_object_is_rejected(value: Any) -> None:
    with pytest.raises(ConfigError, match="not a valid experiment"):
        from_json(value)
