"""Typed values from JSON, without any conversion: a number in place of text, or a list of an object, is an error."""

import math
from collections.abc import Callable
from dataclasses import is_dataclass
from typing import Any, get_args, get_origin

import cattrs
from cattrs.gen import make_dict_structure_fn, mapping_structure_factory

Structure = Callable[[Any, Any], Any]
"""From JSON to a typed value, as cattrs calls it."""


def _structure_float(value: Any, _: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"a finite number was expected, not {str(value)[:40]!r}")
    return float(value)


def _structure_int(value: Any, _: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"a whole number was expected, not {str(value)[:40]!r}")
    return value


def _structure_bool(value: Any, _: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"true or false was expected, not {str(value)[:40]!r}")
    return value


def _structure_text(value: Any, _: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"text was expected, not {str(value)[:40]!r}")
    return value


def _is_mapping(kind: Any) -> bool:
    return get_origin(kind) is dict


def _is_tuple(kind: Any) -> bool:
    return get_origin(kind) is tuple


def _strict_tuple(kind: Any, converter: cattrs.BaseConverter) -> Structure:
    items = converter.get_structure_hook(list[get_args(kind)[0]])  # type: ignore[misc]

    def structure(value: Any, _: Any) -> Any:
        if not isinstance(value, list):
            raise ValueError(f"a list was expected, not {str(value)[:40]!r}")
        return tuple(items(value, list))

    return structure


def _strict_object(kind: Any, converter: cattrs.BaseConverter) -> Structure:
    make: Any = make_dict_structure_fn if is_dataclass(kind) else mapping_structure_factory
    fields = make(kind, converter)

    def structure(value: Any, _: Any) -> Any:
        if not isinstance(value, dict):
            raise ValueError(f"an object was expected, not {str(value)[:40]!r}")
        return fields(value, kind)

    return structure


def strict_converter() -> cattrs.Converter:
    """A converter that accepts only values of the expected types; unknown keys are errors."""
    converter = cattrs.Converter(forbid_extra_keys=True)
    converter.register_structure_hook_factory(is_dataclass, _strict_object)
    converter.register_structure_hook_factory(_is_mapping, _strict_object)
    converter.register_structure_hook_factory(_is_tuple, _strict_tuple)
    converter.register_structure_hook(float, _structure_float)
    converter.register_structure_hook(int, _structure_int)
    converter.register_structure_hook(bool, _structure_bool)
    converter.register_structure_hook(str, _structure_text)
    return converter
