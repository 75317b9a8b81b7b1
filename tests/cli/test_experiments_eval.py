"""The command `eval`: a finished run is evaluated again, with other settings or on other data."""

import json
import shlex
import shutil
from pathlib import Path

import pytest

from command_line import ABSENT, ENOUGH, FEW, SMALL, Cli, files, plain, saved, without_tasks
from eigen_reptile.cli import run


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


def test_a_finished_run_is_evaluated_on_another_data_set(
    cli: Cli, images: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = ("--data.root", str(images), *FEW, *ENOUGH, "--quiet")
    assert cli("train", "reptile", "folder", *settings, "--out", "run").code == 0
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

    for changed, problem in (
        (("--data.size", "28"), "12 x 12 x 3, and the images of this data set are 28 x 28 x 3: use --data.size 12"),
        (
            ("--data.channels", "grey"),
            "12 x 12 x 3, and the images of this data set are 32 x 32 x 1: use --data.size 12 and --data.channels rgb",
        ),
    ):
        other = cli(*command, *changed, "--out", "new")
        assert other.code == 2
        assert f"the parameters in run do not fit this data set: run was trained on {problem}" in other.problem()
        assert not Path("new").exists()
    monkeypatch.delenv("EIGEN_REPTILE_CACHE")  # where they may be already: drawing them takes longer than all the rest
    glyphs = cli("eval", "run", "glyphs", "--quiet", "--out", "new")
    assert "use --data.size 12 and" not in glyphs.problem()
    assert "trained on 12 x 12 x 3, and the images of this data set are 28 x 28 x 1: evaluate it" in glyphs.problem()


def test_images_of_another_size_that_fit_the_network_are_used_with_a_warning(cli: Cli, images: Path) -> None:
    assert cli("train", "reptile", "folder", "--data.root", str(images), *FEW, "--quiet", "--out", "run").code == 0
    printed = cli("eval", "run", "--data.size", "16", "--quiet", "--out", "there")
    assert printed.code == 0
    assert "run was trained on 12 x 12 x 3, and the images of this data set are 16 x 16 x 3" in " ".join(
        printed.err.split()
    )


def test_a_run_finds_its_data_from_another_working_directory(
    cli: Cli, images: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ("train", "reptile", "folder", *FEW, "--quiet", "--data.root")
    assert cli(*command, "images", "--out", "run") == (0, "", "")
    Path("elsewhere").mkdir()
    monkeypatch.chdir("elsewhere")
    assert cli(*command, "../images", "--out", "../run") == (0, "", "")  # the same experiment
    assert cli("eval", "../run", "--out", "again", "--quiet") == (0, "", "")
    assert saved("again/result.json")["test"] == saved("../run/result.json")["test"]
    monkeypatch.chdir("..")
    assert cli("compare", "run", "elsewhere/again", "--quiet") == (0, "", "")

    images.rename("moved")
    printed = cli("eval", "run", "--out", "new", "--quiet")
    assert printed.code == 2
    assert "images does not exist: set --data.root" in printed.problem()
    assert cli("eval", "run", "--data.root", "moved", "--out", "new", "--quiet") == (0, "", "")
    assert saved("new/result.json")["test"] == saved("run/result.json")["test"]


def test_a_relative_path_in_the_config_of_an_earlier_version_is_the_same_experiment(cli: Cli, images: Path) -> None:
    command = ("train", "reptile", "folder", *FEW, "--quiet", "--data.root")
    assert cli(*command, "images", "--out", "run") == (0, "", "")
    config = saved("run/config.json")
    assert config["data"]["root"] == str(images)
    config["data"]["root"] = "images"
    Path("run/config.json").write_text(json.dumps(config))
    for file in Path("run/checkpoints").glob("*.json"):  # early versions did not record the experiment in them
        file.write_text(json.dumps({name: saved(str(file))[name] for name in ("step", "sha256")}))
    for root in ("images", str(images)):
        assert cli(*command, root, "--out", "run") == (0, "", "")
    assert cli("eval", "run", "--out", "again", "--quiet") == (0, "", "")


def test_a_run_whose_evaluation_alone_is_changed_names_the_command_for_that(cli: Cli) -> None:
    command = ("train", "reptile", "sine", "--out", "a run", *SMALL, "--quiet")
    assert cli(*command) == (0, "", "")
    printed = cli(*command, "--evaluation.inner-steps", "0", "3", "--evaluation.shots", "4", "--evaluation.no-test")
    assert printed.code == 2
    hint = "eval 'a run' --evaluation.shots 4 --evaluation.inner-steps 0 3 --evaluation.no-test --out FOLDER"
    assert printed.problem().endswith(f"eigen-reptile {hint}")
    assert cli(*shlex.split(hint), "--quiet") == (0, "", "")
    for flag in ("--evaluation.every", "--seeds"):
        printed = cli(*command, flag, "7")
        assert printed.code == 2
        assert "a run belongs to another experiment" in printed.problem()


@pytest.mark.parametrize("method", ["eigen-reptile", "anil"])
def test_a_run_is_evaluated_on_tasks_with_another_number_of_classes(cli: Cli, images: Path, method: str) -> None:
    settings = (*FEW, *ENOUGH, "--model.pooling", "same", "--evaluation.tasks", "4", "--quiet")
    assert cli("train", method, "folder", "--data.root", str(images), *settings, "--out", "run").code == 0
    accuracies = {}
    for way in ("2", "3"):
        assert cli("eval", "run", "--evaluation.way", way, "--out", way, "--quiet") == (0, "", "")
        accuracies[way] = saved(f"{way}/result.json")["test"][1]["mean"][-1]
    assert 1 >= accuracies["2"] > 0.5
    assert cli("compare", "run", "3").code == 1


@pytest.mark.parametrize("method", ["meta-curvature", "gnn"])
def test_a_method_that_knows_only_its_number_of_classes_says_so(cli: Cli, images: Path, method: str) -> None:
    settings = (*FEW, "--model.pooling", "same", "--evaluation.tasks", "2", "--meta.steps", "1", "--quiet")
    assert cli("train", method, "folder", "--data.root", str(images), *settings, "--out", "run").code == 0
    printed = cli("eval", "run", "--evaluation.way", "3", "--out", "new", "--quiet")
    assert printed.code == 2
    assert "--evaluation.way must be the way of training, 5" in printed.problem()
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


@pytest.fixture(scope="module")
def curves(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished run on sine waves, to be copied."""
    folder = tmp_path_factory.mktemp("curves") / "run"
    assert run(["train", "reptile", "sine", "--out", str(folder), *SMALL, "--quiet"]) == 0
    return folder


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ((), "name the folder of a finished run"),
        (("nowhere", "--out", "new"), "nowhere is not the folder of a run"),
        (("unfinished", "--out", "new"), "the training in unfinished is not finished: repeat its command first"),
        (("run",), "name the folder for the result: --out PATH"),
        (("run", "omnigot", "--out", "new"), "did you mean omniglot?"),
        (("run", "--out", "new", "--evaluation.every", "2"), "--evaluation.every has no effect after training"),
        (("run", "--out", "new", "--evaluation.noisy"), "evaluation.noisy needs label noise"),
        (("run", "--out", "run", "--evaluation.tasks", "5"), "run is the folder of the run itself: choose another"),
        (("run", "--out", "unfinished"), "another experiment: trained is only in this experiment. Choose another"),
        (("run", "--out", "unfinished/config.json", "--quiet"), "cannot write to the folder unfinished/config.json"),
        (("run", "glyphs", "--out", "new"), "run was trained for regression: choose a data set for regression"),
        (("run", "--out", "new", "--device", ABSENT), f"device {ABSENT} is not available"),
    ],
)
def test_what_cannot_be_evaluated_is_reported(cli: Cli, curves: Path, words: tuple[str, ...], problem: str) -> None:
    for folder in ("run", "unfinished"):
        shutil.copytree(curves, folder)
    Path("unfinished/result.json").unlink()
    shutil.rmtree("unfinished/checkpoints")
    printed = cli("eval", *words)
    assert (printed.code, printed.out) == (2, "")
    assert plain(problem) in plain(printed.problem())
    assert not Path("new").exists()
