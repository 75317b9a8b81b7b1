"""JSON from files that anybody may have written: bounded before it is parsed, and never converted to what was expected.

A number in place of text, or a list in place of an object, is an error.
"""

import json
import math
import re
import reprlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import is_dataclass
from typing import Any, NoReturn, get_args, get_origin

import cattrs
from cattrs.cols import is_namedtuple, namedtuple_dict_structure_factory, namedtuple_dict_unstructure_factory
from cattrs.errors import IterableValidationNote
from cattrs.gen import make_dict_structure_fn

Structure = Callable[[Any, Any], Any]
"""From JSON to a typed value, as cattrs calls it."""

MOST_BYTES = 32 << 20
MOST_VALUES = 4_000_000
MOST_OBJECTS = 500_000
"""What is larger is refused: parsed, it could take hundreds of megabytes."""
DEEPEST = 50
"""Levels of nesting that are certainly read; a result has seven."""
LONGEST_TEXT = 10_000
MOST_DIGITS = 310

_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
"""One that is not closed extends to the end, so that the time to find all is linear."""
_UNPRINTABLE = re.compile("[\0\ud800-\udfff]")
"""Neither a path nor a terminal takes these."""
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


def parse_json(data: bytes) -> Any:
    """The value of a JSON text; ValueError if it is not JSON, has NaN or a key twice, or is too large to be parsed."""
    if len(data) > MOST_BYTES:
        raise ValueError(f"it has {len(data)} bytes, and at most {MOST_BYTES} are read")
    if data.count(b",") + data.count(b"[") > MOST_VALUES or data.count(b"{") > MOST_OBJECTS:
        raise ValueError(f"it has more than {MOST_VALUES} values or {MOST_OBJECTS} objects")
    if _is_deep(data):
        raise ValueError(f"it is nested far more than {DEEPEST} levels deep")
    text = data.decode("utf-8")
    return json.loads(
        text, object_pairs_hook=_unique, parse_constant=_refuse_constant, parse_float=_parse_float, parse_int=_parse_int
    )


def _is_deep(data: bytes) -> bool:
    """Whether brackets are left after the innermost pairs were removed as often as is allowed."""
    brackets = _STRING.sub(b"", data).translate(None, delete=_NO_BRACKETS)
    for _ in range(DEEPEST):
        outer = brackets.replace(b"[]", b"").replace(b"{}", b"")
        if len(outer) == len(brackets):
            break
        brackets = outer
    return len(brackets) > DEEPEST  # fewer may be brackets that do not match, which the parser explains


def _unique(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"it has the key {_shown(twice)} twice")
    return found


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number in JSON")


def _parse_float(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"{_shown(text)} is too large a number")
    return value


def _parse_int(text: str) -> int:
    if len(text) > MOST_DIGITS:  # no float could hold it
        raise ValueError(f"{_shown(text)} is too large a number")
    return int(text)


def structured(converter: cattrs.BaseConverter, value: Any, kind: Any) -> Any:
    """The typed value; ValueError with one line if it has another form."""
    try:
        return converter.structure(value, kind)
    except cattrs.BaseValidationError as error:
        raise ValueError(describe(error)) from error


def describe(error: cattrs.BaseValidationError) -> str:
    """What is wrong with a JSON value, and where, in one line; the first five reasons."""
    reasons = cattrs.transform_error(error, format_exception=_describe_reason)
    return " ".join("; ".join(reasons[:5]).split())


def _describe_reason(reason: BaseException, _: Any) -> str:
    match reason:
        case cattrs.ForbiddenExtraKeysError():
            return f"unknown fields {', '.join(sorted(map(_shown, reason.extra_fields)))[:200]}"
        case KeyError():
            return f"missing or unknown name {str(reason)[:80]}"
        case TypeError() | AttributeError():
            return "a value of the wrong type"
    return str(reason)[:500]


def _shown(value: Any) -> str:
    """A value for a message, cut before its text is built."""
    return repr((value if isinstance(value, str) else reprlib.repr(value))[:40])


def structure_float(value: Any, _: Any) -> float:
    """A finite number; ValueError if the value is none."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not _is_finite(value):
        raise ValueError(f"a finite number was expected, not {_shown(value)}")
    return float(value)


def _is_finite(value: int | float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number that no float can hold
        return False


def _structure_int(value: Any, _: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not -(2**63) <= value < 2**63:
        raise ValueError(f"a whole number of at most 64 bits was expected, not {_shown(value)}")
    return value


def _structure_bool(value: Any, _: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"true or false was expected, not {_shown(value)}")
    return value


def _structure_text(value: Any, _: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"text was expected, not {_shown(value)}")
    if len(value) > LONGEST_TEXT:
        raise ValueError(f"text of at most {LONGEST_TEXT} characters was expected, not of {len(value)}")
    if _UNPRINTABLE.search(value):
        raise ValueError(f"text was expected, but {_shown(value)} has a null character or half of a surrogate pair")
    return value


def _structure_scalar(value: Any, kind: Any) -> str | int | float | None:
    """Text, a number as it is written, or null where that is allowed."""
    if value is None and type(None) in get_args(kind):
        return None
    if isinstance(value, str):
        return _structure_text(value, kind)
    structure_float(value, kind)
    return value  # type: ignore[no-any-return]


def _is_mapping(kind: Any) -> bool:
    return get_origin(kind) is dict


def _is_list(kind: Any) -> bool:
    return get_origin(kind) in (list, tuple)


def _strict_list(kind: Any, converter: cattrs.BaseConverter) -> Structure:
    make: Any = get_origin(kind)
    item_kind = get_args(kind)[0]
    item = converter.get_structure_hook(item_kind)

    def structure(value: Any, _: Any) -> Any:
        if not isinstance(value, list):
            raise ValueError(f"a list was expected, not {_shown(value)}")
        found: list[Any] = []
        try:
            for entry in value:
                found.append(item(entry, item_kind))
        except Exception as error:
            raise _located(error, len(found), item_kind) from None
        return make(found)

    return structure


def _strict_mapping(kind: Any, converter: cattrs.BaseConverter) -> Structure:
    item_kind = get_args(kind)[1]
    item = converter.get_structure_hook(item_kind)

    def structure(value: Any, _: Any) -> Any:
        entries = _object(value)
        found, name = {}, ""
        try:
            for name, entry in entries.items():
                found[_structure_text(name, str)] = item(entry, item_kind)
        except Exception as error:
            raise _located(error, name[:40], item_kind) from None
        return found

    return structure


def _located(error: Exception, place: int | str, kind: Any) -> cattrs.IterableValidationError:
    """The first error with its place; reading stops there, because there may be as many as a file has values."""
    error.add_note(IterableValidationNote(f"at {place!r}", place, kind))
    return cattrs.IterableValidationError("", [error], kind)


def _strict_object(kind: Any, converter: cattrs.BaseConverter) -> Structure:
    """A dataclass or a named tuple, from a JSON object."""
    make: Any = make_dict_structure_fn if is_dataclass(kind) else namedtuple_dict_structure_factory
    fields = make(kind, converter)
    return lambda value, _: fields(_object(value), kind)


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"an object was expected, not {_shown(value)}")
    return value


def strict_converter() -> cattrs.Converter:
    """A converter that converts nothing to the type that was expected; unknown keys are errors."""
    converter = cattrs.Converter(forbid_extra_keys=True)
    converter.register_structure_hook_factory(is_dataclass, _strict_object)
    converter.register_structure_hook_factory(is_namedtuple, _strict_object)
    converter.register_structure_hook_factory(_is_mapping, _strict_mapping)
    converter.register_structure_hook_factory(_is_list, _strict_list)
    converter.register_unstructure_hook_factory(is_namedtuple, namedtuple_dict_unstructure_factory)
    converter.register_structure_hook(float, structure_float)
    converter.register_structure_hook(int, _structure_int)
    converter.register_structure_hook(bool, _structure_bool)
    converter.register_structure_hook(str, _structure_text)
    converter.register_structure_hook(str | float, _structure_scalar)
    converter.register_structure_hook(str | float | None, _structure_scalar)
    return converter
