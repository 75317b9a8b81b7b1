"""The house: imports point down, only the command line prints, and nothing that is read can run code."""

import ast
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "eigen_reptile"

LEVELS = [
    {"compiled", "direction", "environment", "files", "pooled_norm", "progress", "running_norm", "streams", "threads"},
    {"runs"},
    {"data", "distributed", "learner", "models"},
    {"tasks"},
    {"inner", "noise"},
    {"methods"},
    {"evaluate"},
    {"config"},
    {"stage"},
    {"state"},
    {"recipes", "result", "train"},
    {"experiment"},
    {"bench", "jobs", "theory"},
    {"report"},
    {"cli"},
    {"__main__"},
]
LEVEL = {room: number for number, rooms in enumerate(LEVELS) for room in rooms}

SETTINGS = {"config", "data", "evaluate", "methods", "models", "noise", "tasks"}
"""The rooms that hold settings, of which recipes are made."""

CODE_IN_DATA = {"_pickle", "cPickle", "cloudpickle", "dill", "joblib", "marshal", "pickle", "pickletools", "shelve"}
"""Modules that read files which can run code."""


def room_of(file: Path) -> str:
    return file.relative_to(PACKAGE).with_suffix("").parts[0]


def imported(file: Path) -> set[str]:
    """Modules by their full names; of what is imported from a package, both the package and the name in it."""
    names = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file} has a relative import"
            names |= {node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


def imported_rooms(file: Path) -> set[str]:
    inside = {name.removeprefix("eigen_reptile.") for name in imported(file) if name.startswith("eigen_reptile.")}
    return {name.split(".")[0] for name in inside}


def files() -> list[Path]:
    return [file for file in PACKAGE.rglob("*.py") if file != PACKAGE / "__init__.py"]


def test_every_room_has_a_level() -> None:
    assert {room_of(file) for file in files()} == set(LEVEL)


def test_imports_point_down() -> None:
    upward = [
        f"{file.relative_to(PACKAGE)} imports {room}"
        for file in files()
        for room in imported_rooms(file)
        if room != room_of(file) and LEVEL[room] >= LEVEL[room_of(file)]
    ]
    assert not upward


def test_nothing_that_computes_knows_a_recipe() -> None:
    knowing = {room_of(file) for file in files() if "recipes" in imported_rooms(file)} - {"recipes"}
    assert knowing <= {"cli", "report"}


def test_recipes_know_settings_only() -> None:
    known = set().union(*(imported_rooms(file) for file in files() if room_of(file) == "recipes"))
    assert known - {"recipes"} <= SETTINGS


def test_no_printing_outside_the_command_line() -> None:
    for file in files():
        names = {node.id for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Name)}
        assert room_of(file) == "cli" or "print" not in names


def test_no_file_that_can_run_code_is_read() -> None:
    """One file may look at such files, step by step, without carrying the steps out; nothing else knows them."""
    reader = PACKAGE / "data" / "plain.py"
    assert {name for name in imported(reader) if name.split(".")[0] in CODE_IN_DATA} == {
        "pickletools",
        "pickletools.genops",
    }
    for file in files():
        words = file.read_text()
        if file == reader:
            words = words.replace("from pickletools import genops\n", "")
        else:
            assert CODE_IN_DATA.isdisjoint(name.split(".")[0] for name in imported(file)), file
        for harmless in ("never pickle", "a pickle", "allow_pickle=False", "safetensors.torch.load"):
            words = words.replace(harmless, "")
        assert "pickle" not in words, file
        assert "torch.load" not in words, file
