"""Checkpoints under real damage: truncated files, flipped bits, edited entries, those of other runs."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from eigen_reptile.errors import RunError
from eigen_reptile.runtime.checkpoints import Clock
from eigen_reptile.runtime.files import read_tensors
from eigen_reptile.runtime.run_folder import RunFolder
from run_folders import CLOCK, CONFIG, bits, checkpoint_file, cut, edited, flip_a_bit, loads_bit_for_bit, state


def replace_by_a_pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


def test_the_newest_two_checkpoints_are_kept_and_the_newest_loads_bit_for_bit(run: RunFolder) -> None:
    for step in (9, 10, 100):
        run.save_checkpoint(step, state(step), CLOCK)
        assert loads_bit_for_bit(run, step)
    kept = {checkpoint_file(run, step, suffix) for step in (10, 100) for suffix in (".json", ".safetensors")}
    assert set((run.path / "checkpoints").iterdir()) == kept


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
