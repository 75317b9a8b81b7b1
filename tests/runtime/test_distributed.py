"""Several workers, as real processes: they give the results of a single process, and a run survives their deaths."""

import ctypes
import json
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from multiprocessing import get_context
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor
from torch.distributed.elastic.multiprocessing.errors import ProcessFailure

from eigen_reptile.cli import run
from eigen_reptile.errors import RunError
from eigen_reptile.nn import Mlp
from eigen_reptile.runtime import launcher
from eigen_reptile.runtime.distributed import ALONE, Workers, is_lead, is_restarted
from eigen_reptile.runtime.interruption import held_back_from_children
from eigen_reptile.runtime.progress import no_progress
from eigen_reptile.training.config import Experiment
from eigen_reptile.training.setup import set_up

pytestmark = pytest.mark.xdist_group("distributed")  # they share expensive fixtures

PATIENCE = 240
"""Seconds; the machine may be busy."""
TIMEOUT = 8
"""Seconds until an unresponsive worker counts as dead; longer than workers wait for each other at the start."""


def words(out: Path, workers: int) -> list[str]:
    """A run of some seconds, with several checkpoints."""
    settings = "--meta.steps 120 --meta.batch 3 --meta.lr 0.5 --model.hidden 8 --seeds 0 1 --checkpoint-every 10"
    evaluation = "--evaluation.tasks 7 --evaluation.monitor-tasks 3 --evaluation.every 60 --evaluation.inner-steps 0 4"
    exactly = f"--compile off --precision float64 --workers {workers} --out {out}"
    return f"train eigen-reptile sine {settings} {evaluation} {exactly}".split()


def command(out: Path, *more: str) -> list[str]:
    """The same run by two workers, as a command for another process."""
    return [sys.executable, "-m", "eigen_reptile", *words(out, 2), *more]


def starts(folder: Path) -> int:
    """How often the run was started."""
    file = folder / "environment.json"
    return len(json.loads(file.read_text())) if file.exists() else 0


def newest_step(folder: Path) -> int:
    return max((int(file.stem.removeprefix("step-")) for file in folder.glob("checkpoints/*.json")), default=0)


def end_of(folder: Path) -> dict[str, Tensor]:
    """The last checkpoint."""
    return load_file(max((folder / "checkpoints").glob("*.safetensors")))


def finished(out: Path, workers: int) -> Path:
    assert run([*words(out, workers), "--quiet"]) == 0
    return out


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return finished(tmp_path_factory.mktemp("alone") / "run", 1)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run by two workers, without any accident."""
    return finished(tmp_path_factory.mktemp("undisturbed") / "run", 2)


def check_same(folder: Path, other: Path) -> None:
    ours, theirs = end_of(folder), end_of(other)
    assert ours.keys() == theirs.keys()
    for name, tensor in ours.items():
        torch.testing.assert_close(tensor, theirs[name], rtol=1e-10, atol=1e-12)
    results = [json.loads((place / "result.json").read_text()) for place in (folder, other)]
    for part in ("experiment", "steps", "choice", "test", "replicas"):
        assert results[0][part] == results[1][part]
    for part in ("step", "score"):
        assert results[0]["learning_curve"][part] == results[1]["learning_curve"][part]


def check_only_the_lead_has_written(folder: Path, workers: int) -> None:
    (start,) = json.loads((folder / "environment.json").read_text())
    result = json.loads((folder / "result.json").read_text())
    assert start["workers"] == result["environment"]["workers"] == workers


def test_two_workers_with_unequal_numbers_of_tasks_give_the_result_of_one(alone: Path, undisturbed: Path) -> None:
    check_same(undisturbed, alone)
    check_only_the_lead_has_written(undisturbed, 2)


def test_one_worker_for_each_task_gives_the_result_of_one(alone: Path, tmp_path: Path) -> None:
    folder = finished(tmp_path / "run", 3)
    check_same(folder, alone)
    check_only_the_lead_has_written(folder, 3)


def children(parent: int) -> list[int]:
    """All descendants of a process."""
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


def wake_when_alone(pid: int, parent: int) -> None:
    """Resume a stopped worker once the lead has given it up; otherwise torch would kill it 30 seconds later."""
    until(lambda: workers_of(parent) == [pid])
    os.kill(pid, signal.SIGCONT)


@pytest.fixture
def started(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(command(tmp_path / "run", "--timeout", str(TIMEOUT)), stderr=subprocess.PIPE, text=True)
    yield process
    process.kill()


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds the workers in /proc")
def test_workers_that_die_or_hang_cost_only_time(
    undisturbed: Path, tmp_path: Path, started: subprocess.Popen[str]
) -> None:
    out = tmp_path / "run"

    def second_worker(start: int) -> int:
        """The second worker of the given start, once that start has saved a checkpoint."""
        until(lambda: starts(out) == start or started.poll() is not None)
        before = newest_step(out)
        until(lambda: newest_step(out) > before or started.poll() is not None)
        return workers_of(started.pid)[-1]

    os.kill(second_worker(1), signal.SIGKILL)
    hanging = second_worker(2)
    os.kill(hanging, signal.SIGSTOP)
    wake_when_alone(hanging, started.pid)
    _, err = started.communicate(timeout=PATIENCE)
    assert started.returncode == 0, err
    assert err.count("all workers were restarted") == 2
    assert starts(out) == 3
    ours, theirs = end_of(out), end_of(undisturbed)
    assert all(torch.equal(tensor, theirs[name]) for name, tensor in ours.items())


def interrupt(folder: Path, send: Callable[[int], None], after_checkpoint: bool) -> tuple[int, str]:
    """Start two workers, interrupt them, and return the exit code and all that was printed."""
    before = newest_step(folder)
    endless = command(folder, "--meta.steps", "1000000", "--quiet")
    process = subprocess.Popen(endless, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, process_group=0)
    try:
        until(lambda: process.poll() is not None or len(workers_of(process.pid)) == 2)
        until(lambda: process.poll() is not None or not after_checkpoint or newest_step(folder) > before)
        send(process.pid)
        out, _ = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
    return process.returncode, out


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds the workers in /proc")
def test_signals_end_all_workers_with_one_line_and_lose_nothing(tmp_path: Path) -> None:
    out = tmp_path / "run"
    ctrl_c, terminate = (lambda pid: os.killpg(pid, signal.SIGINT)), (lambda pid: os.kill(pid, signal.SIGTERM))
    code, printed = interrupt(out, ctrl_c, after_checkpoint=False)  # while the workers start
    assert (code, printed) == (130, "eigen-reptile: interrupted: repeat the command to continue\n")
    reached = [0]
    for send, expected in ((ctrl_c, 130), (terminate, 143)):
        code, printed = interrupt(out, send, after_checkpoint=True)
        assert code == expected, printed
        line = r"eigen-reptile: interrupted after iteration (\d+): repeat the command to continue from there\n"
        match = re.fullmatch(line, printed)
        assert match, printed
        reached.append(int(match[1]))
        assert newest_step(out) == reached[-1] > reached[-2]
    assert starts(out) == 2
    assert not [line for line in json.loads((out / "environment.json").read_text()) if line["workers"] != 2]


def lose_the_second_worker(folder: Path) -> str:
    """The second worker dies while the lead computes alone; the next start ends at once."""
    if is_restarted():
        return "restarted"
    computing = folder / "computing"
    if is_lead():
        computing.touch()
        time.sleep(PATIENCE)
        return "not interrupted"
    until(computing.exists)
    os.kill(os.getpid(), signal.SIGKILL)
    return "not killed"


def test_a_worker_that_dies_while_the_lead_computes_restarts_all(tmp_path: Path) -> None:
    loggers = [logging.getLogger(name) for name in ("torch.distributed.elastic", "torch.multiprocessing")]
    levels = [logger.level for logger in loggers]
    assert launcher.launch_workers(lose_the_second_worker, (tmp_path,), 2) == "restarted"
    assert [logger.level for logger in loggers] == levels


def end_in_work(folder: Path, shared: launcher._Interruption) -> None:
    """Be the lead, and write down how its main function ends."""
    os.environ |= {"RANK": "0", "WORLD_SIZE": "2"}
    try:
        launcher._work(shared, (folder / "worked").touch, ())
    except RunError as error:
        (folder / "error").write_text(str(error))


def test_a_signal_while_the_lead_starts_restarts_all(tmp_path: Path) -> None:
    context = get_context("spawn")
    shared = launcher._Interruption(
        context.RawValue(ctypes.c_bool), context.RawValue(ctypes.c_int), context.RawArray(ctypes.c_char, 200)
    )
    process = context.Process(target=end_in_work, args=(tmp_path, shared))
    with held_back_from_children():
        process.start()
    process.terminate()
    process.join(PATIENCE)
    assert process.exitcode == 0
    assert "the death of another worker" in (tmp_path / "error").read_text()
    assert not (tmp_path / "worked").exists()
    assert shared.lead.value == process.pid


@pytest.mark.parametrize(
    ("code", "message", "cause"),
    [(-9, None, "SIGKILL"), (1, "ValueError: bad\n  more", "ValueError: bad"), (1, {"message": "E: 1"}, "E: 1")],
)
def test_the_last_death_of_a_worker_is_a_sentence(tmp_path: Path, code: int, message: object, cause: str) -> None:
    file = tmp_path / "error.json"
    if message is not None:
        extra = {"extraInfo": {"timestamp": "1"}}
        file.write_text(json.dumps({"message": {**message, **extra} if isinstance(message, dict) else message}))
    assert launcher._explain(1, ProcessFailure(1, 123, code, str(file))) == (
        f"worker 1 died although all workers were restarted 3 times, at last from {cause}: repeat the command to "
        "continue from the last checkpoint"
    )


def hosts() -> Iterator[Mapping[str, str]]:
    """Two hosts on one machine: network namespaces with a virtual cable between them; addresses by name."""
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
                pytest.skip(f"cannot create network namespaces: {step}")
        yield address
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "delete", name], capture_output=True)


@pytest.fixture(name="hosts")
def hosts_fixture() -> Iterator[Mapping[str, str]]:
    if shutil.which("ip") is None:
        pytest.skip("creating network namespaces needs the command ip")
    yield from hosts()


def test_two_hosts_give_the_result_of_one(undisturbed: Path, tmp_path: Path, hosts: Mapping[str, str]) -> None:
    first = next(iter(hosts.values()))
    launcher = f"--nnodes 2 --nproc-per-node 1 --rdzv-backend c10d --rdzv-endpoint {first}:29511"
    processes = []
    for name, address in hosts.items():
        train = command(tmp_path / name, "--timeout", str(PATIENCE), "--quiet")[1:]
        launched = ["ip", "netns", "exec", name, sys.executable, "-m", "torch.distributed.run", *launcher.split()]
        # Both have the same host name, so they cannot find out by themselves which one is the rendezvous host.
        launched += ["--rdzv-conf", f"is_host={int(address == first)}", "--local-addr", address, *train]
        environment = os.environ | {"GLOO_SOCKET_IFNAME": name, "OMP_NUM_THREADS": "1"}
        processes.append(subprocess.Popen(launched, env=environment))
    try:
        assert [process.wait(PATIENCE) for process in processes] == [0, 0]
    finally:
        for process in processes:
            process.kill()
    (written,) = (tmp_path / name for name in hosts if (tmp_path / name).exists())  # only the lead writes
    ours, theirs = end_of(written), end_of(undisturbed)
    assert all(torch.equal(tensor, theirs[name]) for name, tensor in ours.items())


def test_more_workers_than_tasks_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(words(tmp_path / "run", 4)) == 2
    err = capsys.readouterr().err.replace("`", "").replace("--", "")
    assert re.search(r"4 workers cannot share the 3 tasks .* at most 3 workers", err)
    assert not (tmp_path / "run").exists()


def test_the_indices_of_all_workers_are_a_balanced_partition() -> None:
    for total in range(8):
        for count in range(1, 6):
            parts = [list(Workers(rank, count).own_indices(total)) for rank in range(count)]
            assert sorted(chain(*parts)) == list(range(total))
            assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_a_single_process_is_the_lead() -> None:
    setup = set_up(Experiment(model=Mlp((8,))), no_progress, "cpu")
    assert setup.workers == ALONE
    assert ALONE.lead
    assert ALONE.broadcast_text("text", setup.device) == "text"
