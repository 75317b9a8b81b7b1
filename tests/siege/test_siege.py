"""A short siege: some cases of every part, and the command line around them."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

import siege.__main__ as command_line
from eigen_reptile.errors import RunError
from eigen_reptile.report.siege import SiegePart, read_siege, siege_table
from siege import PARTS
from siege.case import BrokenPromiseError, Limits, Part
from siege.command import Printed
from siege.concurrency import IN_USE, check_refusal
from siege.mutate import damage_file, encoded_json, mutated
from siege.victims import by_folder

ROOT = Path(__file__).parents[2]
SHORT = {"kills": 1, "corruption": 2, "readers": 95, "commands": 3, "concurrency": 1, "disks": 1, "workers": 1}
"""Cases that together take some seconds."""


SCRIPT = """
import sys
from siege.__main__ import main
names = sys.argv[2::2]
sys.exit(max(main([name, "--cases", cases, "--out", sys.argv[1]]) for name, cases in zip(names, sys.argv[3::2])))
"""


@pytest.fixture(scope="module")
def short_siege(tmp_path_factory: pytest.TempPathFactory) -> dict[str, SiegePart]:
    """Some cases of every part; in one other process, because that of the tests has threads and should not fork."""
    summary = tmp_path_factory.mktemp("siege") / "siege.json"
    cases = [word for name, count in SHORT.items() for word in (name, str(count))]
    command = [sys.executable, "-c", SCRIPT, str(summary), *cases]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert summary.exists(), ended.stdout + ended.stderr
    return dict(read_siege(summary).parts)


def test_only_the_other_process_is_a_reason_to_refuse_one_of_two() -> None:
    for code, problem in ((0, ""), (-9, ""), (2, "eigen-reptile: another process is using runs/sine: wait for it")):
        check_refusal(Printed(code, "", f"reading\n{problem}\n"), *IN_USE)
    with pytest.raises(BrokenPromiseError, match="not because of the other process: eigen-reptile: the disk is full"):
        check_refusal(Printed(1, "", "eigen-reptile: the disk is full\n"), *IN_USE)


@pytest.mark.xdist_group("siege")  # so that one worker runs it for all parts
@pytest.mark.parametrize("name", PARTS)
def test_a_short_siege_breaks_no_promise(name: str, short_siege: dict[str, SiegePart]) -> None:
    part = short_siege[name]
    assert not part.failures, "\n".join(f"{failure.command}: {failure.problem}" for failure in part.failures)
    assert part.cases == SHORT[name]
    assert sum(count for counts in part.outcomes.values() for count in counts.values()) == part.cases


class Siege(NamedTuple):
    """What a siege printed and wrote."""

    code: int
    out: str
    parts: dict[str, SiegePart]


@pytest.fixture(autouse=True)
def unchanged_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process of the tests keeps its settings."""
    monkeypatch.setattr(command_line, "_warm_up", lambda: None)


@pytest.fixture
def besieged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> "Besieged":
    """Runs a siege of one part, every third case of which fails."""

    def attack(rng: random.Random, folder: Path) -> str:
        if folder.name.endswith(("2", "5", "8")):
            raise BrokenPromiseError("it broke")
        return "held"

    monkeypatch.setattr(
        command_line, "PARTS", {"kills": Part("about", lambda folder: {"all": lambda: attack}, Limits(20), 4)}
    )
    monkeypatch.chdir(tmp_path)
    return Besieged(capsys)


class Besieged:
    """Runs command lines."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *args: str) -> Siege:
        code = command_line.main([*args, "--out", "siege.json"])
        captured = self._capsys.readouterr()
        file = Path("siege.json")
        return Siege(code, captured.out + captured.err, dict(read_siege(file).parts) if file.exists() else {})


def test_failures_are_counted_and_can_be_repeated(besieged: Besieged) -> None:
    found = besieged("kills", "--cases", "5", "--seed", "3")
    assert found.code == 1
    assert "kills 2 (all) failed: it broke" in found.out
    assert "python -m siege kills --case 2 --seed 3" in found.out
    (failure,) = found.parts["kills"].failures
    assert (failure.case, failure.problem) == (2, "it broke")
    assert found.parts["kills"].outcomes == {"all": {"held": 4, "failed": 1}}
    repeated = besieged("kills", "--case", "2", "--seed", "3")
    assert repeated.code == 1
    assert "it broke" in repeated.out
    assert besieged("kills", "--case", "1", "--seed", "3").code == 0


def test_a_siege_goes_on_where_it_stopped(besieged: Besieged) -> None:
    besieged("kills", "--cases", "4")
    found = besieged("kills", "--cases", "3")
    assert found.parts["kills"].cases == 7
    assert [failure.case for failure in found.parts["kills"].failures] == [2, 5]
    assert found.parts["kills"].outcomes == {"all": {"held": 5, "failed": 2}}


def test_a_summary_of_another_seed_is_kept(besieged: Besieged) -> None:
    before = besieged("kills", "--cases", "1")
    found = besieged("kills", "--cases", "1", "--seed", "1")
    assert found.code == 1
    assert "siege.json is about the seed 0, not 1" in found.out
    assert found.parts == before.parts


def test_a_summary_of_another_version_is_begun_anew(besieged: Besieged) -> None:
    besieged("kills", "--cases", "4")
    value = json.loads(Path("siege.json").read_text())
    value["environment"]["commit"] = "another"
    Path("siege.json").write_text(json.dumps(value))
    found = besieged("kills", "--cases", "1")
    assert "another version" in found.out
    assert found.parts["kills"].cases == 1


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ("kill", "no part named kill: did you mean kills?"),
        ("kills --hours 3", "no option named --hours"),
        ("--minutes 0", "--minutes must be above 0, not 0"),
        ("--case 3", "--case needs one part"),
        ("kills --cases 0", "--cases must be at least 1, not 0"),
        ("--out no/folder/file.json", "there is no folder no/folder"),
    ],
)
def test_wrong_arguments_are_one_line_and_exit_code_2(
    args: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command_line.main(args.split()) == 2
    out, err = capsys.readouterr()
    assert message in err
    assert err.count("\n") == 1
    assert out == ""


def test_the_table_has_the_counts_of_the_summary(besieged: Besieged) -> None:
    besieged("kills", "--cases", "5")
    text = siege_table([read_siege(Path("siege.json"))]).to_markdown()
    assert "| kills | all | 5 | held 4 | 1 |" in text


@pytest.mark.parametrize("content", ["[]", "{}", '{"seed": 0, "environment": {}, "parts": {}}', "nothing"])
def test_a_file_that_is_no_summary_is_refused(content: str, tmp_path: Path) -> None:
    (tmp_path / "siege.json").write_text(content)
    with pytest.raises(RunError, match=r"siege\.json is not"):
        read_siege(tmp_path / "siege.json")


def test_damage_is_determined_by_its_generator(tmp_path: Path) -> None:
    data = os.urandom(300)
    for seed in range(50):
        assert mutated(random.Random(seed), data) == mutated(random.Random(seed), data)
        value = {"a": [1, {"b": None}], "c": "text"}
        assert encoded_json(random.Random(seed), value) == encoded_json(random.Random(seed), value)
    assert value == {"a": [1, {"b": None}], "c": "text"}
    assert sum(mutated(random.Random(seed), data) != data for seed in range(50)) > 40


def test_pictures_may_have_other_names_but_no_other_folder() -> None:
    before = {"cat/0.png": "a", "cat/1.png": "b", "dog/0.png": "c"}
    assert by_folder(before) == by_folder({"cat/0-1.png": "b", "cat/1.png": "a", "dog/0.png": "c"})
    assert by_folder(before) != by_folder({"cat/0.png": "a", "dog/1.png": "b", "dog/0.png": "c"})
    assert by_folder(before) != by_folder({"cat/0.png": "a", "cat/1.png": "a", "dog/0.png": "c"})


def test_files_are_damaged_in_every_way(tmp_path: Path) -> None:
    done = set()
    for seed in range(40):
        one, two = tmp_path / "one", tmp_path / "two"
        one.write_bytes(b"a" * 100)
        two.write_bytes(b"b" * 100)
        done.add(damage_file(random.Random(seed), one, [two]))
        assert not one.exists() or one.read_bytes() != b"a" * 100
    assert done == {"flipped", "truncated", "zeroed", "deleted", "swapped"}
