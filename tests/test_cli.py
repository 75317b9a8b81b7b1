"""The command line as people use it: exit code, standard output and standard error."""

import io
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from PIL import Image
from rich.console import Console
from rich.progress import Progress

from eigen_reptile import jobs
from eigen_reptile.cli import COMMANDS, experiments, run
from eigen_reptile.cli.output import Bars, progress_columns
from eigen_reptile.config import Experiment, MetaConfig, standard
from eigen_reptile.data import DATASETS, Dataset
from eigen_reptile.distributed import Workers
from eigen_reptile.evaluate import EvalConfig
from eigen_reptile.methods import METHODS, Method
from eigen_reptile.models import Conv4, Mlp
from eigen_reptile.recipes import RECIPES, Recipe
from pictures import Patterns

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

ABSENT = "mps" if torch.cuda.is_available() else "cuda"
"""A device that this machine has not; none has both."""


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Runs a command in an empty folder, without data sets."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("EIGEN_REPTILE_DATA", raising=False)
    monkeypatch.delenv("FORCE_COLOR", raising=False)  # colours would come between the words looked for
    return lambda *args: Said(run(args), *capsys.readouterr())


def files(folder: str) -> dict[Path, tuple[int, bytes]]:
    """All files, with the time of their last change."""
    found = (path for path in Path(folder).rglob("*") if path.is_file() and path.name != ".lock")
    return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in found}


def saved(file: str) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(Path(file).read_text())
    return value


def without_tasks(test: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The test's numbers as the command line says them: not those of every single task."""
    return [{key: value for key, value in part.items() if key != "per_task"} for part in test]


def test_list_names_everything(cli: Cli) -> None:
    said = cli("list", "--json")
    listed = json.loads(said.out)
    assert list(listed["methods"]) == list(METHODS)
    assert list(listed["datasets"]) == list(DATASETS)
    assert list(listed["recipes"]) == [*RECIPES, "theory"]
    assert all(meaning for entries in listed.values() for meaning in entries.values())


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("trian", "did you mean train?"),
        ("train eigen-reptle --out run", "did you mean eigen-reptile?"),
        ("run sin", "did you mean sine?"),
        ("run sine --only reptil", "did you mean reptile?"),
        ("bench sin", "did you mean sine?"),
        ("train reptile cifar-f --out run", "did you mean cifar-fs?"),
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
        ("quickstart --glyph-steps 0", "--glyph-steps must be at least 1, not 0"),
        ("bench --repeats 0", "--repeats must be at least 1, not 0"),
        ("train --out run --meta.steps many", "--meta.steps: invalid literal for int() with base 10: 'many'"),
        ("train --out run --inner.optimizer adm", "Expected one of ('sgd', 'adam')"),
        ("train --out run --protocol author", "invalid choice 'author' for argument '--protocol'"),
        (
            "train --out run --protocol field --evaluation.tasks 9",
            "--protocol field has its own --evaluation.tasks:",
        ),
        ("train mixtfsl --out run --task.way 1", "task.way must be at least 2"),
        ("train maml glyphs --out run --task.epochs", "this method learns from tasks, not from the whole training set"),
        ("run cifar-fs --scale tiny", "Expected one of ('full', 'small', 'tune')"),
        ("run sine --data pictures", "this recipe's data set has no root"),
        ("run sine --per-class 180", "this recipe's data set has no per_class"),
        ("run cifar-fs --per-class 180", "this recipe's data set has no per_class"),
        ("run mini-imagenet --per-class 0", "per_class must be at least 1, not 0"),
        ("run cifar-fs --data nowhere --quiet", "there is no nowhere"),
        ("train reptile folder --out run --quiet", "--data.root must say where the pictures lie"),
        (f"train --out run --quiet --device {ABSENT}", f"there is no {ABSENT} here: use one of auto, "),
        (f"run sine --quiet --device {ABSENT}", f"there is no {ABSENT} here: use one of auto, "),
        ("train --out run --device tpu", "Expected one of ('auto', 'cpu', 'cuda', 'mps')"),
        ("train --out run 7", "unexpected argument 7"),
        ("train reptile 7 --out run", "no data set named 7"),
        ("compare run", "Folder of the run that is subtracted from it"),
        ("train", "name the folder of the run: --out PATH"),
        ("run", "name a recipe: sine"),
        ("--quiet", "name a command: quickstart, train, eval, run"),
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
    "quickstart": ["Outer iterations of each method on the sine wave", "Outer iterations of each method on glyphs."],
    "train": [
        *("Folder of the run.", "Outer iterations (T).", "Inner learning rate.", "Whether the starting point is"),
        *("Where to compute; auto", "Evaluate as the paper's authors", "data sets are sine"),
    ],
    "run": [
        "Cells to run; all if none is named.",
        "Recipes: sine",
        "Size of a picture recipe",
        "Where the recipe's data",
    ],
    "eval": ["eval RUN [DATASET]: RUN is the folder", "The protocol; what is not said stays as it was."],
    "report": ["Folder below which the result files lie."],
    "compare": ["Folder of a finished run.", "Folder of the run that is subtracted from it."],
    "data": ["Picture of the table of transitions.", "Probability of a wrong label (p)."],
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
    found = saved("run/result.json")["test"]
    assert json.loads(first.out)["results"]["reptile sine"]["test"] == without_tasks(found)
    before = files("run")
    assert cli("train", "reptile", "--out", "run", *SMALL, "--json") == first
    assert files("run") == before

    assert cli("train", "reptile", "--out", "run", *SMALL, "--quiet") == (0, "", "")
    table = cli("train", "reptile", "--out", "run", *SMALL).out
    assert all(f"{error:.4f}" in table for error in found[0]["mean"])

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
    monkeypatch.setitem(RECIPES, "small", Recipe("Two cells.", lambda scale: cells))
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
    assert json.loads(said.out)["results"]["eigen-reptile sine"]["test"] is None


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


class Asked(NamedTuple):
    """What the command line asks the library to do."""

    experiment: Experiment
    folder: Path
    device: str


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Asked]:
    """Every experiment that is asked for, none of which is really run."""
    experiments: list[Asked] = []

    def remember(
        experiment: Experiment, folder: Path, announce: object, every: int, device: str, workers: Workers
    ) -> dict[str, Any]:
        experiments.append(Asked(experiment, folder, device))
        return {"measure": "accuracy", "choice": {"lr": 1.0}, "test": None, "seconds": 0.0}

    monkeypatch.setattr(jobs, "run_experiment", remember)
    return experiments


@pytest.mark.parametrize("scale", ["full", "small", "tune"])
@pytest.mark.parametrize("recipe", RECIPES)
def test_a_recipe_is_run_at_the_scale_asked_for(cli: Cli, asked: list[Asked], recipe: str, scale: str) -> None:
    assert cli("run", recipe, "--scale", scale, "--device", "cpu").code == 0
    cells = RECIPES[recipe].cells(scale)  # type: ignore[arg-type]
    assert asked == [Asked(cell, Path("runs") / recipe / name, "cpu") for name, cell in cells.items()]
    asked.clear()
    assert cli("run", recipe, "--quiet") == (0, "", "")
    assert [one.experiment for one in asked] == list(RECIPES[recipe].cells("small").values())
    assert {one.device for one in asked} == {"auto"}


PROTOCOLS: dict[str, dict[str, Any]] = {
    "authors": {"tasks": 10_000, "queries": 1, "after": (50,), "batch": 15},
    "field": {"tasks": 600, "queries": 15},
}


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("command", ["train reptile glyphs --out run", "run cifar-fs"])
def test_a_protocol_changes_the_evaluation_and_nothing_else(
    cli: Cli, asked: list[Asked], command: str, protocol: str
) -> None:
    assert cli(*command.split()).code == 0
    plain = [one.experiment for one in asked]
    asked.clear()
    assert cli(*command.split(), "--protocol", protocol).code == 0
    for before, (after, *_) in zip(plain, asked, strict=True):
        assert after == replace(before, evaluation=replace(before.evaluation, **PROTOCOLS[protocol]))


def test_a_recipe_takes_the_data_where_it_lies(cli: Cli, asked: list[Asked]) -> None:
    assert (
        cli("run", "mini-imagenet", "--data", "there", "--per-class", "180", "--seeds", "4", "--steps", "7").code == 0
    )
    for name, one in zip(RECIPES["mini-imagenet"].cells("small"), asked, strict=True):
        before = RECIPES["mini-imagenet"].cells("small")[name]
        data, meta = replace(before.data, root=Path("there"), per_class=180), replace(before.meta, steps=7)  # type: ignore[call-arg]
        assert one.experiment == replace(before, data=data, meta=meta, seeds=(4,))


def test_the_protocol_is_carried_out_and_recorded(cli: Cli) -> None:
    place = SMALL.index("--evaluation.tasks")  # which are the protocol's
    small = SMALL[:place] + SMALL[place + 2 :]
    assert cli("train", "reptile", "--out", "run", *small, "--protocol", "field", "--quiet") == (0, "", "")
    assert saved("run/config.json")["evaluation"]["tasks"] == 600
    (test,) = saved("run/result.json")["test"]
    assert (test["tasks"], np.shape(test["per_task"])) == (600, (2, 1, 600))


@pytest.fixture
def pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """16 classes of 8 pictures: each class a pattern of its own, in sizes, modes and formats as they come."""
    monkeypatch.setenv("EIGEN_REPTILE_CACHE", str(tmp_path / "cache"))
    rng = np.random.default_rng(0)
    forms = [("L", "png"), ("RGB", "jpg"), ("RGBA", "png"), ("P", "png"), ("LA", "png"), ("1", "png"), ("RGB", "webp")]
    for number in range(16):
        folder = tmp_path / "pictures" / f"class {number}"
        folder.mkdir(parents=True)
        pattern = rng.permutation(np.repeat([40, 210], 8)).reshape(4, 4)
        for picture in range(8):
            mode, suffix = forms[(number + picture) % len(forms)]
            pixels = np.clip(pattern + rng.integers(-30, 31, size=(4, 4)), 0, 255).astype(np.uint8)
            size = (int(rng.integers(12, 60)), int(rng.integers(12, 60)))
            image = Image.fromarray(pixels).resize(size, Image.Resampling.NEAREST).convert(mode)
            image.save(folder / f"{picture}.{suffix}")
    return tmp_path / "pictures"


FEW = (
    *("--data.size", "12", "--model.filters", "8", "--task.shots", "5", "--meta.steps", "6", "--meta.batch", "2"),
    *("--evaluation.shots", "1", "2", "--evaluation.queries", "5", "--evaluation.after", "20"),
    *("--evaluation.tasks", "6", "--evaluation.monitor-tasks", "2", "--evaluation.every", "3"),
)


def test_a_folder_of_mixed_pictures_trains_with_one_command(cli: Cli, pictures: Path) -> None:
    command = ("train", "eigen-reptile", "folder", "--data.root", str(pictures), "--out", "run", *FEW)
    said = cli(*command, "--json")
    assert (said.code, said.err) == (0, "")
    result = saved("run/result.json")
    assert json.loads(said.out)["results"]["eigen-reptile folder"]["test"] == without_tasks(result["test"])
    assert [(test["shots"], test["columns"]) for test in result["test"]] == [
        (shots, ["inductive", "transductive"]) for shots in (1, 2)
    ]
    # Patterns that differ so much are told apart: a fifth of the answers would be right by chance.
    assert all(accuracy > 0.6 for test in result["test"] for accuracy in test["mean"])
    table = cli(*command).out
    assert all(f"{100 * accuracy:.2f}" in table for test in result["test"] for accuracy in test["mean"])

    assert cli("report", "run", "--out", "page", "--quiet") == (0, "", "")
    page = Path("page/report.html").read_text()
    assert page.count("data:image/png") == 2  # the learning curve and the pictures with predictions
    assert all(f"{100 * accuracy:.2f} ± " in page for test in result["test"] for accuracy in test["mean"])


def test_a_finished_run_is_tested_once_more_as_if_it_had_been_asked_for_at_once(cli: Cli, pictures: Path) -> None:
    command = ("train", "reptile", "folder", "--data.root", str(pictures), *FEW, "--quiet", "--out")
    otherwise = ("--evaluation.tasks", "9", "--evaluation.shots", "1", "3")  # of no consequence while training
    assert cli(*command, "run") == (0, "", "")
    assert cli(*command, "at-once", *otherwise) == (0, "", "")
    before = files("run")

    said = cli("eval", "run", "--out", "again", *otherwise, "--json")
    assert said.code == 0
    again = saved("again/result.json")
    assert json.loads(said.out)["results"]["run"]["test"] == without_tasks(again["test"])
    expected = saved("at-once/result.json")
    for part in ("experiment", "lanes", "choice", "history", "test"):
        assert again[part] == expected[part]
    assert again["trained"]["experiment"] == saved("run/config.json")

    assert cli("eval", "run", "--out", "same", "--quiet") == (0, "", "")
    assert saved("same/result.json")["test"] == saved("run/result.json")["test"]
    assert cli("compare", "again", "at-once", "--quiet") == (0, "", "")
    assert files("run") == before


def test_a_finished_run_is_tested_on_another_data_set(cli: Cli, pictures: Path) -> None:
    assert cli("train", "reptile", "folder", "--data.root", str(pictures), *FEW, "--quiet", "--out", "run").code == 0
    for number in range(16):
        (pictures / f"class {number}").rename(pictures / f"kind {(7 * number) % 16}")  # others are tested so
    said = cli("eval", "run", "folder", "--data.root", str(pictures), "--data.size", "12", "--out", "there", "--quiet")
    assert said == (0, "", "")
    assert saved("there/result.json")["test"] != saved("run/result.json")["test"]
    assert all(accuracy > 0.6 for test in saved("there/result.json")["test"] for accuracy in test["mean"])

    assert saved("there/result.json")["trained"]["experiment"] == saved("run/config.json")

    shutil.rmtree(pictures / "kind 0")
    for number in range(1, 16):  # too few to train on, but not to be tested with
        for picture in sorted((pictures / f"kind {number}").iterdir())[3:]:
            picture.unlink()
    few = ("--data.size", "12", "--evaluation.shots", "1")
    assert cli("eval", "run", "folder", "--data.root", str(pictures), *few, "--out", "few", "--quiet").code == 0

    larger = cli("eval", "run", "folder", "--data.root", str(pictures), "--data.size", "28", "--out", "new", "--quiet")
    assert larger.code == 2
    assert "what run has learnt does not fit these data" in larger.problem()
    assert not Path("new").exists()


def test_an_evaluation_of_curves_can_be_reported(cli: Cli) -> None:
    often = ("--evaluation.pictures", "1", "3")
    assert cli("train", "reptile", "--out", "all/run", *SMALL, *often, "--quiet") == (0, "", "")
    assert cli("eval", "all/run", "--out", "all/again", "--evaluation.after", "3", "--quiet").code == 0
    assert cli("report", "all", "--quiet") == (0, "", "")


def test_nothing_is_trained_where_the_last_checkpoint_is_lost(cli: Cli) -> None:
    assert cli("train", "reptile", "--out", "run", *SMALL, "--checkpoint-every", "1", "--quiet") == (0, "", "")
    Path("run/checkpoints/step-000000003.safetensors").write_bytes(b"damaged")
    said = cli("eval", "run", "--out", "new", "--quiet")
    assert said.code == 2
    assert "the last checkpoint in run is not there any more, or damaged" in said.problem()
    assert not Path("new").exists()


def test_a_run_and_an_evaluation_do_not_share_a_folder(cli: Cli) -> None:
    assert cli("train", "reptile", "--out", "run", *SMALL, "--quiet") == (0, "", "")
    assert cli("eval", "run", "--out", "again", "--quiet") == (0, "", "")
    assert cli("eval", "run", "--out", "again", "--quiet") == (0, "", "")
    assert cli("train", "reptile", "--out", "again", *SMALL, "--quiet").code == 2
    assert cli("eval", "run", "--out", "run", "--quiet").code == 2


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ((), "name the folder of a finished run"),
        (("nowhere", "--out", "new"), "nowhere is not the folder of a run"),
        (("unfinished", "--out", "new"), "is not finished: repeat its command first"),
        (("run",), "name the folder for the result: --out PATH"),
        (("run", "omnigot", "--out", "new"), "did you mean omniglot?"),
        (("run", "--out", "new", "--evaluation.every", "2"), "--evaluation.every is about training, which is over"),
        (("run", "--out", "run", "--evaluation.tasks", "5"), "run belongs to another experiment"),
        (("run", "glyphs", "--out", "new"), "run has learnt to fit curves, and this data set has classes"),
        (("run", "--out", "new", "--device", ABSENT), f"there is no {ABSENT} here"),
    ],
)
def test_what_cannot_be_tested_once_more_is_said(cli: Cli, words: tuple[str, ...], problem: str) -> None:
    for folder in ("run", "unfinished"):
        assert cli("train", "reptile", "--out", folder, *SMALL, "--quiet").code == 0
    Path("unfinished/result.json").unlink()
    said = cli("eval", *words)
    assert (said.code, said.out) == (2, "")
    assert problem in said.problem()
    assert not Path("new").exists()


def test_a_broken_picture_is_named_before_anything_is_written(cli: Cli, pictures: Path) -> None:
    (pictures / "class 3" / "0.png").write_text("no picture")
    said = cli("train", "reptile", "folder", "--data.root", str(pictures), "--out", "run", *FEW, "--quiet")
    assert (said.code, said.out) == (2, "")
    assert "class 3" in said.problem()
    assert "0.png" in said.problem()
    assert not Path("run").exists()


def test_quickstart_trains_both_methods_and_writes_the_report(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """On curves and networks as they are, but with few tasks; on pictures that are made more quickly than glyphs."""

    def standard_but_small(data: Dataset, method: Method) -> Experiment:
        experiment = standard(data, method)
        return replace(
            experiment, model=Conv4(filters=4), evaluation=replace(experiment.evaluation, after=(4,), queries=1)
        )

    monkeypatch.setitem(DATASETS, "glyphs", Patterns(test_pictures=4))
    monkeypatch.setattr(experiments, "standard", standard_but_small)
    monkeypatch.setattr(experiments, "EvalConfig", partial(EvalConfig, tasks=10, monitor_tasks=2, after=(0, 4)))
    code, out, _ = cli("quickstart", "--steps", "4", "--glyph-steps", "2", "--out", "quick", "--json")
    assert code == 0
    said = json.loads(out)
    assert set(said["results"]) == {
        f"{name} {data}" for name in ("reptile", "eigen-reptile") for data in ("sine", "glyphs")
    }
    assert Path(said["report"]).read_text().count("data:image/png") == 5  # three of curves, two of glyphs
    table = (Path(said["report"]).parent / "results.md").read_text()
    for name, result in said["results"].items():
        method, data = name.split()
        config = saved(f"quick/{data}/{method}/config.json")
        (test,) = result["test"]
        mean = test["mean"][-1]
        if data == "glyphs":
            assert config["data"]["kind"] == "Patterns"
            assert (config["meta"]["steps"], config["task"]["way"], test["shots"], test["tasks"]) == (2, 5, 1, 40)
            assert f"{100 * mean:.2f} ± " in table
        else:
            assert (config["meta"]["steps"], config["task"]["way"], test["shots"]) == (4, 1, 10)
            assert f"{mean:.4f} ± " in table


def test_data_noise_shows_the_rate_and_the_table(cli: Cli, pictures: Path) -> None:
    where = ("--data.root", str(pictures), "--noise.kind", "asymmetric", "--noise.rate", "0.4", "--labels", "20000")
    said = cli("data", "noise", "folder", *where, "--out", "shown/table.png", "--json")
    assert said.code == 0, said.err
    found = json.loads(said.out)
    counts = np.array(found["counts"])
    assert counts.shape == (5, 5)
    assert counts.sum() >= 20000
    assert found["rate"] == pytest.approx(0.4, abs=0.02)
    assert np.argsort(-counts, axis=1)[:, 1].tolist() == [1, 2, 3, 4, 0]
    with Image.open("shown/table.png") as picture:
        assert picture.size[0] > 100
    in_bank = cli("data", "noise", "folder", *where, "--noise.where", "bank")
    assert in_bank.code == 0, in_bank.err
    assert "% of them wrong" in in_bank.out
    assert cli("data", "noise", "sine", "--noise.kind", "symmetric", "--noise.rate", "0.4").code == 2
    assert "--noise.kind" in cli("data", "noise", "folder", *where[:2]).problem()
    assert "from 0 to 1" in cli("data", "noise", "folder", *where[:4], "--noise.rate", "2").problem()


def test_a_method_for_classes_and_curves_do_not_go_together(cli: Cli) -> None:
    code, _, err = cli("train", "prototypical", "sine", "--out", "anywhere")
    assert code == 2
    assert "use it on a data set of pictures" in err
    assert "Traceback" not in err


def test_progress_says_how_far_and_how_much_longer_on_a_narrow_terminal() -> None:
    shown = io.StringIO()
    console = Console(file=shown, width=80, force_terminal=True, color_system=None)
    with Progress(*progress_columns(), console=console, expand=True, auto_refresh=False) as bars:
        report = Bars(bars).task("eigen-reptile-ispl-s50", 4000)
        report(1200, {"score": 0.41, "ci95": 0.02, "share": 0.6, "length": 0.7, "images_per_second": 1820.0})
        bars.refresh()
    assert re.search(r"eigen-reptile-ispl-s50 .*1200/4000 0:00:0\d \S+ validation", shown.getvalue())
