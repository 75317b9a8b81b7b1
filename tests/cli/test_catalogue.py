"""What the command line reads from the source code of this package, against the registries and tyro's own help."""

import json
import re
import subprocess
import sys
from collections.abc import Mapping

import pytest

from eigen_reptile import cli
from eigen_reptile.cli import catalogue
from eigen_reptile.cli.arguments import UsageError
from eigen_reptile.cli.settings import OPTIONS, TYRO_FLAGS, flags
from eigen_reptile.errors import ConfigError

HEAVY = ("torch", "numpy", "scipy", "matplotlib", "tyro", "rich")

LIGHT = [
    (0, "list"),
    (0, "list --json"),
    (0, "list reptile methods"),
    (0, "train maml --help"),
    (0, "--help"),
    (0, "--version"),
    *((0, f"{command} --help") for command in OPTIONS),
    (2, "trian"),
    (2, "train mml"),
    (2, "train maml --out run"),
    (2, "train maml glyhps"),
    (2, "run sin"),
    (2, "run"),
    (2, "data nois"),
    (2, "eval run glyhps"),
    *((2, f"{command} --no-such-flag") for command in ("train maml glyphs", "run sine", "report x", "list", "train")),
]


ANSWER = """
import contextlib, io, json, sys
from eigen_reptile.cli import run
answers = []
for arguments in sys.argv[1:]:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run(arguments.split())
    answers.append([code, out.getvalue(), err.getvalue(), list(sys.modules)])
print(json.dumps(answers))
"""


def test_answers_without_heavy_imports() -> None:
    """All in one process: what one of them imported would be found at the next as well."""
    command = [sys.executable, "-c", ANSWER, *(arguments for _, arguments in LIGHT)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    for (expected, arguments), (code, out, err, modules) in zip(LIGHT, json.loads(done.stdout), strict=True):
        assert code == expected, arguments
        assert bool(out) == (code == 0), arguments
        assert "Traceback" not in err, arguments
        assert [name for name in HEAVY if name in modules] == [], arguments


@pytest.mark.parametrize(
    ("command", "args", "message"),
    [
        ("train", "maml glyphs --task.wya 3", "did you mean --task.way? (see eigen-reptile train maml glyphs --help)"),
        (
            "train",
            "reptile sine --task.wya=3",
            "no option named --task.wya: did you mean --task.way? (see eigen-reptile train reptile sine --help)",
        ),
        ("run", "sine --onyl x", "no option named --onyl: did you mean --only? (see eigen-reptile run sine --help)"),
        ("run", "theory --scale full", "no option named --scale"),
        ("data", "noise glyphs --data.root x", "no option named --data.root for noise glyphs: it belongs to others"),
        ("train", "reptile sine --data.skip_broken", "no option named --data.skip_broken for reptile sine"),
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
        ("train", "reptile sine --out x --task.way=3 --task.no-epochs --seeds -1"),
        ("train", "maml glyphs --meta.final_lr 1 --evaluation.monitor_tasks 3"),
        ("train", "maml glyphs --no-such-flag --help"),
        ("train", "maml glyphs --out x -- --no-such-flag"),
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
    catalogue.check_flags("train", ["my-method", "sine", "--method.order", "1"])


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
    methods = [("train", name, "glyphs") for name in catalogue.entries("methods")]
    datasets = [("train", "reptile", name) for name in catalogue.entries("datasets")]
    noise = [("data", "noise", name) for name in catalogue.entries("datasets")]
    others = [("quickstart",), ("eval",), ("run", "sine"), ("run", "theory"), ("report",), ("compare",)]
    practice = [("adapt",), ("predict",), ("info",), ("export",)]
    return [*methods, *datasets, *noise, *others, *practice]


@pytest.mark.parametrize("command", commands(), ids=" ".join)
def test_no_flag_of_tyro_is_rejected(capsys: pytest.CaptureFixture[str], command: tuple[str, ...]) -> None:
    name, _, types = catalogue.parse_names(command[0], [*command[1:], "--help"])
    assert tyro_flags(capsys, *command) <= flags(name, types)


@pytest.mark.parametrize(("method", "data"), [("maml", "glyphs"), ("eigen-reptile-ispl", "sine"), ("gnn", "folder")])
def test_help_of_all_settings_shows_the_flags_of_tyro(
    capsys: pytest.CaptureFixture[str], method: str, data: str
) -> None:
    assert cli.run(["train", method, data, "--help", "all"]) == 0
    shown = set(re.findall(r"--[a-z][a-z0-9.-]*", capsys.readouterr().out))
    assert shown == tyro_flags(capsys, "train", method, data)


def test_flags_of_maml_on_glyphs_are_nearly_those_of_tyro(capsys: pytest.CaptureFixture[str]) -> None:
    """The model is not determined by the names alone, nor are the classes of a method's nested fields."""
    static = flags("train", catalogue.parse_names("train", ["maml", "glyphs"]).types)
    more = static - tyro_flags(capsys, "train", "maml", "glyphs") - TYRO_FLAGS
    assert {flag for flag in more if not re.match(r"--(model|method\.[a-z-]+)\.", flag)} == set()
