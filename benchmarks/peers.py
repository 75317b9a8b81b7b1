"""Reptile's outer iteration in plain PyTorch, and with the inner loops of other libraries."""

import copy
from collections.abc import Callable, Iterable, Iterator
from itertools import cycle
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from benchmarks.timing import Contender
from eigen_reptile.runtime.progress import no_progress
from eigen_reptile.tasks import Batches, Tasks
from eigen_reptile.training.config import Experiment
from eigen_reptile.training.data import TrainingData
from eigen_reptile.training.setup import Setup, set_up

MeanLoss = Callable[[Tensor, Tensor], Tensor]
MakeOptimizer = Callable[[Iterable[nn.Parameter]], Optimizer]
OuterIteration = Callable[[nn.Module, Tasks, Batches, MakeOptimizer, MeanLoss, float], None]
"""One outer iteration, which changes the module in place; the number is the outer learning rate."""
Adapt = Callable[[Iterator[tuple[Tensor, Tensor]]], Iterable[Tensor]]
"""From the mini-batches of a task to the parameters after adaptation."""


def peer_contender(iteration: OuterIteration, exp: Experiment, build: Callable[[], nn.Module]) -> Contender:
    """Another implementation of the experiment's iteration, on tasks drawn beforehand: its time excludes sampling."""
    setup, module = set_up(exp, no_progress, "cpu"), build()
    make_optimizer, loss = optimizer_of(exp), nn.CrossEntropyLoss() if exp.data.is_classification else nn.MSELoss()
    data = cycle([float_data(setup, step) for step in range(5)])

    def contender() -> None:
        iteration(module, *next(data), make_optimizer, loss, exp.meta.lr[0])

    return contender


def float_data(setup: Setup, step: int) -> tuple[Tasks, Batches]:
    """The data of an iteration in floating-point numbers and PyTorch's default memory layout."""
    tasks, batches = TrainingData(setup).at(step)
    x, query_x = (
        (x.to(setup.exp.dtype) / 255 if x.dtype == torch.uint8 else x).contiguous() for x in (tasks.x, tasks.query_x)
    )
    return tasks._replace(x=x, query_x=query_x), batches


def optimizer_of(exp: Experiment) -> MakeOptimizer:
    """PyTorch's version of the experiment's inner optimiser."""
    inner = exp.inner
    if inner.optimizer == "sgd":
        return lambda parameters: torch.optim.SGD(parameters, lr=inner.lr)
    return lambda parameters: torch.optim.Adam(parameters, lr=inner.lr, betas=(0.0, inner.beta2), eps=inner.eps)


def plain_reptile(
    module: nn.Module, tasks: Tasks, batches: Batches, make_optimizer: MakeOptimizer, loss: MeanLoss, outer_lr: float
) -> None:
    """Straightforward PyTorch: copy the module and train the copy with torch.optim, one task after the other."""

    def adapt(mini_batches: Iterator[tuple[Tensor, Tensor]]) -> Iterable[Tensor]:
        adapted = copy.deepcopy(module)
        optimizer = make_optimizer(adapted.parameters())
        for x, y in mini_batches:
            optimizer.zero_grad()
            loss(adapted(x), y).backward()
            optimizer.step()
        return adapted.parameters()

    _reptile_step(module, tasks, batches, adapt, outer_lr)


def higher_reptile(
    module: nn.Module, tasks: Tasks, batches: Batches, make_optimizer: MakeOptimizer, loss: MeanLoss, outer_lr: float
) -> None:
    """The inner loop of `higher`, without the graph that only MAML needs."""
    import higher

    def adapt(mini_batches: Iterator[tuple[Tensor, Tensor]]) -> Iterable[Tensor]:
        optimizer = make_optimizer(module.parameters())
        with higher.innerloop_ctx(module, optimizer, track_higher_grads=False) as (adapted, stepper):
            for x, y in mini_batches:
                stepper.step(loss(adapted(x), y))
            parameters: list[Tensor] = list(adapted.parameters())
            return parameters

    _reptile_step(module, tasks, batches, adapt, outer_lr)


def torchopt_reptile(
    module: nn.Module, tasks: Tasks, batches: Batches, make_optimizer: MakeOptimizer, loss: MeanLoss, outer_lr: float
) -> None:
    """The inner loop with TorchOpt's functional optimiser."""
    import torchopt

    settings: dict[str, Any] = make_optimizer(module.parameters()).defaults
    adam = torchopt.adam(lr=settings["lr"], betas=settings["betas"], eps=settings["eps"])

    def adapt(mini_batches: Iterator[tuple[Tensor, Tensor]]) -> Iterable[Tensor]:
        adapted = {name: value.detach().clone().requires_grad_() for name, value in module.named_parameters()}
        state = adam.init(adapted)
        for x, y in mini_batches:
            value = loss(torch.func.functional_call(module, adapted, (x,)), y)
            gradients = torch.autograd.grad(value, list(adapted.values()))
            updates, state = adam.update(dict(zip(adapted, gradients, strict=True)), state, inplace=False)
            moved = torchopt.apply_updates(adapted, updates, inplace=False)
            adapted = {name: parameter.detach().requires_grad_() for name, parameter in moved.items()}
        return adapted.values()

    _reptile_step(module, tasks, batches, adapt, outer_lr)


def _reptile_step(module: nn.Module, tasks: Tasks, batches: Batches, adapt: Adapt, outer_lr: float) -> None:
    """Move the module towards the mean of the parameters adapted to each task of the first replica."""
    count = tasks.x.shape[1]
    totals = [torch.zeros_like(parameter) for parameter in module.parameters()]
    for task in range(count):
        mini_batches = ((tasks.x[0, task, chosen], tasks.y[0, task, chosen]) for chosen in batches.chosen[0, task])
        for total, after, before in zip(totals, adapt(mini_batches), module.parameters(), strict=True):
            total += after.detach() - before.detach()
    with torch.no_grad():
        for parameter, total in zip(module.parameters(), totals, strict=True):
            parameter.add_(total, alpha=outer_lr / count)
