"""One experiment from start to result: bank -> learner -> train -> choose on validation -> test."""

import hashlib
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any

import torch

from eigen_reptile.config import Experiment, from_json, to_json
from eigen_reptile.distributed import ALONE, Workers
from eigen_reptile.environment import environment
from eigen_reptile.files import FolderError, RunError, read_json
from eigen_reptile.progress import Announce, silent
from eigen_reptile.result import EXAMPLES, conclude, example_task
from eigen_reptile.runs import Elsewhere, RunDir, RunLog
from eigen_reptile.stage import Device, Stage, found_device, prepare
from eigen_reptile.state import TrainState
from eigen_reptile.train import settle_machine, train


def run_experiment(
    exp: Experiment,
    folder: Path,
    announce: Announce = silent,
    checkpoint_every: int = 1000,
    device: Device = "auto",
    workers: Workers = ALONE,
) -> dict[str, Any]:
    """Train, choose and test in this folder; continue what is there; return what result.json holds.

    Of several workers each calls this with the same arguments, and only the lead uses the folder.
    """
    if checkpoint_every < 1:
        raise ValueError(f"checkpoint_every must be at least 1, not {checkpoint_every}")
    place = found_device(device)
    # Before the folder is made, so that nothing is left behind if the data cannot be used.
    finished = _of_lead((folder / "result.json").exists(), workers, place)
    stage = None if finished else prepare(exp, announce, device, workers)
    with _opened(folder, exp, workers, place) as run:
        report = announce(folder.name, exp.meta.steps)
        found: dict[str, Any] | None = _of_lead(run.result(), workers, place)
        if found is not None:
            report(exp.meta.steps, {})
            return found
        stage = stage or prepare(exp, announce, device, workers)
        here = environment(stage.device) | {"workers": workers.count}
        started = time.monotonic()
        try:
            run.save_environment(here)
            state = train(stage, run, checkpoint_every, report)
            result = conclude(stage, state, run.metrics(), announce)
            result |= {"seconds": round(time.monotonic() - started, 1), "environment": here}
            _keep(run, stage, state, result)
        except RunError as error:
            raise RunError(
                f"{error}. Nothing before the last checkpoint is lost: mend this, then repeat the command"
            ) from error
        shared: dict[str, Any] = _of_lead(result, workers, place)
        return shared


def evaluate_again(
    trained: Path, exp: Experiment, folder: Path, announce: Announce = silent, device: Device = "auto"
) -> dict[str, Any]:
    """Choose and test with what the finished run in `trained` has learnt; return what result.json in `folder` holds.

    `exp` is that run's experiment with another evaluation, or other data. The folder's config says what was trained.
    """
    source, before = RunDir(trained), finished_experiment(trained)
    checkpoint, steps = source.load_checkpoint(), (source.result() or {}).get("steps")
    if checkpoint is None or checkpoint.step != steps:
        raise FolderError(f"the last checkpoint in {trained} is not there any more, or damaged: train it again")
    settle_machine()
    stage = prepare(exp, announce, device, trains=False)
    try:
        state = TrainState.fresh(stage).restored(checkpoint.step, checkpoint.tensors)
    except RunError as error:
        raise FolderError(f"what {trained} has learnt does not fit these data: {error}") from error
    digest = hashlib.sha256(state.theta.cpu().numpy().tobytes()).hexdigest()
    origin = {"trained": {"experiment": to_json(before), "theta": digest}}
    with RunDir.open(folder, to_json(exp) | origin) as run:
        if (found := run.result()) is not None:
            return found
        started, here = time.monotonic(), environment(stage.device)
        run.save_environment(here)
        logged = [line for line in source.metrics() if line["kind"] != "picture"]  # of the evaluation that was
        result = conclude(stage, state, logged, announce)
        result |= {"seconds": round(time.monotonic() - started, 1), "environment": here} | origin
        _keep(run, stage, state, result)
        return result


def finished_experiment(folder: Path) -> Experiment:
    """What the run in this folder is a run of, if it has come to a good end."""
    try:
        exp, result = from_json(read_json(folder / "config.json")), RunDir(folder).result()
        chosen = None if result is None else result["choice"]
    except (RunError, ValueError, KeyError, TypeError) as error:
        raise FolderError(f"{folder} is not the folder of a run: {error}") from error
    if result is None:
        raise FolderError(f"the run in {folder} is not finished: repeat its command first")
    if chosen is None:
        raise FolderError(f"the run in {folder} has diverged: it has learnt nothing that could be tested")
    return exp


def _keep(run: RunLog, stage: Stage, state: TrainState, result: Mapping[str, Any]) -> None:
    """The result, which comes last, because it says that all is done."""
    if result["test"] is not None and stage.exp.data.classifies:
        run.save_tensors(EXAMPLES, example_task(stage, state, result["choice"]["lr"]))
    run.save_result(result)


def run_folder(folder: Path, exp: Experiment) -> AbstractContextManager[RunDir]:
    """The folder of an experiment's run, to hold; an older one than some setting counts as having its default."""
    return RunDir.open(folder, to_json(exp), completed=lambda saved: to_json(from_json(saved)))


@contextmanager
def _opened(folder: Path, exp: Experiment, workers: Workers, device: torch.device) -> Iterator[RunLog]:
    """The lead's run folder. If that cannot be opened, it is an error on all workers: none would come to the others."""
    if not workers.lead:
        if problem := workers.told("", device):
            raise RunError(problem)
        yield Elsewhere()
        return
    with ExitStack() as stack:
        try:
            run = stack.enter_context(run_folder(folder, exp))
        except RunError as error:
            workers.told(str(error), device)
            raise
        workers.told("", device)
        yield run


def _of_lead(value: Any, workers: Workers, device: torch.device) -> Any:
    """The value that the lead has, if JSON can hold it."""
    return value if workers.count == 1 else json.loads(workers.told(json.dumps(value), device))
