"""Whatever a case of the siege does, it gets a verdict, and the others are not disturbed."""

import os
import random
import signal
import subprocess
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import pytest

from siege import command
from siege.batch import Attacks, Verdict, run_cases
from siege.case import Attack, BrokenPromiseError, Limits, Part, generator_of
from siege.file_events import at_change, changed_paths, fail_with, send_to_self
from siege.forks import fork, wait

LIMITS = Limits(seconds=20, cpu_seconds=0.3, growth=1 << 26)


def verdicts(
    attacks: Mapping[str, Attack], folder: Path, cases: int, limits: Limits = LIMITS, first: int = 0
) -> list[Verdict]:
    part = Part("about", lambda folder: {name: partial(ready, attack) for name, attack in attacks.items()}, limits)
    return list(run_cases("part", part, Attacks(part, folder / "prepared"), 0, range(first, cases), folder))


def ready(attack: Attack) -> Attack:
    return attack


def draw(rng: random.Random, folder: Path) -> str:
    return str(rng.random())


def test_cases_take_attacks_in_turns_and_are_determined_by_seed_and_number(tmp_path: Path) -> None:
    found = verdicts({"one": draw, "two": draw}, tmp_path, 5)
    assert [verdict.kind for verdict in found] == ["one", "two", "one", "two", "one"]
    assert [verdict.outcome for verdict in found] == [
        str(generator_of(0, "part", number).random()) for number in range(5)
    ]
    assert not any(verdict.problem for verdict in found)
    assert [path.name for path in tmp_path.iterdir()] == ["prepared"]
    (tmp_path / "prepared").rmdir()
    assert verdicts({"one": draw, "two": draw}, tmp_path, 4, first=3) == found[3:4]


def broken(rng: random.Random, folder: Path) -> str:
    raise BrokenPromiseError("a promise")


def raising(rng: random.Random, folder: Path) -> str:
    raise KeyError("name")


def spinning(rng: random.Random, folder: Path) -> str:
    while True:
        pass


def waiting(rng: random.Random, folder: Path) -> str:
    time.sleep(60)
    return "late"


def growing(rng: random.Random, folder: Path) -> str:
    return str(len(bytes(1 << 28)))


def dying(rng: random.Random, folder: Path) -> str:
    os.kill(os.getpid(), signal.SIGUSR1)
    return "alive"


def leaving(rng: random.Random, folder: Path) -> str:
    (folder.parent.parent / "elsewhere").write_text("x")
    return "written"


def starting(rng: random.Random, folder: Path) -> str:
    subprocess.run(["true"], check=True)
    return "started"


def hiding(rng: random.Random, folder: Path) -> str:
    """A reader that catches everything must not hide that it writes elsewhere."""
    try:
        leaving(rng, folder)
    except Exception:
        return "caught"
    return "written"


@pytest.mark.parametrize(
    ("attack", "problem"),
    [
        (broken, "a promise"),
        (raising, "KeyError: 'name'"),
        (spinning, "more than 0.3 s of processor time"),
        (growing, "MiB of memory"),
        (dying, "ended by SIGUSR1"),
        (leaving, "elsewhere, which is outside"),
        (hiding, "elsewhere, which is outside"),
        (starting, "subprocess.Popen of 'true'"),
    ],
)
def test_a_case_that_breaks_a_promise_is_reported_and_the_next_one_runs(
    attack: Attack, problem: str, tmp_path: Path
) -> None:
    folder = tmp_path / "siege"
    folder.mkdir()
    good, bad, next_one = verdicts({"good": draw, "bad": attack}, folder, 3)
    assert problem in bad.problem
    assert (bad.number, bad.kind, bad.outcome) == (1, "bad", "failed")
    assert not good.problem
    assert not next_one.problem
    assert not (tmp_path / "elsewhere").exists()


def test_a_case_that_only_waits_is_ended_too(tmp_path: Path) -> None:
    (verdict,) = verdicts({"waiting": waiting}, tmp_path, 1, LIMITS._replace(seconds=0.2))
    assert verdict.problem == "it took more than 0.2 s"


def test_changes_are_told_from_reading() -> None:
    assert changed_paths("open", ("a", "r", os.O_RDONLY)) == []
    assert changed_paths("open", ("a", "w", os.O_WRONLY)) == [str(Path.cwd() / "a")]
    assert changed_paths("os.rename", (b"/x/a", "b", -1, -1)) == ["/x/a", str(Path.cwd() / "b")]
    assert changed_paths("os.link", ("/x/a", "/y/b", -1, -1)) == ["/x/a", "/y/b"]
    assert changed_paths("os.symlink", ("/x/a", "/y/b", -1)) == ["/y/b"]
    assert changed_paths("os.listdir", ("a",)) == []
    assert changed_paths("open", ("/dev/null", "w", os.O_WRONLY)) == []


def test_a_fault_happens_at_the_change_of_its_number(tmp_path: Path) -> None:
    hook = at_change(2, fail_with(28, times=1), tmp_path)
    events = [("os.mkdir", (str(tmp_path / name), 0, -1)) for name in "abc"]
    hook(*events[0])
    with pytest.raises(OSError, match="No space left"):
        hook(*events[1])
    hook(*events[2])


def test_a_signal_that_comes_before_the_command_does_not_hit_a_copy_of_the_siege(tmp_path: Path) -> None:
    for _ in range(20):
        running = command.start(["list"], tmp_path)
        running.send(signal.SIGINT)
        printed = running.finish(60)
        command.check_manners(printed)
        assert printed.code in (0, 130)


def test_a_process_kills_itself_at_a_change(tmp_path: Path) -> None:
    def work() -> int:
        hook = at_change(1, send_to_self(signal.SIGKILL), tmp_path)
        hook("os.mkdir", (str(tmp_path / "a"), 0, -1))
        return 0

    assert wait(fork(work), 10) == -signal.SIGKILL
