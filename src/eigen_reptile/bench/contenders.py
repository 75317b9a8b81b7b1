"""Reptile's outer iteration: by this library, as anyone would write it in PyTorch, and with the peers' libraries."""

import copy
import subprocess
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from importlib.resources import files
from itertools import cycle
from typing import IO, Any, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import pad
from torch.optim import Optimizer

from eigen_reptile.bench.turns import Contender, Entry
from eigen_reptile.config import Experiment
from eigen_reptile.files import RunError
from eigen_reptile.progress import silent
from eigen_reptile.stage import Stage, prepare
from eigen_reptile.state import TrainState
from eigen_reptile.tasks import Batches, Tasks
from eigen_reptile.train import iterate, maybe_compiled, settle_machine, training_data, training_data_from

MeanLoss = Callable[[Tensor, Tensor], Tensor]
Optimizers = Callable[[Iterable[nn.Parameter]], Optimizer]
Reptile = Callable[[nn.Module, Tasks, Batches, Optimizers, MeanLoss, float], None]
"""One outer iteration that changes the module."""


def library(exp: Experiment) -> Contender:
    """A whole iteration as `train` does it, sampling included."""
    stage = library_stage(exp)
    propose = maybe_compiled(stage)
    state, data = TrainState.fresh(stage), training_data_from(stage, 0)

    @torch.no_grad()
    def contender() -> None:
        nonlocal state
        state, _ = iterate(stage, propose, state, *next(data))

    return contender


def library_entry(exp: Experiment, does: float = 1) -> Entry:
    """The same as an entry; all methods of this library share a process."""
    return Entry(partial(library, exp), does, home="library")


def library_stage(exp: Experiment) -> Stage:
    """An experiment made ready as `train` does it."""
    settle_machine()
    return prepare(exp, silent, "cpu")


def other(reptile: Reptile, exp: Experiment, build: Callable[[], nn.Module]) -> Contender:
    """Another way to do the same, on tasks drawn beforehand: it is not charged for sampling."""
    stage, module = prepare(exp, silent, "cpu"), build()
    optimizers, loss = optimizers_of(exp), nn.CrossEntropyLoss() if exp.data.classifies else nn.MSELoss()
    turns = cycle([plain_data(stage, step) for step in range(5)])

    def contender() -> None:
        reptile(module, *next(turns), optimizers, loss, exp.meta.lr[0])

    return contender


def plain_data(stage: Stage, step: int) -> tuple[Tasks, Batches]:
    """An iteration's data in floating-point numbers, as PyTorch lays them in memory by default."""
    tasks, batches = training_data(stage, step)
    x, query_x = (
        (x.to(stage.exp.dtype) / 255 if x.dtype == torch.uint8 else x).contiguous() for x in (tasks.x, tasks.query_x)
    )
    return tasks._replace(x=x, query_x=query_x), batches


def optimizers_of(exp: Experiment) -> Optimizers:
    inner = exp.inner
    if inner.optimizer == "sgd":
        return lambda parameters: torch.optim.SGD(parameters, lr=inner.lr)
    return lambda parameters: torch.optim.Adam(parameters, lr=inner.lr, betas=(0.0, inner.beta2), eps=inner.eps)


def plain_reptile(
    module: nn.Module, tasks: Tasks, batches: Batches, optimizers: Optimizers, loss: MeanLoss, outer_lr: float
) -> None:
    """Reptile as anyone would write it: copy the module, step torch.optim, one task at a time."""

    def fitted(steps: Iterator[tuple[Tensor, Tensor]]) -> Iterable[Tensor]:
        mine = copy.deepcopy(module)
        optimizer = optimizers(mine.parameters())
        for x, y in steps:
            optimizer.zero_grad()
            loss(mine(x), y).backward()
            optimizer.step()
        return mine.parameters()

    _move(module, tasks, batches, fitted, outer_lr)


def higher_reptile(
    module: nn.Module, tasks: Tasks, batches: Batches, optimizers: Optimizers, loss: MeanLoss, outer_lr: float
) -> None:
    """The inner loop by `higher`, without the graph that only MAML needs."""
    import higher

    def fitted(steps: Iterator[tuple[Tensor, Tensor]]) -> Iterable[Tensor]:
        optimizer = optimizers(module.parameters())
        with higher.innerloop_ctx(module, optimizer, track_higher_grads=False) as (mine, stepper):
            for x, y in steps:
                stepper.step(loss(mine(x), y))
            found: list[Tensor] = list(mine.parameters())
            return found

    _move(module, tasks, batches, fitted, outer_lr)


def torchopt_reptile(
    module: nn.Module, tasks: Tasks, batches: Batches, optimizers: Optimizers, loss: MeanLoss, outer_lr: float
) -> None:
    """The inner loop by TorchOpt's functional optimiser."""
    import torchopt

    settings: dict[str, Any] = optimizers(module.parameters()).defaults
    step = torchopt.adam(lr=settings["lr"], betas=settings["betas"], eps=settings["eps"])

    def fitted(steps: Iterator[tuple[Tensor, Tensor]]) -> Iterable[Tensor]:
        mine = {name: value.detach().clone().requires_grad_() for name, value in module.named_parameters()}
        state = step.init(mine)
        for x, y in steps:
            gradients = torch.autograd.grad(
                loss(torch.func.functional_call(module, mine, (x,)), y), list(mine.values())
            )
            updates, state = step.update(dict(zip(mine, gradients, strict=True)), state, inplace=False)
            moved = torchopt.apply_updates(mine, updates, inplace=False)
            mine = {name: value.detach().requires_grad_() for name, value in moved.items()}
        return mine.values()

    _move(module, tasks, batches, fitted, outer_lr)


def _move(
    module: nn.Module,
    tasks: Tasks,
    batches: Batches,
    fitted: Callable[[Iterator[tuple[Tensor, Tensor]]], Iterable[Tensor]],
    outer_lr: float,
) -> None:
    """Move the module towards the mean of what is fitted to each task of the first lane."""
    count = tasks.x.shape[1]
    moved = [torch.zeros_like(parameter) for parameter in module.parameters()]
    for task in range(count):
        steps = ((tasks.x[0, task, chosen], tasks.y[0, task, chosen]) for chosen in batches.chosen[0, task])
        for total, after, before in zip(moved, fitted(steps), module.parameters(), strict=True):
            total += after.detach() - before.detach()
    with torch.no_grad():
        for parameter, total in zip(module.parameters(), moved, strict=True):
            parameter.add_(total, alpha=outer_lr / count)


def bare_passes(exp: Experiment, build: Callable[[], nn.Module]) -> Contender:
    """The floor: forward and backward passes of an iteration's mini-batches, and nothing around them."""
    module, pictures, tasks, batches = _best_layout(exp, build)
    parameters, loss = list(module.parameters()), nn.CrossEntropyLoss()
    prepared = [
        (_in_layout(pictures[task, chosen]), tasks.y[0, task, chosen])
        for task in range(exp.meta.batch)
        for chosen in batches.chosen[0, task]
    ]

    def contender() -> None:
        for x, y in prepared:
            torch.autograd.grad(loss(module(x), y), parameters)

    return contender


def bare_forwards(exp: Experiment, build: Callable[[], nn.Module]) -> Contender:
    """The same without backward passes, and with all pictures that a task draws at once."""
    module, pictures, _, batches = _best_layout(exp, build)
    prepared = [_in_layout(pictures[task, batches.chosen[0, task].flatten()]) for task in range(exp.meta.batch)]

    @torch.no_grad()
    def contender() -> None:
        for x in prepared:
            module(x)

    return contender


def one_after_the_other(makers: Sequence[Callable[[], Contender]]) -> Contender:
    """All of some contenders as one."""
    contenders = [make() for make in makers]

    def contender() -> None:
        for each in contenders:
            each()

    return contender


def _best_layout(exp: Experiment, build: Callable[[], nn.Module]) -> tuple[nn.Module, Tensor, Tasks, Batches]:
    """A network and an iteration's data, channels last.

    A grey picture gets a second channel of zeros, because a single one is taken for the slower layout.
    """
    tasks, batches = plain_data(library_stage(exp), 0)
    pictures = tasks.x[0] if tasks.x.shape[3] > 1 else pad(tasks.x[0], (0, 0, 0, 0, 0, 1))
    module = build()
    for parameter in module.parameters():
        if parameter.ndim == 4:
            parameter.data = _in_layout(parameter)
    return module, pictures, tasks, batches


def _in_layout(x: Tensor) -> Tensor:
    return x.contiguous(memory_format=torch.channels_last)


def matrix_product(side: int) -> Contender:
    """What the machine does best: a large product of matrices."""
    factor = torch.rand(side, side)

    def contender() -> None:
        torch.mm(factor, factor)

    return contender


def jax_meta(python: str, tasks: int, iterations: int) -> Contender:
    """So many iterations on the sine wave by jax-meta, which has an environment of its own."""
    script = files(__package__).joinpath("jax_meta_peer.py")
    command = [python, str(script), str(tasks)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
    asked, answers = cast(IO[str], process.stdin), cast(IO[str], process.stdout)

    def contender() -> None:
        asked.write(f"{iterations}\n")
        if not answers.readline():
            raise RunError(f"{python} could not run jax-meta; what it said stands above")

    return contender
