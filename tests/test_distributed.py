"""Several workers, as real processes: they go the same way as one, and survive the death of each other."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from eigen_reptile.cli.options import Output, Work
from eigen_reptile.cli.work import carry_out
from eigen_reptile.config import Experiment, MetaConfig
from eigen_reptile.distributed import ALONE, Workers
from eigen_reptile.evaluate import EvalConfig
from eigen_reptile.files import RunError
from eigen_reptile.jobs import Job
from eigen_reptile.methods import METHODS
from eigen_reptile.models import Mlp
from eigen_reptile.progress import silent
from eigen_reptile.stage import prepare

STEPS = 50
PATIENCE = 240
"""Seconds; the machine may be busy with other things."""


def experiment(steps: int) -> Experiment:
    return Experiment(
        method=METHODS["eigen-reptile"],
        model=Mlp((8,)),
        meta=MetaConfig(steps=steps, batch=5, lr=(0.5,)),
        evaluation=EvalConfig(tasks=7, monitor_tasks=3, every=25, pictures=()),
        seeds=(0, 1),
        compile="off",
        precision="float64",
    )


def end_of(folder: Path) -> dict[str, Tensor]:
    """The last checkpoint."""
    return load_file(max((folder / "checkpoints").glob("*.safetensors")))


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("alone") / "run"
    assert not carry_out([Job("alone", experiment(STEPS), folder)], Work(), Output(quiet=True)).failed
    return folder


def check_same(folder: Path, other: Path) -> None:
    ours, theirs = end_of(folder), end_of(other)
    assert ours.keys() == theirs.keys()
    for name, tensor in ours.items():
        torch.testing.assert_close(tensor, theirs[name], rtol=1e-10, atol=1e-12)
    results = [json.loads((place / "result.json").read_text()) for place in (folder, other)]
    for part in ("experiment", "steps", "choice", "history", "test", "lanes"):
        assert results[0][part] == results[1][part]


@pytest.mark.parametrize("workers", [2, 3, 5])
def test_any_number_of_workers_goes_the_same_way(alone: Path, tmp_path: Path, workers: int) -> None:
    job = Job("together", experiment(STEPS), tmp_path / "run")
    outcome = carry_out([job], Work(workers=workers), Output(quiet=True))
    assert not outcome.failed
    check_same(job.folder, alone)
    assert outcome.results["together"]["environment"]["workers"] == workers
    (start,) = json.loads((job.folder / "environment.json").read_text())  # one worker has written
    assert start["workers"] == workers


def command(out: Path, *more: str) -> list[str]:
    """A run of two workers that takes some seconds, with checkpoints on the way."""
    settings = (
        f"--meta.steps 200 --meta.batch 4 --evaluation.every 100 --evaluation.tasks 5 --model.hidden 8 --out {out}"
    )
    words = f"train eigen-reptile sine {settings} --compile off --precision float64 --checkpoint-every 20 --workers 2"
    return [sys.executable, "-m", "eigen_reptile", *words.split(), *more]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("undisturbed") / "run"
    subprocess.run(command(folder, "--quiet"), check=True, timeout=PATIENCE)
    return folder


def children(parent: int) -> list[int]:
    """Processes that do the work of one, however they are nested."""
    tasks = Path(f"/proc/{parent}/task/{parent}/children")
    found = [int(word) for word in tasks.read_text().split()] if tasks.exists() else []
    return [one for child in found for one in (child, *children(child))]


def workers_of(parent: int) -> list[int]:
    def is_worker(pid: int) -> bool:
        return "spawn_main" in Path(f"/proc/{pid}/cmdline").read_text()

    return [pid for pid in children(parent) if is_worker(pid)]


def until(ready: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE
    while not ready():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.fixture
def disturb(tmp_path: Path) -> Iterator[Callable[[signal.Signals, str], tuple[Path, str]]]:
    """Start a run, send a signal to its second worker after the first checkpoint, and wait for the end."""
    started: list[subprocess.Popen[str]] = []

    def act(sent: signal.Signals, timeout: str) -> tuple[Path, str]:
        out = tmp_path / "run"
        process = subprocess.Popen(command(out, "--timeout", timeout), stderr=subprocess.PIPE, text=True)
        started.append(process)
        until(lambda: list(out.glob("checkpoints/*.json")) or process.poll() is not None)
        os.kill(workers_of(process.pid)[-1], sent)
        _, err = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, err
        return out, err

    yield act
    for process in started:
        process.kill()


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds the workers by /proc")
@pytest.mark.parametrize(("sent", "timeout"), [(signal.SIGKILL, "100"), (signal.SIGSTOP, "8")], ids=["killed", "hangs"])
def test_a_worker_that_dies_or_hangs_costs_only_time(
    undisturbed: Path, disturb: Callable[[signal.Signals, str], tuple[Path, str]], sent: signal.Signals, timeout: str
) -> None:
    out, err = disturb(sent, timeout)
    assert "started again" in err
    assert len(json.loads((out / "environment.json").read_text())) == 2
    ours, theirs = end_of(out), end_of(undisturbed)
    assert all(torch.equal(tensor, theirs[name]) for name, tensor in ours.items())


def hosts() -> Iterator[Mapping[str, str]]:
    """Two hosts of one machine: network namespaces with a cable between them, by their names and addresses."""
    names = [f"er{os.getpid() % 10000}{side}" for side in "ab"]
    address = {names[0]: "10.203.17.1", names[1]: "10.203.17.2"}
    steps = [f"ip netns add {name}" for name in names]
    steps.append(f"ip link add {names[0]} netns {names[0]} type veth peer name {names[1]} netns {names[1]}")
    for name in names:
        steps += [f"ip -n {name} addr add {address[name]}/24 dev {name}"]
        steps += [f"ip -n {name} link set {device} up" for device in (name, "lo")]
    try:
        for step in steps:
            if subprocess.run(step.split(), capture_output=True).returncode:
                pytest.skip(f"cannot make network namespaces here: {step}")
        yield address
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "delete", name], capture_output=True)


@pytest.fixture(name="hosts")
def hosts_fixture() -> Iterator[Mapping[str, str]]:
    if shutil.which("ip") is None:
        pytest.skip("there is no ip command to make network namespaces with")
    yield from hosts()


def test_two_hosts_go_the_same_way_as_one(undisturbed: Path, tmp_path: Path, hosts: Mapping[str, str]) -> None:
    first = next(iter(hosts.values()))
    launcher = f"--nnodes 2 --nproc-per-node 1 --rdzv-backend c10d --rdzv-endpoint {first}:29511"
    processes = []
    for name, address in hosts.items():
        train = command(tmp_path / name, "--timeout", str(PATIENCE), "--quiet")[1:]
        words = ["ip", "netns", "exec", name, sys.executable, "-m", "torch.distributed.run", *launcher.split()]
        # Both have the machine's one name, so that they must be told what they would find out by it.
        words += ["--rdzv-conf", f"is_host={int(address == first)}", "--local-addr", address, *train]
        environment = os.environ | {"GLOO_SOCKET_IFNAME": name, "OMP_NUM_THREADS": "1"}
        processes.append(subprocess.Popen(words, env=environment))
    try:
        assert [process.wait(PATIENCE) for process in processes] == [0, 0]
    finally:
        for process in processes:
            process.kill()
    (written,) = (tmp_path / name for name in hosts if (tmp_path / name).exists())  # by one of them
    ours, theirs = end_of(written), end_of(undisturbed)
    assert all(torch.equal(tensor, theirs[name]) for name, tensor in ours.items())


def test_more_workers_than_tasks_are_refused(tmp_path: Path) -> None:
    job = Job("too many", experiment(STEPS), tmp_path / "run")
    with pytest.raises(RunError, match=r"6 workers cannot share the 5 tasks .* --workers 5"):
        carry_out([job], Work(workers=6), Output(quiet=True))
    assert not job.folder.exists()


def test_the_shares_of_all_workers_are_the_whole() -> None:
    for total in range(8):
        for count in range(1, 6):
            shares = [list(Workers(rank, count).share(total)) for rank in range(count)]
            assert sorted(chain(*shares)) == list(range(total))
            assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_a_process_by_itself_is_the_lead_of_none() -> None:
    stage = prepare(experiment(1), silent, "cpu")
    assert stage.workers == ALONE
    assert ALONE.lead
    assert ALONE.told("words", stage.device) == "words"
