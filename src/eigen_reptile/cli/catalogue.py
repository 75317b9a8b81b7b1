"""What the command line offers, read from the source code: registry entries and each command's flags.

Commands that only list, explain or reject something are answered from here, without importing torch. Flags follow
tyro's naming. Where the source does not determine them, more are accepted than exist: tyro checks them again.
"""

import ast
import re
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import takewhile
from typing import Any, Literal, NamedTuple

from eigen_reptile.cli.arguments import UsageError, asks_for_help, take_name, unknown_option_error
from eigen_reptile.cli.layout import one_line, wrapped
from eigen_reptile.cli.settings import OPTIONS, TYRO_FLAGS, flags
from eigen_reptile.cli.source import Class, Definition, class_of, definition, find_class

RegistryKind = Literal["methods", "datasets", "models", "recipes"]
REGISTRIES: dict[RegistryKind, tuple[str, str]] = {
    "methods": ("eigen_reptile.methods", "METHODS"),
    "datasets": ("eigen_reptile.data", "DATASETS"),
    "models": ("eigen_reptile.nn", "MODELS"),
    "recipes": ("eigen_reptile.recipes", "RECIPES"),
}
"""The module and the name of each dict."""

STUDIES = {
    "theory": "Numerical tests of the theorems in the paper's appendices.",
    "practice": "Heads under wrong labels, label errors beside cleanlab, the audit's calibration; not in the paper.",
}
"""What `run` offers besides the recipes."""


CITED = "https://"
"""Docstrings that begin with a citation have a link in their first line."""
LINK = re.compile(rf",? {CITED}[^\s,)]*[^\s,):.]")
NAMES_AFTER = {
    "train": ("method", "data set"),
    "eval": ("run", "data set"),
    "run": ("recipe",),
    "data": ("view of the data", "data set"),
}
"""The names that stand between a command and its flags."""


class RegistryEntry(NamedTuple):
    """An entry of a registry."""

    name: str
    expression: str
    """The value as written in the source."""
    about: str
    """The first docstring line of its class, or a recipe's description."""
    type: Class | None
    """The class of the value, if the source shows it."""


class CommandNames(NamedTuple):
    """The words before the first flag."""

    command: str
    """The command, as in `OPTIONS`."""
    words: tuple[str, ...]
    types: Mapping[str, Class | None]
    """The classes of the named method and data set, by the field that holds them; None if they are not known."""


@cache
def _registry(kind: RegistryKind) -> tuple[Mapping[str, ast.expr], str]:
    """The values of a registry by name, and the module in which they are written."""
    module, constant = REGISTRIES[kind]
    match definition(constant, module):
        case Definition(ast.Dict(keys=keys, values=values), origin) if all(isinstance(k, ast.Constant) for k in keys):
            names = [str(key.value) for key in keys if isinstance(key, ast.Constant)]
            return dict(zip(names, values, strict=True)), origin
    raise LookupError(f"{module}.{constant} must be written as a dict with strings as keys")


def entries(kind: RegistryKind) -> dict[str, RegistryEntry]:
    """The entries of a registry, in the order of its dict."""
    return {name: _entry(kind, name) for name in _registry(kind)[0]}


def _entry(kind: RegistryKind, name: str) -> RegistryEntry:
    values, module = _registry(kind)
    value = values[name]
    expression = ast.unparse(value)
    if kind == "recipes":
        return RegistryEntry(name, expression, _recipe_summary(value, module), None)
    return RegistryEntry(name, expression, _summary(value, module), class_of(value, module))


def _summary(value: ast.expr, module: str) -> str:
    """The docstring line that describes an expression best.

    It is that of a cited class in a keyword argument, as in `Maml(transform=SparseMask())`; otherwise that of the last
    class if only inner classes are cited, as in `WithSampleSelection(Reptile(), Ispl())`; otherwise that of the
    outermost class.
    """
    keywords = value.keywords if isinstance(value, ast.Call) else []
    cited = [about for keyword in keywords for about in _summaries(keyword.value, module) if CITED in about]
    outermost, *others = _summaries(value, module) or [""]
    wraps_cited = CITED not in outermost and any(CITED in about for about in others)
    return next(iter(cited), others[-1] if wraps_cited else outermost)


def _summaries(value: ast.expr, module: str) -> list[str]:
    """The first docstring lines of all classes that an expression names, the outermost first."""
    classes = (find_class(node.id, module) for node in ast.walk(value) if isinstance(node, ast.Name))
    return [owner.about for owner in classes if owner]


def _entry_class(kind: RegistryKind, name: str | None) -> Class | None:
    """The class of an entry, without reading the others."""
    return _entry(kind, name).type if name is not None and name in _registry(kind)[0] else None


def _recipe_summary(value: ast.expr, module: str) -> str:
    """The first string in the definition of a recipe."""
    if isinstance(value, ast.Name) and (found := definition(value.id, module)) and isinstance(found.node, ast.expr):
        value = found.node
    texts = (node.value for node in ast.walk(value) if isinstance(node, ast.Constant) and isinstance(node.value, str))
    return next(texts, "")


def known_names(kind: RegistryKind) -> Mapping[str, Any]:
    """The names in a registry. If its module has been imported, entries added at run time count as well."""
    module, constant = REGISTRIES[kind]
    found: Mapping[str, Any] = getattr(sys.modules.get(module), constant, None) or _registry(kind)[0]
    return {**found, **STUDIES} if kind == "recipes" else found


def parse_names(command: str, args: Sequence[str]) -> CommandNames:
    """The names that follow a command; a `UsageError` if one is unknown, or missing where help is not asked for."""
    kinds = NAMES_AFTER.get(command, ())
    words = tuple(takewhile(lambda arg: not arg.startswith("-"), args))[: len(kinds)]
    for kind, word in zip(kinds, words, strict=False):
        if (known := _allowed_names(kind)) is not None:
            take_name([word], known, kind)
    if not asks_for_help(args):
        _check_complete(command, words)
    given = dict(zip(kinds, words, strict=False))
    types = {
        "method": _entry_class("methods", given.get("method")),
        "data": _entry_class("datasets", given.get("data set")),
    }
    return CommandNames(f"run {recipe}" if (recipe := given.get("recipe")) in STUDIES else command, words, types)


def _check_complete(command: str, words: Sequence[str]) -> None:
    """Raise a `UsageError` if a name is missing for which there is no default."""
    if command in ("run", "data") and not words:
        kind = NAMES_AFTER[command][0]
        take_name([], _allowed_names(kind) or {}, kind)
    if command == "train" and len(words) < 2:
        usage = " ".join(("eigen-reptile train", *(words or ["METHOD"]), "DATASET --out PATH"))
        missing = "data set" if words else "method and a data set"
        methods = [] if words else [wrapped(f"methods: {', '.join(known_names('methods'))}", "  ")]
        raise UsageError(f"name a {missing}: {usage}", [*methods, "data sets:", *overview("datasets")])


def overview(kind: RegistryKind) -> list[str]:
    """One line for each entry of a registry."""
    abouts = {entry.name: entry.about for entry in entries(kind).values()} | (STUDIES if kind == "recipes" else {})
    column = max(map(len, abouts), default=0) + 4
    return [one_line(name, LINK.sub("", about), column) for name, about in abouts.items()]


def _allowed_names(kind: str) -> Mapping[str, Any] | None:
    """The allowed names of a kind; None if any is."""
    match kind:
        case "method":
            return known_names("methods")
        case "data set":
            return known_names("datasets")
        case "recipe":
            return known_names("recipes")
        case "view of the data":
            return {"noise": "the effect of label noise"}
    return None


def check_flags(command: str, args: Sequence[str]) -> None:
    """Raise a `UsageError` for an unknown name or flag. Commands that are not in `OPTIONS` are not checked."""
    if command not in OPTIONS or asks_for_help(args):
        return
    command, words, types = parse_names(command, args)
    known = flags(command, types)
    for arg in args:
        flag = arg.partition("=")[0]
        if flag == "--":
            return
        if flag.startswith("--") and flag.replace("_", "-") not in known:
            program = " ".join(("eigen-reptile", command.split()[0], *words))
            if flag.replace("_", "-") in flags(command):
                chosen = " ".join(words)
                raise UsageError(f"no option named {flag} for {chosen}: it belongs to others (see {program} --help)")
            raise unknown_option_error(flag, sorted(known - TYRO_FLAGS | {"--help"}), program)


def fields_as_flags(message: str, command: str) -> str:
    """Write the settings that a message names between backquotes as flags: `task.way` becomes --task.way.

    Messages of the library name settings of an experiment, hence the flags of `train`, or options of the command.
    """
    pattern = r"`([a-z0-9_.]+)`"
    if not re.search(pattern, message):
        return message
    known = flags("train") | (flags(command) if command in OPTIONS else frozenset())

    def as_flag(match: re.Match[str]) -> str:
        flag = "--" + match[1].replace("_", "-")
        return flag if flag in known else match[0]

    return re.sub(pattern, as_flag, message)
