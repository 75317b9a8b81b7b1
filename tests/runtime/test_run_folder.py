"""The run folder under real damage: a full disk, truncated files, flipped bits, a second process."""

import json
import os
import resource
import shutil
import stat
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from tensorboardX.proto.event_pb2 import Event, SessionLog
from torch import Tensor

from eigen_reptile.errors import ConfigError, RunError
from eigen_reptile.methods import EigenReptile
from eigen_reptile.runtime.checkpoints import Clock
from eigen_reptile.runtime.files import read_tensors, write_atomically, write_json
from eigen_reptile.runtime.run_folder import RunFolder
from eigen_reptile.training.config import Experiment, MetaConfig
from eigen_reptile.training.experiment import run_folder
from eigen_reptile.training.serialise import to_json

CLOCK = Clock(1.5, 2.25)
CONFIG = {"meta": {"steps": 30, "lr": [1.0]}, "seeds": [0]}


@pytest.fixture
def run(tmp_path: Path) -> Iterator[RunFolder]:
    with RunFolder.open(tmp_path / "run", CONFIG) as run:
        yield run


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


# Checkpoints


def state(step: int) -> dict[str, Tensor]:
    """Values and memory layouts that a careless format would change."""
    return {
        "awkward": torch.tensor([step, -0.0, float("nan"), float("-inf"), 1e-45, 0.1]),
        "transposed": torch.arange(6.0, dtype=torch.float64).reshape(2, 3).T + step / 3,
        "count": torch.tensor([step, -1, 2**62]),
        "scalar": torch.tensor(step / 7),
    }


def bits(tensors: dict[str, Tensor]) -> dict[str, tuple[torch.dtype, torch.Size, bytes]]:
    return {name: (tensor.dtype, tensor.shape, tensor.numpy().tobytes()) for name, tensor in tensors.items()}


def loads_bit_for_bit(run: RunFolder, step: int) -> bool:
    loaded = run.load_checkpoint()
    return loaded is not None and loaded.step == step and bits(loaded.tensors) == bits(state(step))


def checkpoint_file(run: RunFolder, step: int, suffix: str) -> Path:
    return run.path / "checkpoints" / f"step-{step:09d}{suffix}"


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-3])


def flip_a_bit(file: Path) -> None:
    data = file.read_bytes()
    file.write_bytes(data[:-3] + bytes([data[-3] ^ 1]) + data[-2:])


def replace_by_a_pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


def test_the_newest_two_checkpoints_are_kept_and_the_newest_loads_bit_for_bit(run: RunFolder) -> None:
    for step in (9, 10, 100):
        run.save_checkpoint(step, state(step), CLOCK)
        assert loads_bit_for_bit(run, step)
    kept = {checkpoint_file(run, step, suffix) for step in (10, 100) for suffix in (".json", ".safetensors")}
    assert set((run.path / "checkpoints").iterdir()) == kept


def edited(file: Path, **changes: Any) -> None:
    """Change entries, and leave everything else as it is."""
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


def test_a_checkpoint_keeps_the_clock(run: RunFolder) -> None:
    run.save_checkpoint(10, state(10), Clock(0.1 + 0.2, 1 / 3))
    loaded = run.load_checkpoint()
    assert loaded is not None
    assert loaded.clock == (0.1 + 0.2, 1 / 3)
    assert run.seconds(10) == 1 / 3


@pytest.mark.parametrize(
    "changes",
    [
        {"step": 1_000_000},
        {"step": 10},
        {"step": True},
        {"experiment": "0" * 64},
        {"experiment": None},
        {"clock": {"training": 0.0, "total": 0.0}},
        {"metrics": {"bytes": 0, "sha256": "0" * 64}},
        {"metrics": None},
        {"sha256": "0" * 64},
        {"checksum": "0" * 64},
        {"checksum": None},
        {"more": 1},
    ],
    ids=str,
)
def test_an_edited_entry_of_a_checkpoint_is_noticed_and_the_previous_one_is_loaded(
    run: RunFolder, caplog: pytest.LogCaptureFixture, changes: dict[str, Any]
) -> None:
    run.save_checkpoint(10, state(10), CLOCK)
    run.save_checkpoint(20, state(20), CLOCK)
    edited(checkpoint_file(run, 20, ".json"), **changes)
    assert loads_bit_for_bit(run, 10)
    assert "the checkpoint of step 20 is damaged" in caplog.text
    assert len(run.damage()) == 1


def test_a_checkpoint_under_the_name_of_another_step_is_not_believed(run: RunFolder) -> None:
    run.save_checkpoint(10, state(10), CLOCK)
    for suffix in (".json", ".safetensors"):
        checkpoint_file(run, 10, suffix).rename(checkpoint_file(run, 30, suffix))
    assert run.load_checkpoint() is None


def test_the_checkpoint_of_another_experiment_is_not_continued(
    run: RunFolder, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with RunFolder.open(tmp_path / "other", CONFIG | {"seeds": [1]}) as other:
        other.save_checkpoint(20, state(20), CLOCK)
    run.save_checkpoint(10, state(10), CLOCK)
    for suffix in (".json", ".safetensors"):
        checkpoint_file(other, 20, suffix).rename(checkpoint_file(run, 20, suffix))
    assert loads_bit_for_bit(run, 10)
    assert "it belongs to a run with other settings" in caplog.text


@pytest.mark.parametrize("damage", [cut, flip_a_bit, Path.unlink, lambda file: file.write_bytes(b"")])
def test_damaged_metrics_are_noticed_and_parameters_are_not_thrown_away(
    run: RunFolder, damage: Callable[[Path], object]
) -> None:
    run.start_metrics(-1)
    run.log("train", 5, {"loss": 0.5})
    run.save_checkpoint(10, state(10), CLOCK)
    run.save_checkpoint(20, state(20), CLOCK)
    damage(run.path / "metrics.jsonl")
    with pytest.raises(RunError, match=r"metrics\.jsonl .*Restore it from a copy; or delete .*/checkpoints to train"):
        run.load_checkpoint()
    assert len(list((run.path / "checkpoints").iterdir())) == 4


def test_a_run_continues_before_the_damage_to_its_metrics(run: RunFolder, caplog: pytest.LogCaptureFixture) -> None:
    run.start_metrics(-1)
    run.log("train", 5, {"loss": 0.5})
    run.save_checkpoint(10, state(10), CLOCK)
    run.log("train", 15, {"loss": 0.25})
    run.save_checkpoint(20, state(20), CLOCK)
    cut(run.path / "metrics.jsonl")
    assert loads_bit_for_bit(run, 10)
    assert "metrics.jsonl is incomplete" in caplog.text
    assert "skipping the checkpoint of step 20" in caplog.text
    run.start_metrics(10)
    assert [line["step"] for line in run.metrics()] == [5]


@pytest.mark.parametrize("suffix", [".json", ".safetensors"])
def test_a_damaged_checkpoint_says_nothing_about_the_metrics_when_its_step_is_reached_again(
    run: RunFolder, suffix: str
) -> None:
    run.start_metrics(-1)
    run.log("train", 5, {"loss": 0.5})
    run.save_checkpoint(10, state(10), CLOCK)
    run.log("train", 15, {"loss": 0.25})
    run.save_checkpoint(20, state(20), CLOCK)
    cut(checkpoint_file(run, 20, suffix))
    assert loads_bit_for_bit(run, 10)
    run.start_metrics(10)
    assert not checkpoint_file(run, 20, ".json").exists()
    assert loads_bit_for_bit(run, 10)
    for step in (12, 14, 16, 18):
        run.log("train", step, {"loss": 0.125})
    run.start_metrics(20)  # as after an interruption of the next iteration
    assert [line["step"] for line in run.metrics()] == [5, 12, 14, 16, 18]


def test_lines_after_the_checkpoint_are_dropped_whatever_step_they_claim(run: RunFolder) -> None:
    run.start_metrics(-1)
    run.log("train", 5, {"loss": 0.5})
    run.save_checkpoint(10, state(10), CLOCK)
    with (run.path / "metrics.jsonl").open("ab") as file:
        file.write(b'\0\0\0\n{"kind": "train", "step": 7, "loss": 7}\n')
    assert loads_bit_for_bit(run, 10)
    run.start_metrics(10)
    assert run.metrics() == [{"kind": "train", "step": 5, "loss": 0.5}]


@pytest.mark.parametrize("limit", [{"MOST_LINES": 3}, {"MOST_BYTES": 140}], ids=str)
def test_metrics_are_refused_before_they_are_too_large_to_be_read(
    run: RunFolder, monkeypatch: pytest.MonkeyPatch, limit: dict[str, int]
) -> None:
    for name, value in limit.items():
        monkeypatch.setattr(f"eigen_reptile.runtime.metrics.{name}", value)
    run.start_metrics(-1)
    for step in (1, 2, 3):
        run.log("train", step, {"loss": 0.5})
    with pytest.raises(RunError, match=r"metrics\.jsonl is full: .* start a new run"):
        run.log("train", 4, {"loss": 0.5})
    run.save_checkpoint(3, state(3), CLOCK)
    assert loads_bit_for_bit(run, 3)
    assert [line["step"] for line in run.metrics()] == [1, 2, 3]
    with (run.path / "metrics.jsonl").open("ab") as file:
        file.write(b"{}\n" * 50)
    with pytest.raises(RunError, match=r"metrics\.jsonl is too large"):
        run.metrics()


def test_a_checkpoint_is_saved_without_reading_the_metrics_again(
    run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    run.start_metrics(-1)
    run.log("train", 1, {"loss": 0.5})
    run.save_checkpoint(1, state(1), CLOCK)
    run.start_metrics(1)
    run.log("train", 2, {"loss": 0.5})
    with monkeypatch.context() as patch:
        patch.setattr("eigen_reptile.runtime.metrics.read_bytes", None)
        run.save_checkpoint(2, state(2), CLOCK)
    assert loads_bit_for_bit(run, 2)


@pytest.mark.parametrize("damage", [cut, Path.unlink])
def test_metrics_that_another_process_changes_are_not_continued(run: RunFolder, damage: Callable[[Path], None]) -> None:
    run.start_metrics(-1)
    run.log("train", 5, {"loss": 0.5})
    damage(run.path / "metrics.jsonl")
    with pytest.raises(RunError, match=r"metrics\.jsonl"):
        run.log("train", 6, {"loss": 0.5})


@pytest.mark.parametrize(
    ("damage", "suffix"),
    [
        *((damage, ".safetensors") for damage in (cut, flip_a_bit, Path.unlink, replace_by_a_pipe)),
        (cut, ".json"),
    ],
)
def test_a_damaged_checkpoint_is_reported_and_the_previous_one_is_loaded(
    run: RunFolder, caplog: pytest.LogCaptureFixture, damage: Callable[[Path], None], suffix: str
) -> None:
    run.save_checkpoint(10, state(10), CLOCK)
    run.save_checkpoint(20, state(20), CLOCK)
    damage(checkpoint_file(run, 20, suffix))
    assert loads_bit_for_bit(run, 10)
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert "the checkpoint of step 20 is damaged" in record.getMessage()


def test_other_tensors_are_saved_bit_for_bit_and_damage_to_them_is_reported(run: RunFolder) -> None:
    run.save_tensors("some.safetensors", state(3))
    file = run.path / "some.safetensors"
    assert bits(read_tensors(file)) == bits(state(3))
    cut(file)
    with pytest.raises(RunError, match=r"some\.safetensors is damaged"):
        read_tensors(file)
    file.unlink()
    with pytest.raises(RunError, match=r"cannot read .*some\.safetensors"):
        read_tensors(file)


def test_a_checkpoint_without_its_description_is_ignored(run: RunFolder, caplog: pytest.LogCaptureFixture) -> None:
    run.save_checkpoint(10, state(10), CLOCK)
    checkpoint_file(run, 10, ".json").unlink()
    assert run.load_checkpoint() is None
    assert not caplog.records


def test_damaged_checkpoints_are_reported_and_do_not_displace_later_ones(
    run: RunFolder, caplog: pytest.LogCaptureFixture
) -> None:
    for step in (100, 200):
        run.save_checkpoint(step, state(step), CLOCK)
        cut(checkpoint_file(run, step, ".safetensors"))
    half_written = run.path / "checkpoints/.step-000000300.safetensors.1.tmp"
    half_written.touch()
    assert run.load_checkpoint() is None
    assert "starting from the beginning" in caplog.records[-1].getMessage()
    run.save_checkpoint(10, state(10), CLOCK)
    assert loads_bit_for_bit(run, 10)
    assert not half_written.exists()


# Metrics


def shown_by_tensorboard(folder: Path) -> set[tuple[str, int, float]]:
    """What TensorBoard reads: records of length, checksum, event, checksum; START drops that step and later ones."""
    shown: set[tuple[str, int, float]] = set()
    for file in sorted(folder.glob("events.out.tfevents.*")):
        data, events = file.read_bytes(), []
        while data:
            end = 12 + struct.unpack_from("<Q", data)[0]
            events.append(Event.FromString(data[12:end]))
            data = data[end + 4 :]
        assert events[0].file_version == "brain.Event:2"
        for event in events:
            if event.session_log.status == SessionLog.START:
                shown = {point for point in shown if point[1] < event.step}
            shown |= {(value.tag, event.step, value.simple_value) for value in event.summary.value}
    return shown


@pytest.mark.parametrize("torn", [b'{"kind": "train", "st', b"\xff\xfe\x00"])
def test_an_incomplete_last_line_is_deleted(run: RunFolder, torn: bytes) -> None:
    first, second = ({"kind": "train", "step": step, "length": 0.5} for step in (10, 20))
    run.start_metrics(-1)
    run.log("train", 10, {"length": 0.5})
    run.close()
    with (run.path / "metrics.jsonl").open("ab") as file:
        file.write(torn)
    assert run.metrics() == [first]
    run.start_metrics(10)
    run.log("train", 20, {"length": 0.5})
    assert [json.loads(line) for line in (run.path / "metrics.jsonl").read_text().splitlines()] == [first, second]


def test_a_restart_drops_metrics_after_the_checkpoint_also_in_tensorboard(run: RunFolder) -> None:
    run.start_metrics(-1)
    for step in (0, 10, 20, 30):
        run.log("validation", step, {"mean_error": step / 4, "error": [step, None]})
    run.close()
    run.start_metrics(20)
    assert [line["step"] for line in run.metrics()] == [0, 10, 20]
    run.log("validation", 25, {"mean_error": 0.5, "replicas": 2})
    run.save_checkpoint(25, {}, CLOCK)  # flushes: after a kill, TensorBoard's file is complete up to here
    errors = {("validation/mean_error", step, value) for step, value in ((0, 0.0), (10, 2.5), (20, 5.0), (25, 0.5))}
    assert shown_by_tensorboard(run.path) == errors | {("validation/replicas", 25, 2.0)}


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


# The folder


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


def contents(folder: Path) -> dict[Path, bytes]:
    return {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}


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


@pytest.mark.parametrize("line", ["12", '{"kind": "train"}', '["kind", "step"]'])
def test_a_line_of_metrics_that_no_run_has_logged_is_reported(tmp_path: Path, line: str) -> None:
    with RunFolder.open(tmp_path / "run", {}) as run:
        run.start_metrics(-1)
        run.log("train", 1, {"loss": 0.5})
        (logged,) = run.metrics()
        with (tmp_path / "run" / "metrics.jsonl").open("a") as file:
            file.write(line + "\n")
        with pytest.raises(RunError, match=r"metrics\.jsonl has a line that is not a log entry"):
            run.metrics()
    assert logged == {"kind": "train", "step": 1, "loss": 0.5}
