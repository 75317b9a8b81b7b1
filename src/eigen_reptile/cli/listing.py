"""The `list` command, which reads the registries from the source code and so needs neither torch nor tyro."""

import json
from collections.abc import Sequence

from eigen_reptile.cli.arguments import UsageError
from eigen_reptile.cli.catalogue import REGISTRIES, THEORY, RegistryKind, entries
from eigen_reptile.cli.layout import row

HEADINGS: dict[RegistryKind, str] = {
    "methods": "methods",
    "datasets": "data sets",
    "models": "models (the preset of each method chooses one; `--model` options change its settings)",
    "recipes": "recipes",
}


def list_command(args: Sequence[str]) -> None:
    unexpected = [arg for arg in args if arg not in ("--json", "--quiet")]
    if unexpected:
        raise UsageError(f"unexpected argument {unexpected[0]} (see eigen-reptile list --help)")
    listed = {kind: _descriptions(kind) for kind in REGISTRIES}
    if "--json" in args:
        print(json.dumps(listed))
    elif "--quiet" not in args:
        column = max(len(name) for found in listed.values() for name in found) + 4
        tables = [[HEADINGS[kind], *_rows(found, column)] for kind, found in listed.items()]
        print("\n\n".join("\n".join(lines) for lines in tables))


def _descriptions(kind: RegistryKind) -> dict[str, str]:
    """A description of each entry; methods and models share classes, so the expression is added to tell them apart."""
    if kind in ("methods", "models"):
        return {entry.name: f"{entry.about} [{entry.expression}]" for entry in entries(kind).values()}
    found = {entry.name: entry.about for entry in entries(kind).values()}
    return found | THEORY if kind == "recipes" else found


def _rows(found: dict[str, str], column: int) -> list[str]:
    return [line for name, about in found.items() for line in row(name, about, column)]
