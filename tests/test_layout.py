"""The house: seven floors, imports that point down, one place that prints, and no file that can run code."""

import ast
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "eigen_reptile"

FLOORS = [
    ["errors", "direction"],
    ["runtime"],
    ["nn", "tasks", "inner"],
    ["data", "noise"],
    ["methods"],
    ["training", "practice"],
    ["recipes", "report"],
    ["demo", "cli", "__main__"],
]
"""From the ground floor up. On one floor, imports go to the left."""
PLACE = {room: (floor, place) for floor, rooms in enumerate(FLOORS) for place, room in enumerate(rooms)}

CODE_IN_DATA = {"_pickle", "cPickle", "cloudpickle", "dill", "joblib", "marshal", "pickle", "pickletools", "shelve"}
"""Modules that read files which can run code."""
WEIGHTS = PACKAGE / "practice" / "backbones" / "efficientnet_lite.py"
"""May call torch.load, for tensors only, on one file whose checksum it knows."""
LINES = 300
"""No file of the package may have more."""


def files() -> list[Path]:
    return [file for file in PACKAGE.rglob("*.py") if file != PACKAGE / "__init__.py"]


def room_of(file: Path) -> str:
    return file.relative_to(PACKAGE).with_suffix("").parts[0]


def imported(file: Path) -> set[str]:
    """Modules by their full names; for what is imported from a package, both the package and the name in it."""
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


def test_every_room_is_on_a_floor() -> None:
    assert {room_of(file) for file in files()} == set(PLACE)


def test_imports_point_down() -> None:
    upward = [
        f"{file.relative_to(PACKAGE)} imports {room}"
        for file in files()
        for room in imported_rooms(file)
        if room != room_of(file) and PLACE[room] >= PLACE[room_of(file)]
    ]
    assert not upward


def test_only_the_command_line_and_the_report_know_recipes() -> None:
    assert {room_of(file) for file in files() if "recipes" in imported_rooms(file)} <= {"recipes", "report", "cli"}


def test_methods_know_no_architecture() -> None:
    """Widths and layers that suit a method are presets."""
    for file in (PACKAGE / "methods").rglob("*.py"):
        known = {name for name in imported(file) if name.startswith("eigen_reptile.nn")}
        assert not {
            name for name in known if name.split(".")[2:3] in (["conv4"], ["mlp"], ["model"], ["Conv4"], ["Mlp"])
        }


def test_only_the_command_line_prints() -> None:
    for file in files():
        names = {node.id for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Name)}
        assert room_of(file) == "cli" or "print" not in names


def test_files_are_short() -> None:
    long = {file.name: lines for file in files() if (lines := len(file.read_text().splitlines())) > LINES}
    assert not long


def test_every_file_of_tests_has_a_name_of_its_own() -> None:
    """Folders of tests are not packages, so pytest cannot tell two modules of one name apart."""
    names = Counter(file.name for file in (ROOT / "tests").rglob("test_*.py"))
    assert not [name for name, times in names.items() if times > 1]


def test_no_back_doors() -> None:
    """Nothing writes to a frozen object, and nothing asks an object whether it has an attribute."""
    for file in files():
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call):
                name = ast.unparse(node.func)
                assert name not in ("object.__setattr__", "hasattr"), f"{file}, line {node.lineno}"


def test_no_file_that_can_run_code_is_read() -> None:
    """One module reads pickles, opcode by opcode, without executing them; no other knows them."""
    reader = PACKAGE / "data" / "io" / "safe_unpickle.py"
    assert {name for name in imported(reader) if name.split(".")[0] in CODE_IN_DATA} == {
        "pickletools",
        "pickletools.opcodes",
    }
    for file in files():
        if file != reader:
            assert CODE_IN_DATA.isdisjoint(name.split(".")[0] for name in imported(file)), file
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call):
                called, keywords = ast.unparse(node.func), {keyword.arg: keyword.value for keyword in node.keywords}
                if called == "torch.load":
                    only_tensors = keywords.get("weights_only")
                    assert file == WEIGHTS, file
                    assert isinstance(only_tensors, ast.Constant), file
                    assert only_tensors.value is True, file
                if called in ("np.load", "numpy.load"):
                    allowed = keywords.get("allow_pickle")
                    assert isinstance(allowed, ast.Constant), file
                    assert allowed.value is False, file
