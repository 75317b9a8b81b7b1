"""One experiment from start to result: load, train, choose on validation tasks, test."""

import hashlib
import json
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

import torch

from eigen_reptile.errors import ConfigError, RunError
from eigen_reptile.runtime.distributed import ALONE, Workers
from eigen_reptile.runtime.environment import current_environment
from eigen_reptile.runtime.files import read_json, read_tensors
from eigen_reptile.runtime.memory import out_of_memory_as_run_error
from eigen_reptile.runtime.process import configure_process
from eigen_reptile.runtime.progress import StartProgress, no_progress
from eigen_reptile.runtime.run_folder import NoRunFolder, RunFolder, RunLog
from eigen_reptile.training.conclude import conclude, example_task
from eigen_reptile.training.config import Experiment
from eigen_reptile.training.loop import train
from eigen_reptile.training.old_formats import upgrade_metrics
from eigen_reptile.training.result import Result, TrainingSource, read_result
from eigen_reptile.training.serialise import from_json, to_json
from eigen_reptile.training.setup import Device, Setup, find_device, set_up
from eigen_reptile.training.state import TrainState

EXAMPLES = "example.safetensors"


@out_of_memory_as_run_error()
def run(
    exp: Experiment,
    folder: Path,
    start_progress: StartProgress = no_progress,
    checkpoint_every: int = 1000,
    device: Device = "auto",
    workers: Workers = ALONE,
) -> Result:
    """Train, choose and test in this folder, or continue what was begun there.

    With several workers each calls this with the same arguments, and only the lead uses the folder.
    """
    if checkpoint_every < 1:
        raise ConfigError(f"`checkpoint_every` must be at least 1, not {checkpoint_every}")
    place = find_device(device)
    # Before the folder is made, so that nothing is left behind if the data cannot be used.
    finished = _broadcast_json((folder / "result.json").exists(), workers, place)
    setup = None if finished else set_up(exp, start_progress, device, workers)
    with _open_run_folder(folder, exp, workers, place) as log:
        report = start_progress(folder.name, exp.meta.steps)
        found = _broadcast_json(log.result(), workers, place)
        if found is not None:
            report(exp.meta.steps, {})
            return Result.from_json(found)
        setup = setup or set_up(exp, start_progress, device, workers)
        environment = current_environment(setup.device, workers.count)
        started = time.monotonic()
        try:
            log.save_environment(asdict(environment))
            state = train(setup, log, checkpoint_every, report)
            environment = replace(environment, compiled=setup.compiled)
            metrics = [upgrade_metrics(line) for line in log.metrics()]
            result = conclude(setup, state, metrics, environment, start_progress)
            result = replace(result, seconds=round(time.monotonic() - started, 1))
            _save_result(log, setup, state, result)
        except RunError as error:
            raise RunError(
                f"{error}. Progress up to the last checkpoint is saved: fix the problem and repeat the command"
            ) from error
        return Result.from_json(_broadcast_json(result.to_json(), workers, place))


@out_of_memory_as_run_error()
def evaluate_run(
    trained: Path, exp: Experiment, folder: Path, start_progress: StartProgress = no_progress, device: Device = "auto"
) -> Result:
    """Choose and test with what the finished run in `trained` has learnt, and save the result in `folder`.

    `exp` is that run's experiment with another evaluation, or other data.
    """
    source, before = RunFolder(trained), finished_experiment(trained)
    checkpoint, steps = source.load_checkpoint(), read_result(trained / "result.json").steps
    if checkpoint is None or checkpoint.step != steps:
        raise ConfigError(f"the last checkpoint in {trained} is missing or damaged: train it again")
    configure_process()
    setup = set_up(exp, start_progress, device, trains=False)
    try:
        state = TrainState.fresh(setup).restored(checkpoint.step, checkpoint.tensors)
    except RunError as error:
        raise ConfigError(f"the parameters in {trained} do not fit this data set: {error}") from error
    digest = hashlib.sha256(state.theta.cpu().numpy().tobytes()).hexdigest()
    origin = TrainingSource(to_json(before), digest)
    with RunFolder.open(folder, to_json(exp) | {"trained": asdict(origin)}) as log:
        if (found := log.result()) is not None:
            return Result.from_json(found)
        started, environment = time.monotonic(), current_environment(setup.device)
        log.save_environment(asdict(environment))
        metrics = [upgrade_metrics(line) for line in source.metrics()]
        metrics = [line for line in metrics if line["kind"] != "snapshot"]  # made by the other evaluation
        result = conclude(setup, state, metrics, environment, start_progress, origin)
        result = replace(result, seconds=round(time.monotonic() - started, 1))
        _save_result(log, setup, state, result)
        return result


def finished_experiment(folder: Path) -> Experiment:
    """The experiment of the run in this folder, if it has finished and not diverged."""
    try:
        exp = from_json(read_json(folder / "config.json"))
        result = read_result(folder / "result.json") if (folder / "result.json").exists() else None
    except (RunError, ConfigError) as error:
        raise ConfigError(f"{folder} is not the folder of a run: {error}") from error
    if result is None:
        raise ConfigError(f"the run in {folder} is not finished: repeat its command first")
    if result.choice is None:
        raise ConfigError(f"the run in {folder} has diverged: it has learnt nothing that could be tested")
    return exp


def read_examples(folder: Path) -> dict[str, Any] | None:
    """The example task that a run stored to be shown, as arrays, if it stored one."""
    file = folder / EXAMPLES
    return {name: tensor.numpy() for name, tensor in read_tensors(file).items()} if file.exists() else None


def _save_result(log: RunLog, setup: Setup, state: TrainState, result: Result) -> None:
    """Save the result last: its presence marks the run as complete."""
    if result.test is not None and result.choice is not None and setup.exp.data.is_classification:
        log.save_tensors(EXAMPLES, example_task(setup, state, result.choice.lr))
    log.save_result(result.to_json())


def run_folder(folder: Path, exp: Experiment) -> AbstractContextManager[RunFolder]:
    """The folder of an experiment's run; settings that are missing in an older config have their defaults."""
    return RunFolder.open(folder, to_json(exp), upgrade=lambda saved: to_json(from_json(saved)))


class ExperimentJob(NamedTuple):
    """One experiment to run in a folder, in any process."""

    name: str
    experiment: Experiment
    folder: Path
    checkpoint_every: int = 1000
    device: Device = "auto"

    def run(self, start_progress: StartProgress, workers: Workers = ALONE) -> Result:
        return run(self.experiment, self.folder, start_progress, self.checkpoint_every, self.device, workers)

    def save(self, result: Result) -> None:
        """Store a result that was computed elsewhere, unless there is one already."""
        with run_folder(self.folder, self.experiment) as log:
            if log.result() is None:
                log.save_result(result.to_json())


@contextmanager
def _open_run_folder(folder: Path, exp: Experiment, workers: Workers, device: torch.device) -> Iterator[RunLog]:
    """The lead's run folder. An error in opening it is raised on all workers, or they would wait for the lead."""
    if not workers.lead:
        if problem := workers.broadcast_text("", device):
            raise RunError(problem)
        yield NoRunFolder()
        return
    with ExitStack() as stack:
        try:
            opened = stack.enter_context(run_folder(folder, exp))
        except (ConfigError, RunError) as error:
            workers.broadcast_text(str(error), device)
            raise
        workers.broadcast_text("", device)
        yield opened


def _broadcast_json(value: Any, workers: Workers, device: torch.device) -> Any:
    """The lead's value, on all workers; it must be JSON."""
    return value if workers.count == 1 else json.loads(workers.broadcast_text(json.dumps(value), device))
