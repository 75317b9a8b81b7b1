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
from eigen_reptile.runtime.checkpoints import progress_is_saved
from eigen_reptile.runtime.distributed import ALONE, Workers
from eigen_reptile.runtime.environment import current_environment
from eigen_reptile.runtime.files import read_tensors
from eigen_reptile.runtime.memory import out_of_memory_as_run_error
from eigen_reptile.runtime.process import configure_process
from eigen_reptile.runtime.progress import StartProgress, no_progress
from eigen_reptile.runtime.run_folder import NoRunFolder, RunFolder, RunLog
from eigen_reptile.training.conclude import conclude, example_problem, example_task
from eigen_reptile.training.config import Experiment
from eigen_reptile.training.loop import train
from eigen_reptile.training.metric_lines import read_metrics
from eigen_reptile.training.result import Result, TrainingSource
from eigen_reptile.training.saved_result import check_belongs, contradiction, read_result
from eigen_reptile.training.serialise import from_json, to_json, with_absolute_paths
from eigen_reptile.training.setup import Device, Setup, find_device, set_up
from eigen_reptile.training.state import TrainState
from eigen_reptile.training.trained import last_checkpoint, trained_experiment, trained_state

EXAMPLES = "example.safetensors"
RESULT = "result.json"


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
    exp, place = with_absolute_paths(exp), find_device(device)
    # Before the folder is made, so that nothing is left behind if the data cannot be used.
    has_result = _broadcast_json((folder / RESULT).exists(), workers, place)
    setup = None if has_result else set_up(exp, start_progress, device, workers)
    with _open_run_folder(folder, exp, workers, place) as log:
        report = start_progress(folder.name, exp.meta.steps)
        found = _broadcast_json(log.result(), workers, place)
        if found is not None:
            report(exp.meta.steps, {})
            return Result.from_json(found)
        setup = setup or set_up(exp, start_progress, device, workers)
        environment = current_environment(setup.device, workers.count)
        log.save_environment(asdict(environment))
        state = train(setup, log, checkpoint_every, report, start_progress)
        environment = replace(environment, compiled=setup.compiled)
        earlier, started = log.seconds(state.step), time.monotonic()
        metrics = read_metrics(log, len(exp.replicas))
        with progress_is_saved():
            result = conclude(setup, state, log, metrics, environment, start_progress)
            result = replace(result, seconds=round(earlier + time.monotonic() - started, 1))
            result = _save_result(log, setup, state, result)
        return Result.from_json(_broadcast_json(result.to_json(), workers, place))


@out_of_memory_as_run_error()
def evaluate_run(
    trained: Path, exp: Experiment, folder: Path, start_progress: StartProgress = no_progress, device: Device = "auto"
) -> Result:
    """Choose and test with what the run in `trained` has learnt, and save the result in `folder`.

    `exp` is that run's experiment with another evaluation, or other data. Only its training must be finished.
    """
    if folder.resolve() == trained.resolve():
        raise ConfigError(f"{folder} is the folder of the run itself: choose another folder for its evaluation")
    exp, source, before = with_absolute_paths(exp), RunFolder(trained), trained_experiment(trained)
    checkpoint = last_checkpoint(trained)
    configure_process()
    setup = set_up(exp, start_progress, device, trains=False)
    state = trained_state(trained, before, checkpoint, setup)
    digest = hashlib.sha256(state.theta.cpu().numpy().tobytes()).hexdigest()
    origin = TrainingSource(to_json(before), digest)
    with RunFolder.open(folder, to_json(exp) | {"trained": asdict(origin)}, _upgrade_evaluation) as log:
        if log.result() is not None:
            return read_result(folder / RESULT)
        started, environment = time.monotonic(), current_environment(setup.device)
        log.save_environment(asdict(environment))
        metrics = read_metrics(source, len(before.replicas))
        metrics = [line for line in metrics if line["kind"] != "snapshot"]  # made by the other evaluation
        result = conclude(setup, state, log, metrics, environment, start_progress, origin)
        result = replace(result, seconds=round(time.monotonic() - started, 1))
        return _save_result(log, setup, state, result)


def read_examples(folder: Path) -> dict[str, Any] | None:
    """The example task that a run stored to be shown, as arrays, if it stored one; RunError if it is damaged."""
    file = folder / EXAMPLES
    if not file.exists():
        return None
    result = folder / RESULT
    tensors = read_tensors(file, read_result(result).example if result.exists() else None)
    if problem := example_problem(tensors):
        raise RunError(f"{file} is damaged: {problem}; delete it to do without its figure")
    return {name: tensor.numpy() for name, tensor in tensors.items()}


def _save_result(log: RunLog, setup: Setup, state: TrainState, result: Result) -> Result:
    """Save the example task, then the result, whose presence marks the run as complete; returns what was saved."""
    if problem := contradiction(result):
        raise RunError(f"the metrics from which the result was made are damaged: {problem}")
    if result.test is not None and result.choice is not None and setup.exp.data.is_classification:
        result = replace(result, example=log.save_tensors(EXAMPLES, example_task(setup, state, result.choice.lr)))
    log.save_result(result.to_json())
    return result


def run_folder(folder: Path, exp: Experiment) -> AbstractContextManager[RunFolder]:
    """The folder of an experiment's run; settings that are missing in an older config have their defaults."""
    return RunFolder.open(folder, to_json(with_absolute_paths(exp)), _upgrade)


def _upgrade(saved: Any) -> dict[str, Any]:
    return to_json(with_absolute_paths(from_json(saved)))


def _upgrade_evaluation(saved: Any) -> dict[str, Any]:
    """The same for the config of another evaluation of a run, which also has the training that it belongs to."""
    match saved:
        case {"trained": {"experiment": before, "theta": theta}, **evaluated}:
            return _upgrade(evaluated) | {"trained": {"experiment": to_json(from_json(before)), "theta": theta}}
    return _upgrade(saved)


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
        """Store a result that was computed elsewhere, where its example task is, unless there is one already."""
        with run_folder(self.folder, self.experiment) as log:
            if log.result() is None:
                log.save_result(replace(result, example=None).to_json())


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
            if opened.result() is not None:
                check_belongs(read_result(folder / RESULT), exp, folder / RESULT)
        except (ConfigError, RunError) as error:
            workers.broadcast_text(str(error), device)
            raise
        workers.broadcast_text("", device)
        yield opened


def _broadcast_json(value: Any, workers: Workers, device: torch.device) -> Any:
    """The lead's value, on all workers; it must be JSON."""
    return value if workers.count == 1 else json.loads(workers.broadcast_text(json.dumps(value), device))
