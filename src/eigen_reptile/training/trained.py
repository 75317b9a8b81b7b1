"""What a run has learnt, to be evaluated with other settings or on other data."""

import logging
from pathlib import Path

from eigen_reptile.data import Dataset, Folder, Glyphs
from eigen_reptile.data.image_dataset import ImageDataset
from eigen_reptile.errors import ConfigError, RunError
from eigen_reptile.runtime.checkpoints import Checkpoint
from eigen_reptile.runtime.run_files import read_config
from eigen_reptile.runtime.run_folder import RunFolder
from eigen_reptile.training.config import Experiment
from eigen_reptile.training.loop import finished
from eigen_reptile.training.result import Result
from eigen_reptile.training.saved_result import read_result
from eigen_reptile.training.serialise import from_json
from eigen_reptile.training.setup import Setup, count_parameters
from eigen_reptile.training.state import TrainState

log = logging.getLogger(__name__)

CHANNELS = {1: "grey", 3: "rgb"}
"""What images have, and how `Folder` calls it."""

Shape = tuple[int, ...]
"""Channels, height and width."""


def trained_experiment(folder: Path) -> Experiment:
    """The experiment of the run in this folder; ConfigError if it is known to have learnt nothing."""
    try:
        exp, result = from_json(read_config(folder / "config.json")), trained_result(folder)
    except (RunError, ConfigError) as error:
        raise ConfigError(f"{folder} is not the folder of a run: {error}") from error
    if result is not None and result.choice is None:
        raise ConfigError(f"the run in {folder} has diverged: it has learnt nothing that could be tested")
    return exp


def last_checkpoint(folder: Path) -> Checkpoint:
    """The last checkpoint of a run; ConfigError if it is not the one that the run ended with."""
    checkpoint, result = RunFolder(folder).load_checkpoint(), trained_result(folder)
    if result is not None and (checkpoint is None or checkpoint.step != result.steps):
        raise ConfigError(f"the last checkpoint in {folder} is missing or damaged: train it again")
    if checkpoint is None:
        raise ConfigError(f"the training in {folder} is not finished: repeat its command first")
    return checkpoint


def trained_state(folder: Path, before: Experiment, checkpoint: Checkpoint, setup: Setup) -> TrainState:
    """The state in the checkpoint, for another set-up than that of `before`; ConfigError if it does not fit."""
    network_parameters = next(
        (tensor.shape[-1] for name, tensor in checkpoint.tensors.items() if name.endswith("square")), 0
    )
    trained_on, given = _image_shape(before, network_parameters), setup.banks.test.shape
    advice = ""
    if trained_on not in (None, given):
        advice = f": {folder} was {_explain_difference(trained_on, given, setup.exp.data)}"
    try:
        state = TrainState.fresh(setup).restored(checkpoint.step, checkpoint.tensors)
    except RunError as error:
        raise ConfigError(f"the parameters in {folder} do not fit this data set{advice or f': {error}'}") from error
    if advice:
        log.warning("the images are not like those of the training%s", advice)
    if not finished(before, state):
        raise ConfigError(
            f"the training in {folder} is not finished: it has done {state.step} of {before.meta.steps} iterations; "
            "repeat its command first"
        )
    if not state.alive:
        raise ConfigError(f"the run in {folder} has diverged: it has learnt nothing that could be tested")
    return state


def trained_result(folder: Path) -> Result | None:
    """The result of the run in this folder, if it has one."""
    file = folder / "result.json"
    return read_result(file) if file.exists() else None


def _image_shape(exp: Experiment, parameters: int) -> Shape | None:
    """The shape of an experiment's images, by its settings and by the parameters of its network; None if unknown."""
    if isinstance(exp.data, ImageDataset) and exp.data.image_shape is not None:
        return exp.data.image_shape
    if not isinstance(exp.data, Folder | Glyphs):
        return None
    shapes = [(channels, exp.data.size, exp.data.size) for channels in CHANNELS]
    fitting = [shape for shape in shapes if count_parameters(exp, shape, exp.task.way) == parameters]
    return fitting[0] if len(fitting) == 1 else None


def _explain_difference(trained_on: Shape, given: Shape, data: Dataset) -> str:
    other_size, other_channels = trained_on[1:] != given[1:], trained_on[0] != given[0]
    settings = []
    if other_size and isinstance(data, Folder | Glyphs):
        settings.append(f"`data.size` {trained_on[1]}")
    if other_channels and isinstance(data, Folder):
        settings.append(f"`data.channels` {CHANNELS[trained_on[0]]}")
    if len(settings) == other_size + other_channels:
        advice = f"use {' and '.join(settings)}"
    else:
        advice = "evaluate it on images of that form, such as those of the data set folder, which converts them"
    shapes = f"trained on {_format_shape(trained_on)}, and the images of this data set are {_format_shape(given)}"
    return f"{shapes}: {advice}"


def _format_shape(shape: Shape) -> str:
    channels, height, width = shape
    return f"{height} x {width} x {channels}"
