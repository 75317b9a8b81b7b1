"""Runs that are interrupted by Ctrl-C or a signal at any moment, against uninterrupted runs."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, final

import numpy as np
import pytest
from safetensors.torch import load_file

from eigen_reptile.cli import run as run_command
from eigen_reptile.nn import Mlp
from eigen_reptile.runtime.interruption import handled_by
from eigen_reptile.runtime.progress import ReportProgress
from eigen_reptile.training.config import Experiment, MetaConfig
from eigen_reptile.training.evaluate import EvalConfig
from eigen_reptile.training.experiment import run
from patterns import SMALL

CURVES = Experiment(
    model=Mlp(hidden=(8,)),
    meta=MetaConfig(steps=6, lr=(0.5, 1e30)),
    evaluation=EvalConfig(tasks=3, monitor_tasks=2, every=2, shots=(3,), inner_steps=(0, 2), snapshot_steps=(1, 5)),
    compile="off",
)
IMAGES = replace(SMALL, meta=replace(SMALL.meta, steps=2, keep="best"))
MOMENTS = 4


def outcome(folder: Path) -> tuple[dict[str, bytes], dict[str, Any]]:
    """The bits of the last checkpoint, and the result without what depends on the time."""
    newest = max((folder / "checkpoints").glob("*.safetensors"))
    found = json.loads((folder / "result.json").read_text())
    del found["environment"], found["seconds"], found["learning_curve"]["seconds"], found["checksum"]
    return {name: tensor.numpy().tobytes() for name, tensor in load_file(newest).items()}, found


def newest_step(folder: Path) -> int:
    return max((int(file.stem.removeprefix("step-")) for file in folder.glob("checkpoints/*.json")), default=0)


@final
class Calls:
    """Counts the calls of Python functions, and interrupts at one of them, as Ctrl-C does."""

    def __init__(self, last: int | None = None) -> None:
        self.count = 0
        self.last = last

    def __enter__(self) -> "Calls":
        sys.setprofile(self._count)
        return self

    def __exit__(self, *error: object) -> None:
        sys.setprofile(None)

    def _count(self, frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and "eigen_reptile" in frame.f_code.co_filename:
            self.count += 1
            if self.count == self.last:
                sys.setprofile(None)
                raise KeyboardInterrupt


@pytest.mark.parametrize("exp", [CURVES, IMAGES], ids=["curves", "images"])
def test_an_interruption_at_any_moment_costs_one_iteration_and_no_bit(exp: Experiment, tmp_path: Path) -> None:
    run(exp, tmp_path / "whole")
    expected = outcome(tmp_path / "whole")
    with Calls() as calls:  # not of the first run, which also calls what is called once in a process
        run(exp, tmp_path / "counted")
    generator = np.random.default_rng(0)
    for moment in generator.integers(1, calls.count, size=MOMENTS).tolist():
        folder, reported = tmp_path / str(moment), [0]

        def start(name: str, total: int, folder: Path = folder, reported: list[int] = reported) -> ReportProgress:
            def report(done: int, metrics: Mapping[str, float]) -> None:
                if name == folder.name:
                    reported.append(done)

            return report

        with pytest.raises(KeyboardInterrupt) as raised, Calls(moment):
            run(exp, folder, start)
        assert newest_step(folder) >= reported[-1]
        if found := re.search(r"after iteration (\d+)", str(raised.value)):
            assert int(found[1]) == newest_step(folder)
        run(exp, folder)
        assert outcome(folder) == expected, moment


WORDS = (
    *("train", "eigen-reptile", "sine", "--compile", "off", "--meta.steps", "100"),
    *("--inner.steps", "3", "--model.hidden", "16", "16", "--evaluation.tasks", "4", "--evaluation.monitor-tasks", "2"),
    *("--evaluation.every", "5", "--evaluation.inner-steps", "0", "4", "--evaluation.snapshot-steps", "1", "--out"),
)


def logged(folder: Path) -> int:
    file = folder / "metrics.jsonl"
    return (
        max((int(step) for step in re.findall(r'"step": (\d+)', file.read_text())), default=0) if file.exists() else 0
    )


def run_in_a_process(folder: Path, number: int, reached: int) -> tuple[int, str]:
    """The exit code and the messages of a process that gets this signal once it has logged this step."""
    environment = {name: value for name, value in os.environ.items() if name != "FORCE_COLOR"} | {
        "OMP_NUM_THREADS": "1"
    }
    command = [sys.executable, "-m", "eigen_reptile", *WORDS, str(folder)]
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        while logged(folder) < reached:
            assert process.poll() is None, process.communicate()
            time.sleep(0.005)
        process.send_signal(number)
        _, messages = process.communicate(timeout=60)
    return process.returncode, messages


def run_here(folder: Path, number: int, reached: int, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """The same in this process, which takes less time than to start another."""
    ended = threading.Event()

    def send() -> None:
        while logged(folder) < reached and not ended.wait(0.005):
            pass
        os.kill(os.getpid(), number)

    with handled_by(lambda number, frame: None):  # should the signal come too late, it must not end the tests
        sender = threading.Thread(target=send)
        sender.start()
        code = run_command([*WORDS, str(folder)])
        ended.set()
        sender.join()
    return code, capsys.readouterr().err


@pytest.mark.timeout(300)
def test_each_signal_saves_a_checkpoint_and_says_from_where_the_next_start_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.setenv("COLUMNS", "200")  # or the messages are broken into several lines
    folder = tmp_path / "run"
    here = partial(run_here, capsys=capsys)
    starts: tuple[tuple[int, Callable[[Path, int, int], tuple[int, str]]], ...] = (
        (signal.SIGHUP, here),
        (signal.SIGTERM, run_in_a_process),
        (signal.SIGINT, here),
    )
    for reached, (number, start) in zip((10, 20, 30), starts, strict=True):
        code, output = start(folder, number, reached)
        assert code == 128 + number, output
        step = newest_step(folder)
        assert step >= reached - 1  # at most the interrupted iteration is lost
        assert logged(folder) <= step
        last = output.splitlines()[-1]
        assert last == f"eigen-reptile: interrupted after iteration {step}: repeat the command to continue from there"
        assert "Traceback" not in output
    for last_or_only in (folder, tmp_path / "whole"):
        assert run_command([*WORDS, str(last_or_only), "--quiet"]) == 0
    assert outcome(folder) == outcome(tmp_path / "whole")
