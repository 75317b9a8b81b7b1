"""Runs whose process is killed and that the same command continues, against uninterrupted runs.

Only what is killed needs a process of its own, which takes longer to start than the run itself.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from eigen_reptile.cli import run as run_command
from eigen_reptile.methods import EigenReptile, Ispl, WithSampleSelection
from eigen_reptile.noise import NoiseConfig
from eigen_reptile.tasks import TaskConfig
from eigen_reptile.training.experiment import run
from patterns import SMALL

pytestmark = pytest.mark.xdist_group("resume")  # so that one process is killed for all

COMMAND = Path(sys.executable).parent / "eigen-reptile"
STEPS = 60
IMAGE_STEPS = 40
OPTIONS = (
    *("train", "eigen-reptile", "sine", "--compile", "off", "--checkpoint-every", "10"),
    *("--meta.steps", str(STEPS), "--inner.steps", "3", "--model.hidden", "16", "16"),
    *("--evaluation.tasks", "4", "--evaluation.monitor-tasks", "2", "--evaluation.every", "5"),
    *("--evaluation.inner-steps", "0", "4", "--evaluation.snapshot-steps", "1", str(STEPS)),
)
ADAM = ("--inner.optimizer", "adam", "--inner.lr", "0.001", "--seeds", "0", "1", "--meta.lr", "0.5")
WITH_HUGE_STEP = (*ADAM, "1e30")
# More threads would not make such small networks faster, but slow each other down on a shared machine.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "FORCE_COLOR"} | {
    "OMP_NUM_THREADS": "1",
    "PYTHONPATH": os.pathsep.join(
        [str(Path(__file__).parent), str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    ),
}
IMAGES = replace(
    SMALL,
    method=WithSampleSelection(EigenReptile(), Ispl(decay=0.02, every=7)),
    noise=NoiseConfig("symmetric", 0.3),
    task=TaskConfig(way=3, shots=12),
    meta=replace(SMALL.meta, steps=IMAGE_STEPS, batch=1),
    evaluation=replace(SMALL.evaluation, every=5, monitor_tasks=2),
)
"""With wrong labels, and a threshold that decreases during training."""


def words(folder: Path, *options: str) -> list[str]:
    return [*OPTIONS, "--out", str(folder), *options]


def finish(folder: Path, *options: str) -> None:
    assert run_command([*words(folder, *options), "--quiet"]) == 0


def run_on_images(folder: Path) -> None:
    run(IMAGES, folder, checkpoint_every=10)


def kill_between_checkpoints(folder: Path, steps: int, *command: str) -> None:
    """After the second one, when metrics of later steps are there, which must be dropped when the run continues."""
    process = subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    while newest_step(folder) < 20 or last_logged(folder) <= newest_step(folder):
        assert process.poll() is None, process.communicate()
        time.sleep(0.005)
    process.kill()
    process.communicate()
    assert not (folder / "result.json").exists()
    assert newest_step(folder) < steps


def newest_step(folder: Path) -> int:
    return max((int(file.stem.removeprefix("step-")) for file in folder.glob("checkpoints/*.json")), default=0)


def last_logged(folder: Path) -> int:
    return int(re.findall(r'"step": (\d+)', (folder / "metrics.jsonl").read_text())[-1])


def checkpoint(folder: Path, step: int) -> Path:
    return folder / "checkpoints" / f"step-{step:09d}.safetensors"


def final_tensors(folder: Path) -> dict[str, Tensor]:
    """The last checkpoint of a finished run."""
    assert newest_step(folder) == result(folder)["steps"]
    return load_file(checkpoint(folder, newest_step(folder)))


def final_bits(folder: Path) -> dict[str, bytes]:
    return {name: tensor.numpy().tobytes() for name, tensor in final_tensors(folder).items()}


def result(folder: Path) -> dict[str, Any]:
    """The result without the environment, the durations and the checksum over them."""
    found: dict[str, Any] = json.loads((folder / "result.json").read_text())
    del found["environment"], found["seconds"], found["learning_curve"]["seconds"], found["checksum"]
    return found


def learning_curve(folder: Path) -> list[dict[str, Any]]:
    lines = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
    return [line | {"seconds": None} for line in lines if line["kind"] == "validation"]


def assert_same_outcome(continued: Path, uninterrupted: Path) -> None:
    assert final_bits(continued) == final_bits(uninterrupted)
    assert result(continued) == result(uninterrupted)
    assert learning_curve(continued) == learning_curve(uninterrupted)


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with a huge second step size whose process was killed, to be copied."""
    folder = tmp_path_factory.mktemp("killed") / "run"
    kill_between_checkpoints(folder, STEPS, str(COMMAND), *words(folder, *WITH_HUGE_STEP))
    return folder


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same run, not killed."""
    folder = tmp_path_factory.mktemp("uninterrupted") / "run"
    finish(folder, *WITH_HUGE_STEP)
    return folder


def test_a_killed_run_continues_to_the_same_bits_even_from_an_earlier_checkpoint(
    killed: Path, uninterrupted: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reached = newest_step(killed)
    continued, damaged = (shutil.copytree(killed, tmp_path / name) for name in ("continued", "damaged"))
    newest = checkpoint(damaged, reached)
    newest.write_bytes(newest.read_bytes()[:-1])
    outputs = []
    for folder in (continued, damaged):
        assert run_command(words(folder, *WITH_HUGE_STEP)) == 0
        outputs.append(" ".join(capsys.readouterr().err.split()))  # a terminal of 80 columns breaks lines anywhere
    output, output_after_damage = outputs

    assert f"continuing after iteration {reached}" in output
    assert_same_outcome(continued, uninterrupted)
    assert [line["step"] for line in learning_curve(continued)] == list(range(0, STEPS + 1, 5))
    assert f"checkpoint of step {reached} is damaged" in output_after_damage
    assert f"continuing after iteration {reached - 10}" in output_after_damage
    assert_same_outcome(damaged, uninterrupted)


def test_replicas_with_a_state_of_adam_train_next_to_diverging_replicas_as_they_would_alone(
    uninterrupted: Path, tmp_path: Path
) -> None:
    finish(tmp_path / "alone", *ADAM)
    alone = tmp_path / "alone"
    replicas = result(uninterrupted)["replicas"]
    assert [replica["lr"] for replica in replicas] == [0.5, 0.5, 1e30, 1e30]
    assert [replica["diverged_at"] is not None for replica in replicas] == [False, False, True, True]
    assert [replica["validation"] is None for replica in replicas] == [False, False, True, True]
    expected = final_tensors(alone)
    assert expected["inner_state.steps"].tolist() == [3 * STEPS, 3 * STEPS]
    for name, tensor in final_tensors(uninterrupted).items():
        assert tensor.isfinite().all()
        torch.testing.assert_close(tensor[:2], expected[name], rtol=1e-5, atol=1e-6)
    assert result(uninterrupted)["choice"]["lr"] == 0.5
    assert result(uninterrupted)["test"][0]["mean"] == pytest.approx(result(alone)["test"][0]["mean"], rel=1e-4)


def test_a_killed_run_on_images_continues_to_the_same_bits(tmp_path: Path) -> None:
    killed, uninterrupted = tmp_path / "killed", tmp_path / "uninterrupted"
    code = "import sys, pathlib, test_resume; test_resume.run_on_images(pathlib.Path(sys.argv[1]))"
    kill_between_checkpoints(killed, IMAGE_STEPS, sys.executable, "-c", code, str(killed))
    run_on_images(uninterrupted)
    run_on_images(killed)

    assert_same_outcome(killed, uninterrupted)
    example = "example.safetensors"
    assert (killed / example).read_bytes() == (uninterrupted / example).read_bytes()
    found = final_tensors(killed)
    assert found["inner_state.steps"].tolist() == [2 * IMAGE_STEPS, 2 * IMAGE_STEPS]
    for replica, step in enumerate(found["best.step"].tolist()):
        curve = [line["scores"][replica] for line in learning_curve(killed)]
        assert step == 5 * curve.index(max(curve))
        assert (found["best.inner_state.steps"][replica] == 2 * step).all()
