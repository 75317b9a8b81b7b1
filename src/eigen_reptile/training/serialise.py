"""Experiments to and from JSON."""

import math
import os
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any, cast

import cattrs
from cattrs.strategies import configure_tagged_union, include_subclasses

from eigen_reptile.data import Dataset
from eigen_reptile.errors import ConfigError
from eigen_reptile.methods import GradientTransform, Method, Objective, SampleSelector
from eigen_reptile.nn import Model
from eigen_reptile.runtime.files import expanded
from eigen_reptile.runtime.strict_json import strict_converter, structure_float, structured
from eigen_reptile.training.config import Experiment
from eigen_reptile.training.old_formats import upgrade_experiment

FAMILIES = (GradientTransform, Objective, SampleSelector, Method, Dataset, Model)
"""Abstract classes whose subclasses an experiment can hold; in JSON an object names its class as `kind`."""


def to_json(experiment: Experiment) -> dict[str, Any]:
    """The experiment as dicts, lists and numbers."""
    return cast(dict[str, Any], _json_compatible(_converter().unstructure(experiment, Experiment)))


def from_json(value: Any) -> Experiment:
    """The experiment that this or an earlier version wrote, with defaults for missing settings.

    ConfigError if it is not an experiment.
    """
    if not isinstance(value, dict):
        raise ConfigError(f"not a valid experiment: a {type(value).__name__} in place of an object")
    try:
        return cast(Experiment, structured(_converter(), upgrade_experiment(value), Experiment))
    except ValueError as error:
        raise ConfigError(f"not a valid experiment: {error}") from error


def model_to_json(model: Model) -> dict[str, Any]:
    return cast(dict[str, Any], _json_compatible(_converter().unstructure(model, Model)))


def model_from_json(value: Any) -> Model:
    """The model that `model_to_json` wrote; ConfigError if it is none."""
    try:
        return cast(Model, structured(_converter(), value, Model))
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"not a valid model: {error}") from error


def with_absolute_paths(experiment: Experiment) -> Experiment:
    """The same experiment, with paths that lead to the same files from another working directory too."""
    data, noise = experiment.data, experiment.noise
    root = vars(data).get("root")
    if isinstance(root, Path):
        data = replace(data, **{"root": _absolute(root)})
    if noise.file is not None and expanded(noise.file).exists():  # otherwise it is one in the data folder
        noise = replace(noise, file=_absolute(noise.file))
    return replace(experiment, data=data, noise=noise)


def _absolute(path: Path) -> Path:
    return Path(os.path.abspath(expanded(path)))  # noqa: PTH100  # also without `..`, but with links as they are


def _converter() -> cattrs.Converter:
    return _converter_for(tuple(known for family in FAMILIES for known in _subclasses(family)))


@cache
def _converter_for(known: tuple[type, ...]) -> cattrs.Converter:
    """A converter that knows these classes, including those that a user has added since the last one was made."""
    converter = strict_converter()
    converter.register_structure_hook(float, _float_or_infinity)
    converter.register_structure_hook(Path, lambda value, _: Path(converter.structure(value, str)))
    for family in FAMILIES:
        include_subclasses(family, converter, union_strategy=partial(configure_tagged_union, tag_name="kind"))
    return converter


def _float_or_infinity(value: Any, kind: Any) -> float:
    return float(value) if value in ("inf", "-inf", "nan") else structure_float(value, kind)


def _subclasses(family: type) -> list[type]:
    children: list[type] = family.__subclasses__()
    return [found for child in children for found in (child, *_subclasses(child))]


def _json_compatible(value: Any) -> Any:
    """Tuples as lists and infinity as text, like JSON, so that what is written equals what is read."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {key: _json_compatible(item) for key, item in value.items()}
    return [_json_compatible(item) for item in value] if isinstance(value, tuple | list) else value
