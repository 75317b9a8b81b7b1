"""The metrics of a run: damage to them is noticed, and they end where the run continues."""

import json
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from tensorboardX.proto.event_pb2 import Event, SessionLog

from eigen_reptile.errors import RunError
from eigen_reptile.runtime.run_folder import RunFolder
from run_folders import CLOCK, checkpoint_file, cut, flip_a_bit, loads_bit_for_bit, state


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
