"""The `list` command, which reads the registries from the source code and so needs neither torch nor tyro."""

import ast
import json
from collections.abc import Iterator, Sequence

from eigen_reptile.cli.arguments import UsageError, unknown_name_message
from eigen_reptile.cli.catalogue import REGISTRIES, STUDIES, RegistryEntry, RegistryKind, entries, overview
from eigen_reptile.cli.layout import row, wrapped

HINT = "Details: eigen-reptile list NAME, or of a kind: eigen-reptile list methods"

HEADINGS: dict[RegistryKind, str] = {
    "methods": "methods",
    "datasets": "data sets",
    "models": "models (the preset of each method chooses one)",
    "recipes": "recipes",
}

HELP: dict[RegistryKind, str] = {
    "methods": "eigen-reptile train {} DATASET --help method",
    "datasets": "eigen-reptile train METHOD {} --help data",
    "recipes": "eigen-reptile run {} --help",
}
"""Where the settings of an entry are explained."""


def list_command(args: Sequence[str]) -> None:
    names = [arg for arg in args if not arg.startswith("-")]
    unexpected = [arg for arg in args if arg.startswith("-") and arg not in ("--json", "--quiet")]
    if unexpected:
        raise UsageError(f"unexpected argument {unexpected[0]} (see eigen-reptile list --help)")
    chosen = _select(names)
    if "--json" in args:
        descriptions = {
            kind: {entry.name: _short_description(kind, entry) for entry in found} for kind, found in chosen.items()
        }
        print(json.dumps(descriptions))
    elif "--quiet" not in args:
        print("\n".join(_details(chosen, names) if names else _overview()))


def _select(names: Sequence[str]) -> dict[RegistryKind, list[RegistryEntry]]:
    """The entries with these names, or of the kinds with these names; all if there are no names."""
    listed = {kind: [*entries(kind).values(), *(_studies() if kind == "recipes" else [])] for kind in REGISTRIES}
    known = [*listed, *dict.fromkeys(entry.name for found in listed.values() for entry in found)]
    for name in names:
        if name not in known:
            raise UsageError(unknown_name_message("method, data set, model or recipe", name, known))
    if not names:
        return listed
    chosen = {kind: [entry for entry in found if {kind, entry.name} & {*names}] for kind, found in listed.items()}
    return {kind: found for kind, found in chosen.items() if found}


def _studies() -> list[RegistryEntry]:
    return [RegistryEntry(name, "", about, None) for name, about in STUDIES.items()]


def _overview() -> list[str]:
    """The methods by family, and one line for each entry of the other registries."""
    families: dict[str, list[str]] = {}
    for entry in entries("methods").values():
        families.setdefault(_family(entry), []).append(entry.name)
    column = max(map(len, families), default=0) + 4
    methods = [line for family, names in families.items() for line in row(family, ", ".join(names), column)]
    others = [line for kind in REGISTRIES if kind != "methods" for line in ("", HEADINGS[kind], *overview(kind))]
    return [HEADINGS["methods"], *methods, *others, wrapped(HINT)]


def _family(entry: RegistryEntry) -> str:
    """The folder of a method's class: trajectory, gradient, metric or wrappers."""
    folders = entry.type.module.split(".")[2:-1] if entry.type else []
    return folders[0] if folders else "other"


def _details(chosen: dict[RegistryKind, list[RegistryEntry]], names: Sequence[str]) -> Iterator[str]:
    """A paragraph for each entry of a kind, and all that is known about an entry that is named itself."""
    for kind, found in chosen.items():
        yield HEADINGS[kind]
        column = max(len(entry.name) for entry in found) + 4
        for entry in found:
            if entry.name in names:
                yield from _full_description(kind, entry)
            else:
                yield from row(entry.name, _short_description(kind, entry), column)


def _full_description(kind: RegistryKind, entry: RegistryEntry) -> Iterator[str]:
    yield f"  {entry.name}"
    docstring = ast.get_docstring(entry.type.node) if entry.type else None
    abouts = [entry.about, *(docstring.split("\n\n") if docstring else [])]
    for paragraph in dict.fromkeys(" ".join(about.split()) for about in abouts):
        yield wrapped(paragraph, "    ", "    ")
    facts = {
        "in Python": "" if kind == "recipes" else entry.expression,
        "source": entry.type.module.replace(".", "/") + ".py" if entry.type else "",
        "settings": HELP.get(kind, "").format(entry.name),
    }
    for name, fact in facts.items():
        if fact:
            yield wrapped(f"    {name + ':':<11}{fact}", " " * 15)


def _short_description(kind: RegistryKind, entry: RegistryEntry) -> str:
    """What an entry is; methods and models share classes, hence the expression tells them apart."""
    return f"{entry.about} [{entry.expression}]" if kind in ("methods", "models") else entry.about
