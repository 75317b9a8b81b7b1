"""The run folder: a full disk, a second process, a folder that is removed, the config of another experiment."""

import os
import resource
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from eigen_reptile.errors import ConfigError, RunError
from eigen_reptile.methods import EigenReptile
from eigen_reptile.runtime.files import write_atomically, write_json
from eigen_reptile.runtime.run_folder import RunFolder
from eigen_reptile.training.config import Experiment, MetaConfig
from eigen_reptile.training.experiment import run_folder
from eigen_reptile.training.serialise import to_json
from run_folders import CLOCK, CONFIG, contents, edited, loads_bit_for_bit, state


def refusal(path: Path, config: dict[str, object] | None = None) -> str:
    with pytest.raises(ConfigError) as refused, RunFolder.open(path, config or CONFIG):
        pass
    return str(refused.value)


@contextmanager
def files_no_larger_than(size: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_failed_write_leaves_only_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_atomically(path, b"old")
    with files_no_larger_than(100), pytest.raises(RunError, match=r"cannot write .*/file: File too large"):
        write_atomically(path, bytes(1000))
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_write_below_a_regular_file_names_the_path(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RunError, match=r"cannot write .*/file/below: Not a directory"):
        write_atomically(tmp_path / "file/below", b"")


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_result_that_is_not_finite_is_refused_and_the_old_one_is_kept(run: RunFolder, value: float) -> None:
    run.save_result({"error": 0.25})
    with pytest.raises(ValueError, match="JSON"):
        run.save_result({"error": value})
    assert run.result() == {"error": 0.25}


def test_an_edited_result_is_noticed_and_one_of_an_early_version_has_no_checksum(run: RunFolder) -> None:
    run.save_result({"error": 0.25, "of": [1, 2]})
    file = run.path / "result.json"
    edited(file)
    assert run.result() == {"error": 0.25, "of": [1, 2]}  # in another layout
    edited(file, error=0.2)
    with pytest.raises(RunError, match=r"result\.json is damaged: its checksum is wrong"):
        run.result()
    write_json(file, {"format": 3, "error": 0.2})
    with pytest.raises(RunError, match=r"result\.json is damaged: its checksum is missing"):
        run.result()
    write_json(file, {"format": 2, "error": 0.2})
    assert run.result() == {"format": 2, "error": 0.2}


def write_everything(run: RunFolder) -> list[Callable[[], object]]:
    return [
        lambda: run.log("train", 1, {"loss": 0.5}),
        lambda: run.save_checkpoint(1, state(1), CLOCK),
        lambda: run.save_result({}),
        lambda: run.save_environment({}),
        lambda: run.amend_environment({}),
        lambda: run.save_tensors("some.safetensors", state(1)),
        lambda: run.start_metrics(-1),
    ]


@pytest.mark.parametrize("number", range(7))
def test_a_process_whose_folder_was_taken_over_stops_writing(tmp_path: Path, number: int) -> None:
    with RunFolder.open(tmp_path / "run", CONFIG) as run:
        run.start_metrics(-1)
        shutil.rmtree(tmp_path / "run")
        with RunFolder.open(tmp_path / "run", CONFIG) as other:
            other.start_metrics(-1)
            before = contents(tmp_path)
            with pytest.raises(ConfigError, match="was removed or taken over by another process"):
                write_everything(run)[number]()
            assert contents(tmp_path) == before
            other.log("train", 1, {"loss": 0.5})


@pytest.mark.parametrize("number", range(7))
def test_a_process_whose_folder_was_removed_does_not_make_it_again(tmp_path: Path, number: int) -> None:
    with RunFolder.open(tmp_path / "run", CONFIG) as run:
        run.start_metrics(-1)
        shutil.rmtree(tmp_path / "run")
        with pytest.raises(ConfigError, match="was removed or taken over by another process"):
            write_everything(run)[number]()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", ["[]", "{}", "[1]", "3", "["])
def test_a_damaged_environment_is_named(run: RunFolder, text: str) -> None:
    (run.path / "environment.json").write_text(text)
    for write in (run.save_environment, run.amend_environment):
        with pytest.raises(RunError, match=r"environment\.json is (damaged|not valid JSON)"):
            write({})


def test_what_killed_processes_left_half_written_is_deleted(tmp_path: Path) -> None:
    with RunFolder.open(tmp_path, CONFIG) as run:
        run.save_checkpoint(10, state(10), CLOCK)
    before = contents(tmp_path)
    for name in (".metrics.jsonl.123.tmp", ".result.json.4.tmp", "checkpoints/.step-000000020.json.5.tmp"):
        (tmp_path / name).write_bytes(b"half")
    (tmp_path / "notes.tmp").write_bytes(b"not ours")
    with RunFolder.open(tmp_path, CONFIG):
        assert contents(tmp_path) == before | {tmp_path / "notes.tmp": b"not ours"}


def test_the_folder_is_synced_after_a_rename(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    replace, fsync = os.replace, os.fsync

    def note_rename(source: Any, target: Any, **places: Any) -> None:
        done.append("rename")
        replace(source, target, **places)

    def note_sync(file: int) -> None:
        done.append("folder" if stat.S_ISDIR(os.fstat(file).st_mode) else "file")
        fsync(file)

    monkeypatch.setattr(os, "replace", note_rename)
    monkeypatch.setattr(os, "rename", note_rename)
    monkeypatch.setattr(os, "fsync", note_sync)
    write_atomically(tmp_path / "file", b"new")
    assert done == ["file", "rename", "folder"]


def test_another_config_is_refused_with_each_field_and_both_values(tmp_path: Path) -> None:
    with RunFolder.open(tmp_path / "run", CONFIG):
        pass
    reason = refusal(tmp_path / "run", {"meta": {"steps": 40, "lr": [1.0]}, "seeds": [0, 1]})
    differing = (
        "meta.steps is 30 in its config.json and 40 in this experiment; "
        "seeds is [0] in its config.json and [0, 1] in this experiment"
    )
    assert reason == f"{tmp_path / 'run'} belongs to another experiment: {differing}. Choose another folder."


def without(config: dict[str, Any], name: str) -> dict[str, Any]:
    """A config of a version without the setting of this dotted name."""
    first, _, rest = name.partition(".")
    kept = {key: value for key, value in config.items() if key != first}
    return kept | {first: without(config[first], rest)} if rest else kept


@pytest.mark.parametrize(
    ("name", "now", "difference"),
    [
        ("precision", Experiment(precision="float64"), '"float32" in its config.json and "float64" in this experiment'),
        ("meta.clip", Experiment(meta=MetaConfig(clip=2.0)), "null in its config.json and 2.0 in this experiment"),
        (
            "method.weighted",
            Experiment(EigenReptile(weighted=False)),
            "true in its config.json and false in this experiment",
        ),
    ],
)
def test_a_setting_that_an_old_config_lacks_has_its_default(
    tmp_path: Path, name: str, now: Experiment, difference: str
) -> None:
    older = without(to_json(Experiment()), name)
    assert older != to_json(Experiment())
    write_json(tmp_path / "config.json", older)
    with run_folder(tmp_path, Experiment()) as run:
        run.save_checkpoint(10, state(10), CLOCK)
        assert loads_bit_for_bit(run, 10)
    with pytest.raises(ConfigError) as refused, run_folder(tmp_path, now):
        pass
    differing = f"{name} is {difference}"
    assert str(refused.value) == f"{tmp_path} belongs to another experiment: {differing}. Choose another folder."


@pytest.mark.parametrize(
    ("saved", "problem"),
    [([1], "a list in place of"), ({"hue": 3}, "hue"), ({"meta": {"steps": 0}}, "`meta.steps` must be")],
)
def test_an_unreadable_config_is_refused_with_a_reason(tmp_path: Path, saved: Any, problem: str) -> None:
    write_json(tmp_path / "config.json", saved)
    expected = rf"the experiment in {tmp_path} cannot be read: .*{problem}.*\. Choose another folder\."
    with pytest.raises(ConfigError, match=expected), run_folder(tmp_path, Experiment()):
        pass


def test_a_run_without_its_config_is_refused(tmp_path: Path) -> None:
    with RunFolder.open(tmp_path, CONFIG) as run:
        run.save_checkpoint(10, state(10), CLOCK)
    (tmp_path / "config.json").unlink()
    assert "is not empty and not the folder of a run" in refusal(tmp_path)


def test_a_folder_is_refused_while_another_process_holds_it(tmp_path: Path) -> None:
    hold = "import sys, filelock as f\nwith f.FileLock(sys.argv[1]): print('held', flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", hold, str(tmp_path / ".lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        assert f"another process is using {tmp_path}" in refusal(tmp_path)
        holder.kill()
    with RunFolder.open(tmp_path, CONFIG) as run:
        assert f"another process is using {tmp_path}" in refusal(run.path)


def test_a_folder_below_a_regular_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert "Not a directory" in refusal(tmp_path / "file/run")
