"""The command `eval`: a finished run is evaluated again, with other settings or on other data."""

import json
import shutil
from pathlib import Path

import pytest

from command_line import ABSENT, FEW, SMALL, Cli, files, plain, saved, without_tasks


def test_evaluating_again_gives_what_the_run_would_have_given_with_these_settings(cli: Cli, images: Path) -> None:
    command = ("train", "reptile", "folder", "--data.root", str(images), *FEW, "--quiet", "--out")
    changed = ("--evaluation.tasks", "9", "--evaluation.shots", "1", "3")  # without influence on training
    assert cli(*command, "run") == (0, "", "")
    assert cli(*command, "at-once", *changed) == (0, "", "")
    before = files("run")

    printed = cli("eval", "run", "--out", "again", *changed, "--json")
    assert printed.code == 0
    again = saved("again/result.json")
    assert json.loads(printed.out)["results"]["run"]["test"] == without_tasks(again["test"])
    expected = saved("at-once/result.json")
    for part in ("experiment", "replicas", "choice", "test"):
        assert again[part] == expected[part]
    for part in ("step", "score"):
        assert again["learning_curve"][part] == expected["learning_curve"][part]
    assert again["trained"]["experiment"] == saved("run/config.json")

    assert cli("eval", "run", "--out", "same", "--quiet") == (0, "", "")
    assert saved("same/result.json")["test"] == saved("run/result.json")["test"]
    assert cli("compare", "again", "at-once", "--quiet") == (0, "", "")
    assert files("run") == before


def test_a_finished_run_is_evaluated_on_another_data_set(cli: Cli, images: Path) -> None:
    assert cli("train", "reptile", "folder", "--data.root", str(images), *FEW, "--quiet", "--out", "run").code == 0
    for number in range(16):
        (images / f"class {number}").rename(images / f"kind {(7 * number) % 16}")  # other classes become test classes
    command = ("eval", "run", "folder", "--data.root", str(images), "--quiet")
    assert cli(*command, "--data.size", "12", "--out", "there") == (0, "", "")
    assert saved("there/result.json")["test"] != saved("run/result.json")["test"]
    assert all(accuracy > 0.6 for test in saved("there/result.json")["test"] for accuracy in test["mean"])

    assert saved("there/result.json")["trained"]["experiment"] == saved("run/config.json")

    shutil.rmtree(images / "kind 0")
    for number in range(1, 16):  # too few images to train on, but enough to evaluate
        for image in sorted((images / f"kind {number}").iterdir())[3:]:
            image.unlink()
    assert cli(*command, "--data.size", "12", "--evaluation.shots", "1", "--out", "few").code == 0

    larger = cli(*command, "--data.size", "28", "--out", "new")
    assert larger.code == 2
    assert "the parameters in run do not fit this data set" in larger.problem()
    assert not Path("new").exists()


def test_an_evaluation_of_curves_can_be_reported(cli: Cli) -> None:
    often = ("--evaluation.snapshot-steps", "1", "3")
    assert cli("train", "reptile", "sine", "--out", "all/run", *SMALL, *often, "--quiet") == (0, "", "")
    assert cli("eval", "all/run", "--out", "all/again", "--evaluation.inner-steps", "3", "--quiet").code == 0
    assert cli("report", "all", "--quiet") == (0, "", "")


def test_a_run_whose_last_checkpoint_is_damaged_is_refused(cli: Cli) -> None:
    assert cli("train", "reptile", "sine", "--out", "run", *SMALL, "--checkpoint-every", "1", "--quiet") == (0, "", "")
    Path("run/checkpoints/step-000000003.safetensors").write_bytes(b"damaged")
    printed = cli("eval", "run", "--out", "new", "--quiet")
    assert printed.code == 2
    assert "the last checkpoint in run is missing or damaged" in printed.problem()
    assert not Path("new").exists()


def test_a_run_and_an_evaluation_do_not_share_a_folder(cli: Cli) -> None:
    assert cli("train", "reptile", "sine", "--out", "run", *SMALL, "--quiet") == (0, "", "")
    assert cli("eval", "run", "--out", "again", "--quiet") == (0, "", "")
    assert cli("eval", "run", "--out", "again", "--quiet") == (0, "", "")
    assert cli("train", "reptile", "sine", "--out", "again", *SMALL, "--quiet").code == 2
    assert cli("eval", "run", "--out", "run", "--quiet").code == 2


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ((), "name the folder of a finished run"),
        (("nowhere", "--out", "new"), "nowhere is not the folder of a run"),
        (("unfinished", "--out", "new"), "is not finished: repeat its command first"),
        (("run",), "name the folder for the result: --out PATH"),
        (("run", "omnigot", "--out", "new"), "did you mean omniglot?"),
        (("run", "--out", "new", "--evaluation.every", "2"), "--evaluation.every has no effect after training"),
        (("run", "--out", "new", "--evaluation.noisy"), "evaluation.noisy needs label noise"),
        (("run", "--out", "run", "--evaluation.tasks", "5"), "run belongs to another experiment"),
        (("run", "--out", "unfinished/config.json", "--quiet"), "cannot write to the folder unfinished/config.json"),
        (("run", "glyphs", "--out", "new"), "run was trained for regression: choose a data set for regression"),
        (("run", "--out", "new", "--device", ABSENT), f"device {ABSENT} is not available"),
    ],
)
def test_what_cannot_be_evaluated_is_reported(cli: Cli, words: tuple[str, ...], problem: str) -> None:
    for folder in ("run", "unfinished"):
        assert cli("train", "reptile", "sine", "--out", folder, *SMALL, "--quiet").code == 0
    Path("unfinished/result.json").unlink()
    printed = cli("eval", *words)
    assert (printed.code, printed.out) == (2, "")
    assert plain(problem) in plain(printed.problem())
    assert not Path("new").exists()
