"""The options of each command, derived from the source code of its options class by tyro's naming rules."""

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import NamedTuple

from eigen_reptile.cli.source import (
    Class,
    Field,
    class_of,
    expand_annotation,
    fields,
    find_class,
    is_config,
    subclasses,
)

OPTIONS = {
    "quickstart": "QuickstartOptions",
    "train": "TrainOptions",
    "eval": "EvalOptions",
    "run": "RunOptions",
    "run theory": "StudyOptions",
    "run practice": "StudyOptions",
    "adapt": "AdaptOptions",
    "predict": "PredictOptions",
    "info": "InfoOptions",
    "export": "ExportOptions",
    "report": "ReportOptions",
    "compare": "CompareOptions",
    "check": "CheckOptions",
    "audit": "AuditOptions",
    "demo": "DemoOptions",
    "data": "NoiseOptions",
    "list": "ListOptions",
}
"""The class in cli/ that holds each command's options."""

TYRO_FLAGS = frozenset({"--help", "--tyro-print-completion", "--tyro-write-completion"})

FieldPath = tuple[str, ...]
"""From the options class to a field; configs that tyro flattens are left out."""

Choose = Callable[[FieldPath, Field, Class], list[Class]]
"""The classes whose fields become options where a field is annotated with a class that has subclasses."""


class Setting(NamedTuple):
    """An option of a command, or the heading of a group of them."""

    path: FieldPath
    field: Field
    flags: tuple[str, ...]
    """The flag, and for a boolean also its negative form; none for a positional argument or a heading."""
    is_heading: bool = False


def options_class(command: str) -> Class:
    found = find_class(OPTIONS[command], "eigen_reptile.cli.options")
    if found is None:
        raise LookupError(f"there is no class {OPTIONS[command]}")
    return found


def flags(command: str, types: Mapping[str, Class | None] | None = None) -> frozenset[str]:
    """All long flags of a command, given the classes of the method and the data set as far as they are known.

    Where a class is unknown, the flags of all that the field could hold are included.
    """
    found = _settings(options_class(command), (), partial(_possible_classes, types or {}), (), {})
    return frozenset(flag for setting in found for flag in setting.flags) | TYRO_FLAGS


def default_settings(command: str, given: Mapping[str, ast.expr] | None = None) -> list[Setting]:
    """The options of a command if each field holds its default, or what is given for it."""
    return list(_settings(options_class(command), (), _default_class, (), given or {}))


def possible_settings(command: str) -> list[Setting]:
    """The options of a command for all names that can precede them; the defaults depend on these and are left out."""
    return list(_settings(options_class(command), (), partial(_possible_classes, {}), (), None))


def allowed_numbers(command: str, flag: str) -> str:
    """What an option accepts, if that is numbers: for example "a whole number or None"; empty if it is not."""
    for setting in possible_settings(command):
        if flag in setting.flags:
            parts = list(expand_annotation(setting.field.annotation, setting.field.module))
            words = {word for part in parts for word in _identifiers(part)}
            kind = "whole number" if "int" in words else "number"
            if words.isdisjoint(("int", "float")):
                return ""
            or_none = any(isinstance(part, ast.Constant) and part.value is None for part in parts)
            return (f"one or more {kind}s" if "tuple" in words else f"a {kind}") + " or None" * or_none
    return ""


def _possible_classes(types: Mapping[str, Class | None], path: FieldPath, field: Field, config: Class) -> list[Class]:
    family = [config, *subclasses(config)]
    chosen = types.get(".".join(path))
    return [chosen] if chosen in family else family


def _default_class(path: FieldPath, field: Field, config: Class) -> list[Class]:
    chosen = class_of(field.default, field.module) if field.default else None
    family = [config, *subclasses(config)]
    if chosen in family:
        return [chosen]
    return family if len(family) == 1 else []


def _settings(
    owner: Class, path: FieldPath, choose: Choose, outer: tuple[Class, ...], given: Mapping[str, ast.expr] | None
) -> Iterator[Setting]:
    """The options from the fields of a class.

    `given` holds the defaults that are overridden where the class is used; None if all of them are set at run time.
    """
    for plain in fields(owner).values():
        field = plain._replace(default=None if given is None else given.get(plain.name, plain.default))
        parts = list(expand_annotation(field.annotation, field.module))
        name = _tyro_name(parts)
        inside = (*path, field.name) if name is None else (*path, name) if name else path
        configs = [part for part in parts if isinstance(part, Class) and is_config(part)]
        if not configs:
            yield Setting(inside, field, _flags(inside, parts))
        elif inside != path:
            yield Setting(inside, field, (), is_heading=True)
        for config in configs:
            for choice in choose(inside, field, config):
                if choice not in (*outer, owner):  # a wrapper holds a method, but not one of its own class
                    yield from _settings(choice, inside, choose, (*outer, owner), _keyword_arguments(field.default))


def _keyword_arguments(default: ast.expr | None) -> dict[str, ast.expr] | None:
    """The keyword arguments of `TaskConfig(way=5)`; None without a default."""
    if default is None:
        return None
    keywords = default.keywords if isinstance(default, ast.Call) else []
    return {keyword.arg: keyword.value for keyword in keywords if keyword.arg}


def _tyro_name(parts: Iterable[ast.AST | Class]) -> str | None:
    """The name in `tyro.conf.arg(name=...)`; an empty one flattens the config."""
    for part in parts:
        match part:
            case ast.keyword(arg="name", value=ast.Constant(value=str(name))):
                return name
    return None


def _flags(path: FieldPath, parts: Iterable[ast.AST | Class]) -> tuple[str, ...]:
    words = {word for part in parts for word in _identifiers(part)}
    if "Positional" in words:
        return ()
    *groups, last = (name.replace("_", "-") for name in path)
    flag = "--" + ".".join((*groups, last))
    if "bool" in words and "FlagCreatePairsOff" not in words:
        return flag, "--" + ".".join((*groups, f"no-{last}"))
    return (flag,)


def _identifiers(part: ast.AST | Class) -> Iterator[str]:
    match part:
        case ast.Name(id=word) | ast.Attribute(attr=word):
            yield word
