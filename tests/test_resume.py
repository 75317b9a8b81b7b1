"""Runs that are really killed, and then continued by the same command, against runs that were left alone."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

COMMAND = Path(sys.executable).parent / "eigen-reptile"
STEPS = 100
OPTIONS = (
    *("train", "eigen-reptile", "--compile", "off", "--checkpoint-every", "10"),
    *("--meta.steps", str(STEPS), "--inner.steps", "3", "--model.hidden", "16", "16"),
    *("--evaluation.tasks", "4", "--evaluation.monitor-tasks", "2", "--evaluation.every", "5"),
    *("--evaluation.after", "0", "4", "--evaluation.pictures", "1", str(STEPS)),
)
ADAM = ("--inner.optimizer", "adam", "--inner.lr", "0.001", "--seeds", "0", "1", "--meta.lr", "0.5")
# More threads would not make such small networks faster, but would stand in each other's way on a busy machine.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "FORCE_COLOR"} | {
    "OMP_NUM_THREADS": "1",
    "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]),
}
ON_PICTURES = f"""
import sys
from dataclasses import replace
from pathlib import Path
from eigen_reptile import run_experiment
from eigen_reptile.methods import EigenReptile, Ispl, Selected
from eigen_reptile.noise import NoiseConfig
from eigen_reptile.tasks import TaskConfig
from pictures import SMALL
exp = replace(
    SMALL,
    method=Selected(EigenReptile(), Ispl(decay=0.02, every=7)),
    noise=NoiseConfig("symmetric", 0.3),
    task=TaskConfig(way=3, shots=12),
    meta=replace(SMALL.meta, steps={STEPS}, batch=1),
    evaluation=replace(SMALL.evaluation, every=5, monitor_tasks=2),
)
run_experiment(exp, Path(sys.argv[1]), checkpoint_every=10)
"""
"""With wrong labels, and a threshold that falls while training."""


def start(folder: Path, *options: str) -> subprocess.Popen[str]:
    return _start(str(COMMAND), *OPTIONS, "--out", str(folder), *options)


def start_on_pictures(folder: Path) -> subprocess.Popen[str]:
    return _start(sys.executable, "-c", ON_PICTURES, str(folder))


def _start(*command: str) -> subprocess.Popen[str]:
    nowhere, here = subprocess.DEVNULL, subprocess.PIPE
    return subprocess.Popen(command, env=ENVIRONMENT, stdout=nowhere, stderr=here, text=True)


def finish(process: subprocess.Popen[str]) -> str:
    """Everything it told, on one line; a terminal of 80 columns breaks it anywhere."""
    _, told = process.communicate(timeout=120)
    assert process.returncode == 0, told
    return " ".join(told.split())


def kill_between_checkpoints(process: subprocess.Popen[str], folder: Path) -> None:
    """After the second, once metrics behind the newest are there, which will have to be forgotten."""
    while newest_step(folder) < 20 or last_logged(folder) <= newest_step(folder):
        assert process.poll() is None, process.communicate()
        time.sleep(0.005)
    process.kill()
    process.communicate()
    assert not (folder / "result.json").exists()
    assert newest_step(folder) < STEPS


def newest_step(folder: Path) -> int:
    return max((int(file.stem.removeprefix("step-")) for file in folder.glob("checkpoints/*.json")), default=0)


def last_logged(folder: Path) -> int:
    return int(re.findall(r'"step": (\d+)', (folder / "metrics.jsonl").read_text())[-1])


def checkpoint(folder: Path, step: int) -> Path:
    return folder / "checkpoints" / f"step-{step:09d}.safetensors"


def final_tensors(folder: Path) -> dict[str, Tensor]:
    assert newest_step(folder) == STEPS
    return load_file(checkpoint(folder, STEPS))


def final_bits(folder: Path) -> dict[str, bytes]:
    return {name: tensor.numpy().tobytes() for name, tensor in final_tensors(folder).items()}


def result(folder: Path) -> dict[str, Any]:
    """What a run found, without where and how fast."""
    found: dict[str, Any] = json.loads((folder / "result.json").read_text())
    return {key: value for key, value in found.items() if not key.endswith(("environment", "seconds"))}


def learning_curve(folder: Path) -> list[dict[str, Any]]:
    lines = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
    return [line | {"seconds": None} for line in lines if line["kind"] == "validation"]


def assert_same_outcome(continued: Path, uninterrupted: Path) -> None:
    assert final_bits(continued) == final_bits(uninterrupted)
    assert result(continued) == result(uninterrupted)
    assert learning_curve(continued) == learning_curve(uninterrupted)


def test_a_killed_run_continues_to_the_same_bits_even_from_the_checkpoint_before(tmp_path: Path) -> None:
    uninterrupted, killed, damaged = (tmp_path / name for name in ("uninterrupted", "killed", "damaged"))
    left_alone, first = start(uninterrupted), start(killed)
    kill_between_checkpoints(first, killed)
    reached = newest_step(killed)
    shutil.copytree(killed, damaged)
    newest = checkpoint(damaged, reached)
    newest.write_bytes(newest.read_bytes()[:-1])
    finish(left_alone)
    second, after_damage = start(killed), start(damaged)
    told, told_after_damage = finish(second), finish(after_damage)

    assert f"continuing after iteration {reached}" in told
    assert_same_outcome(killed, uninterrupted)
    assert [line["step"] for line in learning_curve(killed)] == list(range(0, STEPS + 1, 5))
    assert f"checkpoint of step {reached} is damaged" in told_after_damage
    assert f"continuing after iteration {reached - 10}" in told_after_damage
    assert_same_outcome(damaged, uninterrupted)


def test_lanes_with_adams_memory_continue_beside_lanes_that_diverge(tmp_path: Path) -> None:
    killed, uninterrupted, alone = (tmp_path / name for name in ("killed", "uninterrupted", "alone"))
    beside_absurd = (*ADAM, "1e30")
    first, left_alone = start(killed, *beside_absurd), start(uninterrupted, *beside_absurd)
    kill_between_checkpoints(first, killed)
    finish(left_alone)
    second, without_absurd = start(killed, *beside_absurd), start(alone, *ADAM)
    finish(second)
    finish(without_absurd)

    assert_same_outcome(killed, uninterrupted)
    lanes = result(killed)["lanes"]
    assert [lane["lr"] for lane in lanes] == [0.5, 0.5, 1e30, 1e30]
    assert [lane["diverged_at"] is not None for lane in lanes] == [False, False, True, True]
    assert [lane["validation"] is None for lane in lanes] == [False, False, True, True]
    expected = final_tensors(alone)
    assert expected["memory.steps"].tolist() == [3 * STEPS, 3 * STEPS]
    for name, tensor in final_tensors(killed).items():
        assert tensor.isfinite().all()
        torch.testing.assert_close(tensor[:2], expected[name], rtol=1e-5, atol=1e-6)
    assert result(killed)["choice"]["lr"] == 0.5
    assert result(killed)["test"][0]["mean"] == pytest.approx(result(alone)["test"][0]["mean"], rel=1e-4)


def test_a_killed_run_on_pictures_continues_to_the_same_bits(tmp_path: Path) -> None:
    killed, uninterrupted = tmp_path / "killed", tmp_path / "uninterrupted"
    first, left_alone = start_on_pictures(killed), start_on_pictures(uninterrupted)
    kill_between_checkpoints(first, killed)
    finish(left_alone)
    finish(start_on_pictures(killed))

    assert_same_outcome(killed, uninterrupted)
    example = "example.safetensors"
    assert (killed / example).read_bytes() == (uninterrupted / example).read_bytes()
    found = final_tensors(killed)
    assert found["memory.steps"].tolist() == [2 * STEPS, 2 * STEPS]
    for lane, step in enumerate(found["best.step"].tolist()):
        curve = [line["scores"][lane] for line in learning_curve(killed)]
        assert step == 5 * curve.index(max(curve))
        assert (found["best.memory.steps"][lane] == 2 * step).all()
