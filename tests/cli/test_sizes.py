"""Numbers that size memory are refused, with what they would take, before anything of that size is allocated."""

from pathlib import Path

import pytest

from command_line import FEW, SMALL, Cli

HUGE = str(2**31 - 1)


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    ("option", "named"),
    [
        ("--meta.batch", "--meta.batch"),
        ("--task.shots", "--task.shots"),
        ("--inner.steps", "--inner.steps"),
        ("--evaluation.tasks", "--evaluation.tasks"),
        ("--evaluation.shots", "--evaluation.shots"),
        ("--model.hidden", "smaller network"),
        ("--data.points", "--data.points"),
    ],
)
def test_number_that_takes_more_memory_than_there_is_is_refused(cli: Cli, option: str, named: str) -> None:
    printed = cli("train", "reptile", "sine", *SMALL, option, HUGE, "--out", "run", "--quiet")
    assert printed.code == 1
    assert "GiB" in printed.problem()
    assert named in printed.problem()
    assert not Path("run").exists()


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    ("option", "value", "named"),
    [
        ("--data.size", HUGE, "--data.size"),
        ("--model.filters", "10000000", "smaller network"),
        ("--meta.batch", HUGE, "--meta.batch"),
        ("--evaluation.tasks", HUGE, "--evaluation.tasks"),
    ],
)
def test_number_that_takes_too_much_for_images_is_refused(
    cli: Cli, images: Path, option: str, value: str, named: str
) -> None:
    data = ("folder", "--data.root", str(images))
    printed = cli("train", "eigen-reptile", *data, *FEW, option, value, "--out", "run", "--quiet")
    assert printed.code in (1, 2)
    assert "GiB" in printed.problem()
    assert named in printed.problem()
    assert not Path("run").exists()


@pytest.mark.parametrize(("option", "value"), [("--data.size", "500000"), ("--data.per-class", HUGE)])
def test_glyphs_that_take_too_much_are_refused(cli: Cli, option: str, value: str) -> None:
    printed = cli("train", "reptile", "glyphs", option, value, "--out", "run", "--quiet")
    assert printed.code in (1, 2)
    assert "GiB" in printed.problem()
