"""How jobs are executed: in this process, in workers, in parallel processes."""

import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from command_line import SMALL, Cli, saved
from eigen_reptile.data import CifarFs
from eigen_reptile.methods import METHODS
from eigen_reptile.nn import Conv4, Mlp
from eigen_reptile.recipes import RECIPES, Recipe
from eigen_reptile.tasks import TaskConfig
from eigen_reptile.training.config import Experiment, MetaConfig
from eigen_reptile.training.evaluate import EvalConfig

FITS = Experiment(
    method=METHODS["reptile"],
    model=Mlp((4,)),
    meta=MetaConfig(steps=2, batch=2),
    evaluation=EvalConfig(tasks=3, monitor_tasks=2, every=15, inner_steps=(0, 2), snapshot_steps=()),
    compile="off",
)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_cell_that_cannot_run_does_not_stop_the_next(
    cli: Cli, workers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One cell has no data; another has fewer tasks than two workers."""
    cells = {
        "no data": replace(FITS, data=CifarFs(root=tmp_path / "none"), model=Conv4(4), task=TaskConfig(way=5)),
        "one task": replace(FITS, meta=replace(FITS.meta, batch=1)),
        "fits": FITS,
    }
    monkeypatch.setitem(RECIPES, "tiny", Recipe("", lambda scale: cells))
    printed = cli("run", "tiny", "--out", "runs", "--json", "--workers", str(workers))
    assert printed.code == 1
    assert list(json.loads(printed.out)["results"]) == (["one task", "fits"] if workers == 1 else ["fits"])
    assert f"{workers} of 3 cells failed. no data: " in printed.problem()


@pytest.fixture
def small_disk() -> Iterator[None]:
    """Limit files to 16 KiB, in this process and in those that it starts, as if the disk were full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**14, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.usefixtures("small_disk")
def test_a_full_disk_stops_the_workers_of_one_cell_only_and_does_not_restart_them(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    logged = replace(FITS, meta=replace(FITS.meta, steps=400), evaluation=replace(FITS.evaluation, every=1))
    monkeypatch.setitem(RECIPES, "tiny", Recipe("", lambda scale: {"logs much": logged, "fits": FITS}))
    printed = cli("run", "tiny", "--out", "runs", "--workers", "2", "--json")
    assert printed.code == 1
    assert list(json.loads(printed.out)["results"]) == ["fits"]
    assert printed.problem() == (
        "eigen-reptile: 1 of 2 cells failed. logs much: cannot write runs/logs much/metrics.jsonl: File too large. "
        "Progress up to the last checkpoint is saved: fix the problem and repeat the command"
    )
    assert len(json.loads(Path("runs/logs much/environment.json").read_text())) == 1


def test_finished_cells_of_other_experiments_do_not_stop_workers(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    cells = {"one": FITS, "two": replace(FITS, method=METHODS["eigen-reptile"])}
    monkeypatch.setitem(RECIPES, "tiny", Recipe("", lambda scale: cells))
    assert cli("run", "tiny", "--out", "runs", "--only", "one", "--seeds", "7", "--quiet") == (0, "", "")
    printed = cli("run", "tiny", "--out", "runs", "--workers", "2", "--json")
    assert printed.code == 2
    assert list(json.loads(printed.out)["results"]) == ["two"]
    assert "1 of 2 cells failed. one: runs/one belongs to another experiment: " in printed.problem()


@pytest.mark.parametrize("more", ["--jobs 2", "--engine ray"])
def test_workers_and_jobs_are_not_mixed(cli: Cli, more: str) -> None:
    printed = cli("run", "sine", "--workers", "2", *more.split())
    assert printed.code == 2
    assert "use either --workers" in printed.problem()


def test_the_cells_of_a_recipe_run_in_parallel(cli: Cli, recipe: str) -> None:
    printed = cli("run", recipe, "--out", "runs", "--steps", "2", "--seeds", "0", "--jobs", "2", "--json")
    assert printed.code == 0
    assert list(json.loads(printed.out)["results"]) == ["reptile", "eigen-reptile"]
    assert cli("run", recipe, "--out", "alone", "--steps", "2", "--seeds", "0", "--json").code == 0
    for name in ("reptile", "eigen-reptile"):
        assert saved(f"runs/{name}/result.json")["test"] == saved(f"alone/{name}/result.json")["test"]


def test_ctrl_c_ends_parallel_cells_with_one_line_and_a_checkpoint_each(tmp_path: Path) -> None:
    words = ("run", "sine", "--out", "runs", "--steps", "2999", "--seeds", "0", "--jobs", "2", "--quiet")
    command = (sys.executable, "-m", "eigen_reptile", *words)
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True, process_group=0)
    try:
        while sum('"train"' in file.read_text() for file in tmp_path.glob("runs/*/metrics.jsonl")) < 2:
            assert process.poll() is None
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=120)
    finally:
        process.kill()
    assert (process.returncode, err) == (130, "eigen-reptile: interrupted: repeat the command to continue\n")
    assert len({file.parent for file in tmp_path.glob("runs/*/checkpoints/*.json")}) == 2


def test_a_full_disk_is_reported_and_the_run_continues_when_there_is_room(cli: Cli) -> None:
    # 8 blocks of 512 bytes are enough for checkpoints of this network, but not for 80 lines of metrics.
    limited = ("sh", "-c", 'ulimit -f 8 && exec "$0" "$@"', sys.executable, "-m", "eigen_reptile")
    often = ("--checkpoint-every", "10", "--evaluation.every", "1", "--evaluation.snapshot-steps", "100")
    command = ("train", "eigen-reptile", "sine", "--out", "run", *SMALL, "--meta.steps", "80", *often)
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    stopped = subprocess.run([*limited, *command, "--quiet"], env=environment, capture_output=True, text=True)
    assert (stopped.returncode, stopped.stdout) == (1, "")
    assert stopped.stderr == (
        "eigen-reptile: cannot write run/metrics.jsonl: File too large. "
        "Progress up to the last checkpoint is saved: fix the problem and repeat the command\n"
    )
    reached = max(int(file.stem.removeprefix("step-")) for file in Path("run/checkpoints").glob("*.json"))
    continued = cli(*command)
    assert continued.code == 0
    assert f"continuing after iteration {reached}" in continued.err
    assert saved("run/result.json")["learning_curve"]["step"] == list(range(81))
