"""The house: imports point down, and only the command line prints."""

import ast
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "eigen_reptile"

LEVELS = [
    {"direction", "progress", "streams", "runs"},
    {"data", "learner"},
    {"tasks"},
    {"inner"},
    {"methods"},
    {"evaluate"},
    {"config"},
    {"recipes", "train"},
    {"experiment"},
    {"report", "bench"},
    {"cli"},
]
LEVEL = {room: number for number, rooms in enumerate(LEVELS) for room in rooms}


def room_of(file: Path) -> str:
    return file.relative_to(PACKAGE).with_suffix("").parts[0]


def imported_rooms(file: Path) -> set[str]:
    rooms = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module == "eigen_reptile":
            rooms |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("eigen_reptile."):
            rooms.add((node.module or "").split(".")[1])
    return rooms


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


def test_no_pickle_and_no_printing_outside_the_command_line() -> None:
    for file in files():
        names = {node.id for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Name)}
        assert "pickle" not in file.read_text().replace("never pickle", "").replace("a pickle", "")
        assert room_of(file) == "cli" or "print" not in names
