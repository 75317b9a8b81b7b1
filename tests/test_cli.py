"""The command line as people use it: exit code, standard output and standard error."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from eigen_reptile.cli import COMMANDS, run
from eigen_reptile.config import Experiment, MetaConfig
from eigen_reptile.data import DATASETS
from eigen_reptile.evaluate import EvalConfig
from eigen_reptile.learner import Mlp
from eigen_reptile.methods import METHODS
from eigen_reptile.recipes import RECIPES

SMALL = (
    *("--meta.steps", "3", "--compile", "off", "--model.hidden", "4", "4", "--inner.steps", "2"),
    *("--evaluation.tasks", "2", "--evaluation.monitor-tasks", "2", "--evaluation.after", "0", "2"),
)


class Said(NamedTuple):
    code: int
    out: str
    err: str

    def problem(self) -> str:
        """The one line that says what is wrong."""
        (line,) = (line for line in self.err.splitlines() if line.startswith("eigen-reptile: "))
        return line


Cli = Callable[..., Said]


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Runs a command in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FORCE_COLOR", raising=False)  # colours would come between the words looked for
    return lambda *args: Said(run(args), *capsys.readouterr())


def files(folder: str) -> dict[Path, tuple[int, bytes]]:
    """All files, with the time of their last change."""
    found = (path for path in Path(folder).rglob("*") if path.is_file() and path.name != ".lock")
    return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in found}


def saved(file: str) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(Path(file).read_text())
    return value


def test_list_names_everything(cli: Cli) -> None:
    said = cli("list", "--json")
    listed = json.loads(said.out)
    assert list(listed["methods"]) == list(METHODS)
    assert list(listed["datasets"]) == list(DATASETS)
    assert list(listed["recipes"]) == list(RECIPES)
    assert all(meaning for entries in listed.values() for meaning in entries.values())


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("trian", "did you mean train?"),
        ("train eigen-reptle --out run", "did you mean eigen-reptile?"),
        ("run sin", "did you mean sine?"),
        ("run sine --only reptil", "did you mean reptile?"),
        ("bench sin", "did you mean sine?"),
        ("train --out run --meta.stpes 3", "did you mean --meta.steps?"),
        ("list --jsn", "did you mean --json?"),
        ("train --out run --meta.steps -3", "steps must be at least 1, not -3"),
        ("train --out run --meta.batch 0", "batch must be at least 1, not 0"),
        ("train --out run --evaluation.tasks 0", "tasks must be at least 1, not 0"),
        ("train --out run --seeds -1", "seeds must hold one or more whole numbers from 0 to 2**63 - 1, not (-1,)"),
        ("train --out run --checkpoint-every 0", "--checkpoint-every must be at least 1, not 0"),
        ("run sine --steps 0", "steps must be at least 1, not 0"),
        ("run sine --seeds 1 1", "seeds names a seed twice: (1, 1)"),
        ("run sine --checkpoint-every 0", "--checkpoint-every must be at least 1, not 0"),
        ("quickstart --steps -5", "--steps must be at least 1, not -5"),
        ("bench --repeats 0", "--repeats must be at least 1, not 0"),
        ("train --out run --meta.steps many", "--meta.steps: invalid literal for int() with base 10: 'many'"),
        ("train --out run --inner.optimizer adm", "Expected one of ('sgd', 'adam')"),
        ("train --out run 7", "unexpected argument 7"),
        ("train", "name the folder of the run: --out PATH"),
        ("run", "name a recipe: sine"),
        ("--quiet", "name a command: quickstart, train, run"),
    ],
)
def test_a_wrong_argument_gets_one_line_and_leaves_no_trace(cli: Cli, command: str, said: str) -> None:
    code, out, err = cli(*command.split())
    assert (code, out) == (2, "")
    assert err.startswith("eigen-reptile: ")
    assert err.index("\n") == len(err) - 1
    assert said in err
    assert "---" not in err  # the rules that tyro draws
    assert not list(Path().iterdir())


def test_a_folder_that_cannot_be_made_is_refused(cli: Cli) -> None:
    Path("file").touch()
    said = cli("train", "--out", "file/run", *SMALL, "--quiet")
    assert said == (2, "", "eigen-reptile: cannot write to the folder file/run: Not a directory; choose another\n")


HELP = {
    "quickstart": ["Outer iterations of each method"],
    "train": ["Folder of the run.", "Outer iterations (T).", "Inner learning rate.", "Whether the starting point is"],
    "run": ["Cells to run; all if none is named.", "Recipes: sine"],
    "report": ["Folder below which the result files lie."],
    "bench": ["JSON file for the figures."],
    "list": ["Print nothing but errors."],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_help_explains_the_fields(cli: Cli, command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        cli(command, "--help")
    assert stop.value.code == 0
    shown = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert [explanation for explanation in HELP[command] if explanation not in shown] == []


def test_help_and_no_arguments_show_all_commands(cli: Cli) -> None:
    said = cli("--help")
    assert said.code == 0
    assert all(f"  {command} " in said.out for command in COMMANDS)
    assert cli() == said


def test_json_is_one_object_and_a_finished_run_is_not_repeated(cli: Cli) -> None:
    first = cli("train", "reptile", "--out", "run", *SMALL, "--json")
    assert (first.code, first.err) == (0, "")
    assert json.loads(first.out)["results"]["reptile"]["test"] == saved("run/result.json")["test"]
    before = files("run")
    assert cli("train", "reptile", "--out", "run", *SMALL, "--json") == first
    assert files("run") == before

    assert cli("train", "reptile", "--out", "run", *SMALL, "--quiet") == (0, "", "")
    table = cli("train", "reptile", "--out", "run", *SMALL).out
    assert all(f"{error:.4f}" in table for error in saved("run/result.json")["test"]["mean"])

    other = cli("train", "reptile", "--out", "run", *SMALL, "--inner.lr", "0.5", "--quiet")
    assert other.code == 2
    assert "inner.lr is 0.02 there and 0.5 here" in other.problem()
    assert files("run") == before


@pytest.fixture
def recipe(monkeypatch: pytest.MonkeyPatch) -> str:
    """A recipe that takes less time than those of the paper."""
    evaluation = EvalConfig(tasks=2, monitor_tasks=2, after=(0, 2))
    base = Experiment(model=Mlp(hidden=(4,)), meta=MetaConfig(lr=(0.5, 1.0)), evaluation=evaluation, compile="off")
    cells = {name: replace(base, method=METHODS[name]) for name in ("reptile", "eigen-reptile")}
    monkeypatch.setitem(RECIPES, "small", lambda: cells)
    return "small"


def test_a_finished_cell_is_skipped(cli: Cli, recipe: str) -> None:
    command = ("run", recipe, "--out", "runs", "--steps", "10", "--seeds", "0", "1", "--json")
    first = cli(*command, "--only", "reptile")
    assert first.code == 0
    assert list(json.loads(first.out)["results"]) == ["reptile"]
    config = saved("runs/reptile/config.json")
    assert (config["meta"]["steps"], config["meta"]["lr"], config["seeds"]) == (10, [0.5, 1.0], [0, 1])
    before = files("runs")
    assert cli(*command, "--only", "reptile") == first
    assert files("runs") == before

    both = json.loads(cli(*command).out)["results"]
    assert list(both) == ["reptile", "eigen-reptile"]
    assert both["reptile"] == json.loads(first.out)["results"]["reptile"]
    assert before.items() <= files("runs").items()


def test_a_cell_that_fails_does_not_stop_the_others(cli: Cli, recipe: str) -> None:
    Path("runs").mkdir()
    Path("runs/reptile").touch()
    said = cli("run", recipe, "--out", "runs", "--steps", "3", "--quiet")
    assert said.code == 2  # the folder is to blame
    assert "1 of 2 cells failed. reptile: cannot write to the folder runs/reptile: File exists" in said.problem()
    assert saved("runs/eigen-reptile/result.json")["test"] is not None


@pytest.mark.parametrize(
    ("steps", "reason"), [("9", "training diverged at iteration 4"), ("3", "the validation error is not finite")]
)
def test_a_run_that_diverges_says_what_to_try(cli: Cli, steps: str, reason: str) -> None:
    absurd = ("--meta.steps", steps, "--meta.lr", "1e9", "--seeds", "0", "1", "--json")
    said = cli("train", "--out", "run", *SMALL, *absurd)
    assert said.code == 1
    assert said.problem() == f"eigen-reptile: {reason}: try a smaller --meta.lr or --inner.lr"
    assert json.loads(said.out)["results"]["eigen-reptile"]["test"] is None


def test_a_full_disk_is_named_and_the_run_continues_when_there_is_room(cli: Cli) -> None:
    # 8 blocks of 512 bytes are enough for checkpoints of this network, but not for 80 lines of metrics.
    limited = ("sh", "-c", 'ulimit -f 8 && exec "$0" "$@"', str(Path(sys.executable).parent / "eigen-reptile"))
    often = ("--checkpoint-every", "10", "--evaluation.every", "1", "--evaluation.pictures", "100")
    command = ("train", "--out", "run", *SMALL, "--meta.steps", "80", *often)
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    stopped = subprocess.run([*limited, *command, "--quiet"], env=environment, capture_output=True, text=True)
    assert (stopped.returncode, stopped.stdout) == (1, "")
    assert stopped.stderr == (
        "eigen-reptile: cannot write run/metrics.jsonl: File too large. "
        "Nothing before the last checkpoint is lost: mend this, then repeat the command\n"
    )
    reached = max(int(file.stem.removeprefix("step-")) for file in Path("run/checkpoints").glob("*.json"))
    continued = cli(*command)
    assert continued.code == 0
    assert f"continuing after iteration {reached}" in continued.err
    assert saved("run/result.json")["history"]["step"] == list(range(81))


def test_quickstart_trains_both_methods_and_writes_the_report(cli: Cli) -> None:
    code, out, _ = cli("quickstart", "--steps", "4", "--out", "quick", "--json")
    assert code == 0
    said = json.loads(out)
    assert set(said["results"]) == {"reptile", "eigen-reptile"}
    assert Path(said["report"]).read_text().count("data:image/png") >= 2
    table = (Path(said["report"]).parent / "results.md").read_text()
    assert all(f"{result['test']['mean'][-1]:.4f}" in table for result in said["results"].values())
