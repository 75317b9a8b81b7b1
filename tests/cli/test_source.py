"""What the command line reads from source code, on a small package with known answers."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from eigen_reptile import cli
from eigen_reptile.cli.settings import TYRO_FLAGS

SOURCE = Path(cli.__file__).parent.parent

PACKAGE = {
    "__init__.py": "",
    "methods/__init__.py": """
from dataclasses import replace
from eigen_reptile.methods.method import Method
from eigen_reptile.methods.step import Step, Turned as Rotated
from eigen_reptile.methods.wrapper import Wrapper

METHODS: dict[str, Method] = {
    "step": Step(),
    "long-step": Step.long(),
    "sure-step": replace(Step.long(), sure=True),
    "rotated": Rotated(angle=3),
    "wrapped": Wrapper(Step(rate=2.0)),
}
""",
    "methods/method.py": """
from abc import ABC
from dataclasses import dataclass
from typing import ClassVar

@dataclass(frozen=True)
class Method(ABC):
    \"\"\"Any method.\"\"\"
    count: ClassVar[int] = 0
    rate: float = 1.0
    \"\"\"The rate,
    in units.\"\"\"
""",
    "methods/step.py": """
from dataclasses import dataclass
from typing import Generic, TypeVar
from eigen_reptile.methods.method import Method

T = TypeVar("T")

@dataclass(frozen=True)
class Step(Method):
    \"\"\"One step.

    And more about it.\"\"\"
    sure: bool = False

    @classmethod
    def long(cls) -> "Step":
        return cls(rate=9.0)

@dataclass(frozen=True)
class Angled(Method, Generic[T]):
    pass

@dataclass(frozen=True)
class Turned(Angled[int]):
    \"\"\"Rotated by an angle.\"\"\"
    angle: int = 1
""",
    "methods/wrapper.py": """
from dataclasses import dataclass
from eigen_reptile.methods.method import Method

@dataclass(frozen=True)
class Wrapper(Method):
    \"\"\"Another method, modified.\"\"\"
    inner_method: "Method" = Method()
""",
    "data/__init__.py": """
from dataclasses import dataclass

@dataclass(frozen=True)
class Waves:
    \"\"\"Waves.\"\"\"
    points_each: int = 50

DATASETS = {"waves": Waves()}
""",
    "nn/__init__.py": "MODELS = {}\n",
    "recipes/__init__.py": """
from eigen_reptile.recipes.first import FIRST as ONE

RECIPES = {"first": ONE}
""",
    "recipes/first.py": """
from typing import NamedTuple

class Recipe(NamedTuple):
    about: str
    cells: int

FIRST = Recipe("All of the first " "table.", 3)
""",
    "cli/options.py": """
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal
import tyro
from eigen_reptile.data import Waves
from eigen_reptile.methods.method import Method
from eigen_reptile.methods.step import Step

Switch = Annotated[bool, tyro.conf.FlagCreatePairsOff]
Device = Literal["auto", "cpu"]

@dataclass(frozen=True)
class Task:
    shots: int = 50
    \"\"\"Samples of each class.\"\"\"
    whole_set: bool = False

@dataclass(frozen=True)
class Output:
    json: Switch = False
    \"\"\"Print JSON.\"\"\"

@dataclass(frozen=True)
class TrainOptions:
    \"\"\"Train.\"\"\"
    method: Method = Step()
    \"\"\"The method.\"\"\"
    data: Waves = Waves()
    device: Device = "auto"
    task: Task = Task(shots=7)
    \"\"\"The tasks.\"\"\"
    seeds: tuple[int, ...] = (0, 1)
    out: Path | None = None
    \"\"\"The folder.\"\"\"
    output: Annotated[Output, tyro.conf.arg(name="")] = field(default_factory=Output)

@dataclass(frozen=True)
class QuickstartOptions(TrainOptions):
    \"\"\"Start.\"\"\"

@dataclass(frozen=True)
class ReportOptions:
    \"\"\"Report.\"\"\"
    results: tyro.conf.Positional[Path]
    \"\"\"Where the results are.\"\"\"
    insert: tuple[Path, ...] = ()

@dataclass(frozen=True)
class ListOptions:
    \"\"\"List.\"\"\"
    output: Annotated[Output, tyro.conf.arg(name="")] = Output()
""",
}

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def small_package(tmp_path: Path) -> Run:
    """The command line's light modules in a package of a few classes; runs Python code there."""
    package = tmp_path / "eigen_reptile"
    shutil.copytree(SOURCE / "cli", package / "cli", ignore=shutil.ignore_patterns("__pycache__"))
    for file in ("errors.py", "__main__.py", "runtime/__init__.py", "runtime/text.py", "runtime/interruption.py"):
        (package / file).parent.mkdir(exist_ok=True)
        shutil.copy(SOURCE / file, package / file)
    for name, text in PACKAGE.items():
        (package / name).parent.mkdir(exist_ok=True)
        (package / name).write_text(text)

    def run(*args: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, *args], cwd=tmp_path, capture_output=True, text=True, timeout=60)

    return run


def value(run: Run, expression: str) -> object:
    """The value of an expression about the catalogue of the small package."""
    code = f"import json; from eigen_reptile.cli import catalogue as c, settings; print(json.dumps({expression}))"
    done = run("-c", code)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_entries_show_the_expression_and_the_docstring_of_its_class(small_package: Run) -> None:
    assert value(small_package, "[entry[:3] for entry in c.entries('methods').values()]") == [
        ["step", "Step()", "One step."],
        ["long-step", "Step.long()", "One step."],
        ["sure-step", "replace(Step.long(), sure=True)", "One step."],
        ["rotated", "Rotated(angle=3)", "Rotated by an angle."],
        ["wrapped", "Wrapper(Step(rate=2.0))", "Another method, modified."],
    ]
    assert value(small_package, "c.entries('recipes')['first'][:3]") == ["first", "ONE", "All of the first table."]
    assert value(small_package, "c.entries('datasets')['waves'][:3]") == ["waves", "Waves()", "Waves."]


TRAIN_FLAGS = {
    *("--method.rate", "--data.points-each", "--device", "--task.shots", "--task.whole-set", "--task.no-whole-set"),
    *("--seeds", "--out", "--json"),
}


@pytest.mark.parametrize(
    ("method", "own_flags"),
    [
        ("step", {"--method.sure", "--method.no-sure"}),
        ("sure-step", {"--method.sure", "--method.no-sure"}),
        ("rotated", {"--method.angle"}),
        ("wrapped", {f"--method.inner-method.{name}" for name in ("rate", "sure", "no-sure", "angle")}),
    ],
)
def test_flags_follow_the_class_of_the_method(small_package: Run, method: str, own_flags: set[str]) -> None:
    found = value(
        small_package, f"sorted(settings.flags('train', c.parse_names('train', ['{method}', 'waves']).types))"
    )
    assert isinstance(found, list)
    assert set(found) - TYRO_FLAGS == TRAIN_FLAGS | own_flags


def test_flags_of_a_positional_argument_and_of_a_flattened_switch(small_package: Run) -> None:
    assert value(small_package, "sorted(settings.flags('report') - settings.TYRO_FLAGS)") == ["--insert"]
    assert value(small_package, "sorted(settings.flags('list') - settings.TYRO_FLAGS)") == ["--json"]


def test_flags_of_the_small_package_are_those_of_tyro(small_package: Run) -> None:
    code = "from eigen_reptile.cli.options import *; tyro.cli(TrainOptions, args=['--help'])"
    shown = set(re.findall(r"--[a-z][a-z.-]+", small_package("-c", code).stdout))
    assert shown == {*TRAIN_FLAGS, "--method.sure", "--method.no-sure", "--help"}


def test_help_of_the_small_package(small_package: Run) -> None:
    shown = small_package("-m", "eigen_reptile", "train", "--help").stdout
    assert shown.splitlines()[:3] == ["usage: eigen-reptile train METHOD DATASET --out PATH [OPTIONS]", "", "Train."]
    assert "METHOD: step, long-step, sure-step, rotated, wrapped\nDATASET: waves\n" in shown
    assert "  --out PATH                The folder.\n" in shown
    assert "  --task.shots INT          Samples of each class.\n  --seeds INT ..." in shown
    assert "train METHOD DATASET --help" in shown.splitlines()[-2] + shown.splitlines()[-1]


def test_help_of_the_options_outside_of_and_inside_configs(small_package: Run) -> None:
    shown = small_package("-m", "eigen_reptile", "quickstart", "--help").stdout
    assert shown.splitlines()[:3] == ["usage: eigen-reptile quickstart [OPTIONS]", "", "Start."]
    assert "  --device {auto,cpu}       (default: auto)\n  --seeds INT ...           (default: 0 1)\n" in shown
    assert "  --out PATH                The folder.\n  --json                    Print JSON.\n" in shown
    assert "method options: The method.\n  --method.rate FLOAT       The rate, in units. (default: 1.0)\n" in shown
    assert "task options: The tasks.\n  --task.shots INT          Samples of each class. (default: 7)\n" in shown
