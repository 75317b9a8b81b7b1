"""Contenders of several benchmarks: this library, lower bounds on the time of an iteration, and jax-meta."""

import subprocess
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import IO, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from benchmarks.peers import float_data
from benchmarks.timing import Contender, ContenderFactory
from eigen_reptile.errors import RunError
from eigen_reptile.runtime.process import configure_process
from eigen_reptile.runtime.progress import no_progress
from eigen_reptile.tasks import Batches, Tasks
from eigen_reptile.training.config import Experiment
from eigen_reptile.training.data import TrainingData
from eigen_reptile.training.loop import iterate, update_function
from eigen_reptile.training.setup import Setup, set_up
from eigen_reptile.training.state import TrainState


def library_contender(exp: Experiment) -> Contender:
    """A whole iteration as in training, including sampling."""
    setup = library_setup(exp)
    meta_update = update_function(setup)
    state, data = TrainState.fresh(setup), TrainingData(setup).after(0)

    @torch.no_grad()
    def contender() -> None:
        nonlocal state
        state, _ = iterate(setup, meta_update, state, *next(data))

    return contender


def library_entry(exp: Experiment, iterations: float = 1) -> ContenderFactory:
    """The entry of `library_contender`; all methods of this library share a process."""
    return ContenderFactory(partial(library_contender, exp), iterations, process="library")


def library_setup(exp: Experiment) -> Setup:
    """An experiment set up as for training, in a process configured like that of training."""
    configure_process()
    return set_up(exp, no_progress, "cpu")


def bare_passes(exp: Experiment, build: Callable[[], nn.Module]) -> Contender:
    """A lower bound: only the forward and backward passes of an iteration's mini-batches."""
    module, images, tasks, batches = _in_best_layout(exp, build)
    parameters, loss = list(module.parameters()), nn.CrossEntropyLoss()
    mini_batches = [
        (_channels_last(images[task, chosen]), tasks.y[0, task, chosen])
        for task in range(exp.meta.batch)
        for chosen in batches.chosen[0, task]
    ]

    def contender() -> None:
        for x, y in mini_batches:
            torch.autograd.grad(loss(module(x), y), parameters)

    return contender


def bare_forward_passes(exp: Experiment, build: Callable[[], nn.Module]) -> Contender:
    """The same without backward passes, and with all images of a task in one batch."""
    module, images, _, batches = _in_best_layout(exp, build)
    inputs = [_channels_last(images[task, batches.chosen[0, task].flatten()]) for task in range(exp.meta.batch)]

    @torch.no_grad()
    def contender() -> None:
        for x in inputs:
            module(x)

    return contender


def combined_contender(makers: Sequence[Callable[[], Contender]]) -> Contender:
    """Several contenders one after the other, as one."""
    contenders = [make() for make in makers]

    def contender() -> None:
        for each in contenders:
            each()

    return contender


def _in_best_layout(exp: Experiment, build: Callable[[], nn.Module]) -> tuple[nn.Module, Tensor, Tasks, Batches]:
    """A network and the data of one iteration, channels last.

    A grey image gets a second channel of zeros, because PyTorch uses the slower layout for a single channel.
    """
    tasks, batches = float_data(library_setup(exp), 0)
    images = tasks.x[0] if tasks.x.shape[3] > 1 else pad(tasks.x[0], (0, 0, 0, 0, 0, 1))
    module = build()
    for parameter in module.parameters():
        if parameter.ndim == 4:
            parameter.data = _channels_last(parameter)
    return module, images, tasks, batches


def _channels_last(x: Tensor) -> Tensor:
    return x.contiguous(memory_format=torch.channels_last)


def matrix_product(side: int) -> Contender:
    """A product of large square matrices, which runs near the peak speed of the machine."""
    factor = torch.rand(side, side)

    def contender() -> None:
        torch.mm(factor, factor)

    return contender


def jax_meta(python: str, tasks: int, iterations: int) -> Contender:
    """This many iterations of jax-meta on sine waves for each call, by a Python of another environment."""
    script = Path(__file__).with_name("jax_meta_peer.py")
    command = [python, str(script), str(tasks)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
    requests, answers = cast(IO[str], process.stdin), cast(IO[str], process.stdout)

    def contender() -> None:
        requests.write(f"{iterations}\n")
        if not answers.readline():
            raise RunError(f"{python} could not run jax-meta; its error message is above")

    return contender
