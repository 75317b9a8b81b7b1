"""What the command line reads from the source code: a small package with known answers, and tyro's own help."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from eigen_reptile import cli
from eigen_reptile.cli import catalogue
from eigen_reptile.cli.arguments import UsageError
from eigen_reptile.cli.settings import OPTIONS, TYRO_FLAGS, flags
from eigen_reptile.errors import ConfigError

SOURCE = Path(cli.__file__).parent.parent
HEAVY = ("torch", "numpy", "scipy", "matplotlib", "tyro", "rich")

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
    for file in ("errors.py", "__main__.py"):
        shutil.copy(SOURCE / file, package)
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
    found = value(small_package, f"sorted(settings.flags('train', c.parse_names('train', ['{method}']).types))")
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
    assert shown.splitlines()[:3] == ["usage: eigen-reptile train [METHOD] [DATASET] [OPTIONS]", "", "Train."]
    assert "METHOD: step, long-step, sure-step, rotated, wrapped\nDATASET: waves\n" in shown
    assert "  --device {auto,cpu}       (default: auto)\n  --seeds INT ...           (default: 0 1)\n" in shown
    assert "  --out PATH                The folder.\n  --json                    Print JSON.\n" in shown
    assert "method options: The method.\n  --method.rate FLOAT       The rate, in units. (default: 1.0)\n" in shown
    assert "task options: The tasks.\n  --task.shots INT          Samples of each class. (default: 7)\n" in shown
    assert "train METHOD DATASET --help" in shown.splitlines()[-2] + shown.splitlines()[-1]


LIGHT = [
    (0, "list"),
    (0, "list --json"),
    (0, "--help"),
    (0, "--version"),
    *((0, f"{command} --help") for command in OPTIONS),
    (2, "trian"),
    (2, "train mml"),
    (2, "train maml glyhps"),
    (2, "run sin"),
    (2, "run"),
    (2, "data nois"),
    (2, "eval run glyhps"),
    *((2, f"{command} --no-such-flag") for command in ("train maml glyphs", "run sine", "report x", "list", "train")),
]


@pytest.mark.parametrize(("code", "arguments"), LIGHT)
def test_answers_without_heavy_imports(code: int, arguments: str) -> None:
    program = (
        "import sys; from eigen_reptile.cli import run; code = run(sys.argv[1:]); print(*sys.modules); sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments.split()], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == code
    assert "Traceback" not in done.stderr
    assert [name for name in HEAVY if name in done.stdout.splitlines()[-1].split()] == []


@pytest.mark.parametrize(
    ("command", "args", "message"),
    [
        ("train", "maml glyphs --task.wya 3", "did you mean --task.way? (see eigen-reptile train maml glyphs --help)"),
        (
            "train",
            "--task.wya=3",
            "no option named --task.wya: did you mean --task.way? (see eigen-reptile train --help)",
        ),
        ("run", "sine --onyl x", "no option named --onyl: did you mean --only? (see eigen-reptile run sine --help)"),
        ("run", "theory --scale full", "no option named --scale"),
        ("data", "noise glyphs --data.root x", "no option named --data.root"),
        ("train", "rptile", "no method named rptile: did you mean reptile?"),
        ("train", "reptile glyps", "no data set named glyps: did you mean glyphs?"),
        ("list", "--zzzzzz", "no option named --zzzzzz (see eigen-reptile list --help)"),
    ],
)
def test_unknown_names_and_flags_are_rejected(command: str, args: str, message: str) -> None:
    with pytest.raises(UsageError) as error:
        catalogue.check_flags(command, args.split())
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("command", "args"),
    [
        ("train", "--out x --task.way=3 --task.no-epochs --seeds -1"),
        ("train", "maml glyphs --meta.final_lr 1 --evaluation.monitor_tasks 3"),
        ("train", "maml glyphs --no-such-flag --help"),
        ("train", "maml --out x -- --no-such-flag"),
        ("run", "theory --only x"),
        ("report", "folder --json"),
        ("new-command", "--no-such-flag"),
    ],
)
def test_what_tyro_accepts_or_has_to_decide_is_let_through(command: str, args: str) -> None:
    catalogue.check_flags(command, args.split())


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("use a smaller `task.way`", "use a smaller --task.way"),
        ("`meta.final_lr` must be finite, not `inf`", "--meta.final-lr must be finite, not `inf`"),
        ("pooling `same` or `valid`, `no.such_field`", "pooling `same` or `valid`, `no.such_field`"),
        ("`seeds` names a seed twice", "--seeds names a seed twice"),
        ("`Maml()` and `task.way + 1` stay", "`Maml()` and `task.way + 1` stay"),
    ],
)
def test_field_names_in_messages_become_flags(message: str, shown: str) -> None:
    assert catalogue.fields_as_flags(message, "run") == shown


def test_options_of_the_command_are_translated_too() -> None:
    assert catalogue.fields_as_flags("`per_class`", "run") == "--per-class"
    assert catalogue.fields_as_flags("`per_class`", "train") == "`per_class`"


def test_the_command_line_translates_field_names(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing_list(args: object) -> None:
        raise ConfigError("`task.way` must be\nat least 2")

    monkeypatch.setattr("eigen_reptile.cli.listing.list_command", failing_list)
    assert cli.run(["list"]) == 2
    assert capsys.readouterr().err == "eigen-reptile: --task.way must be at least 2\n"


def test_every_command_can_be_imported() -> None:
    assert all(callable(command.load()) for command in cli.COMMANDS.values())


def test_entries_are_those_of_the_registries() -> None:
    from eigen_reptile.data import DATASETS
    from eigen_reptile.methods import METHODS, Ispl, SparseMask
    from eigen_reptile.nn import MODELS
    from eigen_reptile.recipes import RECIPES

    registries: dict[catalogue.RegistryKind, Mapping[str, object]]
    registries = {"methods": METHODS, "datasets": DATASETS, "models": MODELS}
    for kind, registry in registries.items():
        entries = catalogue.entries(kind)
        assert {name: entry.type and entry.type.name for name, entry in entries.items()} == {
            name: type(thing).__name__ for name, thing in registry.items()
        }
        lines = {name: (thing.__doc__ or "").split("\n")[0] for name, thing in registry.items()}
        own = {name for name, entry in entries.items() if entry.about == lines[name]}
        # Methods that are composed of others show the docstring of the part that makes the difference.
        composed = ("WithSampleSelection(", "transform=", "objective=")
        plain = {name for name, entry in entries.items() if not any(word in entry.expression for word in composed)}
        assert own == plain
    assert catalogue.entries("methods")["sparse-maml"].about == str(SparseMask.__doc__).split("\n")[0]
    assert catalogue.entries("methods")["reptile-ispl"].about == str(Ispl.__doc__).split("\n")[0]
    assert {name: entry.about for name, entry in catalogue.entries("recipes").items()} == {
        name: recipe.about for name, recipe in RECIPES.items()
    }


def test_a_registry_that_was_extended_at_run_time_is_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    from eigen_reptile.methods import METHODS

    monkeypatch.setitem(METHODS, "my-method", METHODS["reptile"])
    catalogue.check_flags("train", ["my-method", "--method.order", "1"])


def tyro_flags(capsys: pytest.CaptureFixture[str], command: str, *names: str) -> set[str]:
    """The flags that begin a line of tyro's help."""
    with pytest.raises(SystemExit):
        cli.COMMANDS[command].load()([*names, "--help"])
    lines = capsys.readouterr().out.splitlines()
    heads = [re.match(r"[│ ]*((?:-h, )?--[a-z][a-z0-9.-]*(?:, --[a-z][a-z0-9.-]*)*)", line) for line in lines]
    found = {flag for head in heads if head for flag in head[1].split(", ") if flag != "-h"}
    assert "--help" in found
    return found


def commands() -> list[tuple[str, ...]]:
    methods = [("train", name) for name in catalogue.entries("methods")]
    datasets = [("train", "reptile", name) for name in catalogue.entries("datasets")]
    noise = [("data", "noise", name) for name in catalogue.entries("datasets")]
    others = [("quickstart",), ("eval",), ("run", "sine"), ("run", "theory"), ("report",), ("compare",)]
    return [*methods, *datasets, *noise, *others]


@pytest.mark.parametrize("command", commands(), ids=" ".join)
def test_no_flag_of_tyro_is_rejected(capsys: pytest.CaptureFixture[str], command: tuple[str, ...]) -> None:
    name, _, types = catalogue.parse_names(command[0], [*command[1:], "--help"])
    assert tyro_flags(capsys, *command) <= flags(name, types)


def test_flags_of_maml_on_glyphs_are_nearly_those_of_tyro(capsys: pytest.CaptureFixture[str]) -> None:
    """The model is not determined by the names alone, nor are the classes of a method's nested fields."""
    static = flags("train", catalogue.parse_names("train", ["maml", "glyphs"]).types)
    more = static - tyro_flags(capsys, "train", "maml", "glyphs") - TYRO_FLAGS
    assert {flag for flag in more if not re.match(r"--(model|method\.[a-z-]+)\.", flag)} == set()
