"""The command line as a whole: help, and one line for everything that can be wrong with the arguments."""

import json
import re
from pathlib import Path

import pytest

from command_line import ABSENT, SMALL, Cli, plain
from eigen_reptile.cli import COMMANDS
from eigen_reptile.data import DATASETS
from eigen_reptile.methods import METHODS
from eigen_reptile.training.presets import preset


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        ("trian", "did you mean train?"),
        ("train eigen-reptle sine --out run", "did you mean eigen-reptile?"),
        ("run sin", "did you mean sine?"),
        ("run sine --only reptil", "did you mean reptile?"),
        ("train reptile cifar-f --out run", "did you mean cifar-fs?"),
        ("train reptile sine --out run --meta.stpes 3", "did you mean --meta.steps?"),
        ("list --jsn", "did you mean --json?"),
        ("list mml", "no method, data set, model or recipe named mml: did you mean maml?"),
        ("list maml -v", "unexpected argument -v"),
        ("train reptile sine --out run --meta.steps -3", "meta.steps must be at least 1, not -3"),
        ("train reptile sine --out run --meta.batch 0", "meta.batch must be at least 1, not 0"),
        (
            "train reptile sine --out run --meta.lr nan",
            "meta.lr must hold one or more finite step sizes above 0, not (nan,)",
        ),
        ("train reptile sine --out run --meta.lr", "meta.lr must hold one or more finite step sizes above 0, not ()"),
        ("train reptile sine --out run --meta.lr 1 1", "meta.lr holds a step size twice: (1.0, 1.0)"),
        ("train reptile sine --out run --meta.clip nan", "meta.clip must be above 0, not nan"),
        ("train reptile sine --out run --meta.final-lr -1", "meta.final-lr must be finite and at least 0, not -1.0"),
        (
            "train reptile sine --out run --inner.batch 0",
            "inner.batch must be at least 1, or None for the whole support, not 0",
        ),
        ("train reptile sine --out run --inner.beta2 1", "inner.beta2 must be at least 0 and below 1, not 1.0"),
        ("train reptile sine --out run --inner.lr inf", "inner.lr must be finite and above 0, not inf"),
        ("train reptile sine --out run --inner.lr 1e300", "inner.lr is too large for float32: 1e+300"),
        ("train reptile sine --out run --meta.batch 9999999999", "meta.batch must be below 2**31, not 9999999999"),
        (
            "train reptile sine --out run --model.hidden 8 9999999999",
            "model.hidden must be below 2**31, not 9999999999",
        ),
        ("train reptile sine --out run --model.hidden 0", "hidden must hold widths of at least 1, not (0,)"),
        ("train reptile glyphs --out run --model.filters 0", "filters must be at least 1, not 0"),
        ("train reptile sine --out run --task.queries -1", "task.queries must be at least 0, not -1"),
        ("train reptile sine --out run --evaluation.tasks 0", "evaluation.tasks must be at least 1, not 0"),
        (
            "train reptile sine --out run --evaluation.shots",
            "evaluation.shots must hold different numbers of at least 1, not ()",
        ),
        (
            "train reptile sine --out run --evaluation.inner-steps 5 3",
            "evaluation.inner-steps must hold increasing numbers",
        ),
        ("train reptile sine --out run --evaluation.way 3", "evaluation.way must be the way of training, 1"),
        ("train reptile sine --out run --evaluation.noisy", "evaluation.noisy needs label noise"),
        (
            "train reptile sine --out run --seeds -1",
            "seeds must hold one or more whole numbers from 0 to 2**63 - 1, not (-1,)",
        ),
        (
            "train reptile sine --out run --seeds",
            "seeds must hold one or more whole numbers from 0 to 2**63 - 1, not ()",
        ),
        ("train reptile sine --out run --checkpoint-every 0", "--checkpoint-every must be at least 1, not 0"),
        ("train reptile sine --out run --workers 0", "--workers must be at least 1, not 0"),
        ("train reptile sine --out run --workers 2 --quiet", "2 workers cannot share the 1 tasks of a meta-batch"),
        ("train reptile sine --out run --timeout nan", "--timeout must be above 0 and at most 1000000, not nan"),
        ("train reptile sine --out run --timeout 1e300", "--timeout must be above 0 and at most 1000000, not 1e+300"),
        ("run sine --steps 0", "meta.steps must be at least 1, not 0"),
        ("run sine --steps 99999999999999999999", "meta.steps must be below 2**31"),
        ("run sine --seeds 1 1", "seeds holds a seed twice: (1, 1)"),
        ("run sine --jobs 0", "--jobs must be at least 1, not 0"),
        ("run sine --checkpoint-every 0", "--checkpoint-every must be at least 1, not 0"),
        ("run theory --only spectra", "did you mean spectrum?"),
        ("quickstart --steps -5", "--steps must be at least 1, not -5"),
        ("quickstart --glyph-steps 0", "--glyph-steps must be at least 1, not 0"),
        ("train reptile sine --out run --meta.steps many", "--meta.steps must be a whole number, not many (see"),
        ("train reptile sine --out run --meta.steps=1e3", "--meta.steps must be a whole number, not 1e3 (see"),
        (f"train reptile sine --out run --meta.steps {'9' * 5000}", "--meta.steps must be a whole number, not 999"),
        ("train reptile sine --out run --meta.steps", "--meta.steps needs a value (see"),
        ("train reptile sine --out run --meta.lr 0.5 x", "--meta.lr must be one or more numbers, not 0.5 x (see"),
        ("train reptile sine --out run --seeds 0.5 --quiet", "--seeds must be one or more whole numbers, not 0.5 (see"),
        ("train reptile glyphs --out run --evaluation.way nan", "must be a whole number or None, not nan (see"),
        ("train reptile glyphs --out run --noise.rate x", "--noise.rate must be a number or None, not x (see"),
        ("run sine --jobs x", "--jobs must be a whole number, not x (see"),
        ("train reptile sine --out run --inner.optimizer adm", "--inner.optimizer must be one of sgd, adam, not adm"),
        ("train reptile sine --out run --protocol author", "--protocol must be one of"),
        (
            "train reptile sine --out run --protocol field --evaluation.tasks 9",
            "--protocol field determines --evaluation.tasks: leave out one of the two",
        ),
        ("train mixtfsl glyphs --out run --task.way 1", "task.way must be at least 2"),
        ("train maml glyphs --out run --task.epochs", "learns from tasks, not from the whole training set"),
        ("train maml glyphs --out run --task.queries 0", "this method learns from queries"),
        ("train maml-ispl glyphs --out run --inner.batch None", "inner.batch must be a number of samples"),
        ("train taml-theil glyphs --out run --meta.batch 1 --quiet", "meta.batch must be at least 2"),
        ("train prototypical sine --out run", "this method can only classify: use it on a data set of images"),
        ("train reptile sine --out run --task.way 3 --quiet", "task.way must be 1, not 3"),
        ("run cifar-fs --scale tiny", "--scale must be one of full, small, tune, not tiny (see"),
        ("run sine --data images", "--data cannot be used with this recipe: its data set, Sine, has no such setting"),
        ("run sine --per-class 180", "--per-class cannot be used with this recipe"),
        ("run cifar-fs --per-class 180", "--per-class cannot be used with this recipe"),
        ("run mini-imagenet --per-class 0", "per-class must be at least 1, not 0"),
        ("run cifar-fs --data nowhere --quiet", "nowhere"),
        ("train reptile folder --out run --quiet", "data.root must"),
        (
            f"train reptile sine --out run --quiet --device {ABSENT}",
            f"device {ABSENT} is not available on this machine: use auto",
        ),
        (f"run sine --quiet --device {ABSENT}", f"device {ABSENT} is not available on this machine: use auto"),
        ("train reptile sine --out run --device tpu", "--device must be one of auto, cpu, cuda, mps, not tpu"),
        ("train reptile sine --out run 7", "unexpected argument 7"),
        ("train reptile 7 --out run", "no data set named 7"),
        ("compare run", "Folder of the run whose scores are subtracted"),
        ("report", "Folder that is searched for result files"),
        ("data", "name a view of the data: noise"),
        ("data noise glyphs", "choose a kind of noise: --noise.kind symmetric"),
        ("data noise glyphs --noise.kind symmetric --noise.rate 0.3 --labels 0", "--labels must be from 1 to"),
        ("data noise sine --noise.kind symmetric --noise.rate 0.3 --quiet", "sine has no class labels"),
        ("train reptile sine", "name the folder of the run: --out PATH"),
        ("train reptile sine --out run -- --task.way 3", "--task.way stands after --, where there are no options"),
        ("train reptile glyphs --out run --data.root x", "no option named --data.root for reptile glyphs"),
        ("train reptile folder --out run --quiet --data.root ~no-one/x", "~no-one/x does not exist: set --data.root"),
        ("train eigen-reptile-paper sine --out run --inner.steps 1", "inner.steps must be at least 2"),
        ("train eigen-reptile-ispl sine --out run --inner.steps 1 --method.method.no-include-start", "at least 2"),
        (
            f"data noise glyphs --noise.kind symmetric --noise.rate 0.3 --data.size {10**30}",
            "data.size must be below 2**31",
        ),
        ("data noise glyphs --noise.kind symmetric --noise.rate 0.3 --out .", "--out must name a file for the figure"),
        ("train maml glyphs --help iner", "no group of settings named iner: did you mean inner?"),
        ("train maml --help all", "name a method and a data set: eigen-reptile train METHOD DATASET --help all"),
        ("run", "name a recipe: sine"),
        ("compare --tyro-print-completion rc", "Shell should be one"),
        ("--quiet", "name a command: quickstart, train, eval, run"),
    ],
)
def test_a_wrong_argument_gives_one_line_and_creates_no_file(cli: Cli, command: str, problem: str) -> None:
    code, out, err = cli(*command.split())
    assert (code, out) == (2, "")
    assert err.startswith("eigen-reptile: ")
    assert err.index("\n") == len(err) - 1
    assert plain(problem) in plain(err)
    assert "---" not in err  # the rules that tyro draws
    assert not list(Path().iterdir())


@pytest.mark.parametrize("words", [("--out", ""), ("--out=",), ("--out", "run", "--seeds", " ")])
def test_an_empty_argument_is_refused(cli: Cli, words: tuple[str, ...]) -> None:
    printed = cli("train", "reptile", "sine", *SMALL, *words)
    assert printed.code == 2
    assert f"the value after {words[-2:][0].removesuffix('=')} is empty" in printed.problem()
    assert not list(Path().iterdir())


def test_a_network_that_fits_into_no_memory_is_a_failure_of_one_line(cli: Cli) -> None:
    huge = ("--model.hidden", "2000000000", "2000000000", "2000000000")
    printed = cli("train", "eigen-reptile", "sine", "--out", "run", *SMALL, *huge, "--quiet")
    assert (printed.code, printed.out) == (1, "")
    assert "not enough memory" in printed.problem()
    assert "use a smaller network" in printed.problem()
    assert not Path("run").exists()


def test_a_folder_that_cannot_be_created_is_refused(cli: Cli) -> None:
    Path("file").touch()
    printed = cli("train", "eigen-reptile", "sine", "--out", "file/run", *SMALL, "--quiet")
    assert printed == (
        2,
        "",
        "eigen-reptile: cannot write to the folder file/run: Not a directory; choose another one\n",
    )


HELP = {
    "quickstart": ["Outer iterations of each method on the sine wave", "Outer iterations of each method on glyphs."],
    "train": [
        *("Folder of the run", "Outer iterations (T).", "Inner learning rate.", "METHOD: reptile", "DATASET: sine"),
        "train METHOD DATASET --help shows all settings",
    ],
    "run": [
        *("Cells to run; default: all.", "RECIPE: sine", "Scale of a recipe on images"),
        "Folder or archive of the recipe's data set",
    ],
    "eval": ["RUN: the folder of a finished run", "The evaluation; the defaults are the settings of the run."],
    "adapt": ["eigen-reptile adapt pets --out pets.safetensors", "File for the model", "rate of false alarms"],
    "predict": ["--csv answers.csv", "Pictures, or folders of which all pictures are taken."],
    "info": ["Show the card of a model", "File of the model."],
    "export": ["eigen-reptile export pets.safetensors --onnx pets.onnx", "probability for each class"],
    "audit": ["by up to a third", "Move all files back to where they were before --apply."],
    "report": ["Folder that is searched for result files"],
    "compare": ["Folder of a finished run.", "Folder of the run whose scores are subtracted."],
    "check": ["compare the checksums of every run and cache", "Folder of a run, of many runs, or of cached data"],
    "data": ["File for the figure of the class-transition matrix.", "Probability of a wrong label (p)."],
    "list": ["Print only warnings and errors."],
    "demo": ["Everything is computed on this machine", "Folder of run folders"],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_help_explains_the_options(cli: Cli, command: str, capsys: pytest.CaptureFixture[str]) -> None:
    code: object = 0
    try:
        code, text, _ = cli(command, "--help")
    except SystemExit as stop:  # tyro ends the process after it has printed the help
        code, text = stop.code, capsys.readouterr().out
    assert code == 0
    words = " ".join(text.replace("│", " ").split())
    assert [explanation for explanation in HELP[command] if explanation not in words] == []


SCREEN = (40, 80)
"""Lines and columns that people see at once."""


@pytest.mark.parametrize(
    "command",
    [
        *("list", "train --help", "train maml --help", "train maml glyphs --help"),
        *("train eigen-reptile-ispl folder --help", "train mixtfsl omniglot --help", "train meta-dropout fc100 --help"),
    ],
)
def test_overviews_fit_on_a_screen(cli: Cli, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(SCREEN[1]))
    printed = cli(*command.split())
    assert printed.code == 0
    lines = printed.out.splitlines()
    assert len(lines) <= SCREEN[0]
    assert max(map(len, lines)) <= SCREEN[1]


@pytest.mark.parametrize("command", ["train", "train --out run", "train maml", "train maml --out run --meta.steps 3"])
def test_training_asks_for_a_data_set_and_shows_them(cli: Cli, command: str) -> None:
    code, out, err = cli(*command.split())
    assert (code, out) == (2, "")
    first, *lines = err.splitlines()
    assert first.startswith("eigen-reptile: name a ")
    assert "DATASET --out PATH" in first
    shown = [line.split()[0] for line in lines[lines.index("data sets:") + 1 :]]
    assert shown == list(DATASETS)
    assert not list(Path().iterdir())


def shown_defaults(text: str) -> dict[str, str]:
    """The defaults by flag in a help text."""
    entries = re.findall(r"^  (--[a-z0-9.-]+)(.*?)(?=^  -|^\S|\Z)", text, re.MULTILINE | re.DOTALL)
    found = {flag: re.search(r"\(default: (.*?)\)", " ".join(about.split())) for flag, about in entries}
    return {flag: default[1] for flag, default in found.items() if default}


@pytest.mark.parametrize(("method", "data"), [("maml", "glyphs"), ("reptile", "sine"), ("gnn", "omniglot")])
def test_help_shows_the_defaults_of_the_method_on_the_data_set(cli: Cli, method: str, data: str) -> None:
    exp = preset(DATASETS[data], METHODS[method])
    expected = {
        "--task.shots": str(exp.task.shots),
        "--meta.steps": str(exp.meta.steps),
        "--meta.lr": " ".join(map(str, exp.meta.lr)),
        "--inner.lr": str(exp.inner.lr),
        "--seeds": "0",
    }
    assert expected.items() <= shown_defaults(cli("train", method, data, "--help").out).items()
    everything = shown_defaults(cli("train", method, data, "--help", "all").out)
    assert expected.items() <= everything.items()
    assert everything["--evaluation.tasks"] == str(exp.evaluation.tasks)
    own = shown_defaults(cli("train", method, data, "--help", "task").out)
    assert own == {flag: value for flag, value in everything.items() if flag.startswith("--task.")}


@pytest.mark.parametrize("name", ["reptile", "sine", "mini-imagenet", "conv4", "all-methods", "theory"])
def test_list_describes_what_is_named(cli: Cli, name: str) -> None:
    kinds = json.loads(cli("list", "--json").out)
    expected = {kind: {name: found[name]} for kind, found in kinds.items() if name in found}
    assert json.loads(cli("list", name, "--json").out) == expected
    words = " ".join(cli("list", name).out.split())
    for found in expected.values():
        assert found[name].partition(" [")[0] in words


def test_list_describes_all_of_a_kind(cli: Cli) -> None:
    printed = cli("list", "methods")
    assert [line.split()[0] for line in printed.out.splitlines()[1:] if line[2] != " "] == list(METHODS)
    assert list(json.loads(cli("list", "methods", "--json").out)) == ["methods"]


def test_help_and_no_arguments_show_all_commands(cli: Cli) -> None:
    printed = cli("--help")
    assert printed.code == 0
    assert all(f"  {command} " in printed.out for command in COMMANDS)
    assert cli() == printed
