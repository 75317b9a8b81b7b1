"""The outcome of a study of the theory: curves with 95 % intervals, to be drawn and tabulated."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

import cattrs
import numpy as np
from cattrs.cols import is_namedtuple, namedtuple_dict_structure_factory, namedtuple_dict_unstructure_factory
from jaxtyping import Float
from torch import Tensor

from eigen_reptile.errors import ConfigError
from eigen_reptile.training.evaluate import interval95


class Line(NamedTuple):
    """One curve."""

    name: str
    x: list[float]
    y: list[float]
    ci95: list[float]
    """Half-widths of the 95 % intervals."""


class Panel(NamedTuple):
    """One plot of a study."""

    title: str
    x: str
    """Label of the x axis."""
    y: str
    """Label of the y axis."""
    lines: list[Line]
    logarithmic: bool = False
    """Whether the x axis is logarithmic."""


class Finding(NamedTuple):
    """A claim of the paper, and a difference that is negative wherever the claim holds."""

    says: str
    difference: Line


class Study(NamedTuple):
    """The outcome of a study."""

    title: str
    about: str
    """How it was measured, and what the paper says about it."""
    panels: list[Panel]
    findings: list[Finding]

    def to_json(self) -> dict[str, Any]:
        return cast(dict[str, Any], _CONVERTER.unstructure(self))

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> "Study":
        """The study in this JSON object, which may have other entries too; ConfigError if it is not a study."""
        try:
            return _CONVERTER.structure(value, Study)
        except cattrs.BaseValidationError as error:
            reasons = cattrs.transform_error(error, format_exception=lambda reason, _: str(reason))
            raise ConfigError("not a valid study: " + "; ".join(reasons[:5])) from error


def angle_in_degrees(first: Float[Tensor, "d"], second: Float[Tensor, "d"]) -> float:
    """The angle between two directions."""
    cosine = float(first @ second / (first.norm() * second.norm()))
    return math.degrees(math.acos(min(1.0, max(-1.0, cosine))))


def mean_line(name: str, x: Sequence[float], values: Sequence[np.ndarray]) -> Line:
    """The mean of the values at each x, with 95 % intervals."""
    means, halves = zip(*(interval95(samples) for samples in values), strict=True)
    return Line(name, *([float(f"{number:.6g}") for number in numbers] for numbers in (x, means, halves)))


def _make_converter() -> cattrs.Converter:
    """Named tuples as JSON objects."""
    converter = cattrs.Converter()
    converter.register_structure_hook_factory(is_namedtuple, namedtuple_dict_structure_factory)
    converter.register_unstructure_hook_factory(is_namedtuple, namedtuple_dict_unstructure_factory)
    return converter


_CONVERTER = _make_converter()
