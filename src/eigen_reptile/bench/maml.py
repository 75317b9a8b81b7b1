"""MAML: second-order gradients, against the libraries that others take for them."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from importlib.util import find_spec

import torch
from torch import Tensor, nn

from eigen_reptile.bench.contenders import MeanLoss, Optimizers, library_entry, other
from eigen_reptile.bench.conv4 import Noise, plain_conv4
from eigen_reptile.bench.turns import Entry, Figures, race
from eigen_reptile.config import Experiment, standard
from eigen_reptile.methods import Maml
from eigen_reptile.progress import Announce
from eigen_reptile.tasks import Batches, Tasks

SIZES = ((28, 1), (84, 3))


def maml(repeats: int, announce: Announce) -> Figures:
    """Outer iterations per second of MAML, against the same with higher and with TorchOpt."""
    groups = {}
    for side, channels in SIZES:
        exp, build = experiment(side, channels), partial(plain_conv4, side, channels, 32)
        entries = {"maml": library_entry(exp)}
        entries |= {name: Entry(partial(other, peer, exp, build)) for name, peer in PEERS.items() if find_spec(name)}
        groups[f"{side} x {side} x {channels}"] = entries
    about = (
        f"Outer iterations per second of MAML: {exp.meta.batch} tasks, {exp.inner.steps} steps on {exp.inner.batch} "
        f"pictures, {exp.task.queries} queries a class, gradients through all of it. The peers are not charged for "
        "drawing their tasks, nor for Adam in the outer step."
    )
    return race("MAML", about, groups, tuple(PEERS), repeats, announce)


def experiment(side: int, channels: int) -> Experiment:
    """With all parameters adapted, which is what the peers do unless they are told which."""
    exp = standard(Noise(side, channels), Maml(adapts_norms=True))
    return replace(exp, meta=replace(exp.meta, optimizer="step", clip=None))


def higher_maml(
    module: nn.Module, tasks: Tasks, batches: Batches, optimizers: Optimizers, loss: MeanLoss, outer_lr: float
) -> None:
    """MAML's outer iteration by `higher`."""
    import higher

    optimizer = optimizers(module.parameters())
    for steps, (x, y) in _each(tasks, batches):
        with higher.innerloop_ctx(module, optimizer, copy_initial_weights=False) as (mine, stepper):
            for batch_x, batch_y in steps:
                stepper.step(loss(mine(batch_x), batch_y))
            loss(mine(x), y).backward()
    _descend(module, outer_lr / tasks.x.shape[1])


def torchopt_maml(
    module: nn.Module, tasks: Tasks, batches: Batches, optimizers: Optimizers, loss: MeanLoss, outer_lr: float
) -> None:
    """MAML's outer iteration by TorchOpt."""
    import torchopt

    stepper = torchopt.MetaSGD(module, lr=optimizers(module.parameters()).defaults["lr"])
    network, memory = (torchopt.extract_state_dict(part, by="reference") for part in (module, stepper))
    for steps, (x, y) in _each(tasks, batches):
        for batch_x, batch_y in steps:
            stepper.step(loss(module(batch_x), batch_y))
        loss(module(x), y).backward()
        torchopt.recover_state_dict(module, network)
        torchopt.recover_state_dict(stepper, memory)
    _descend(module, outer_lr / tasks.x.shape[1])


PEERS = {"higher": higher_maml, "torchopt": torchopt_maml}


def _each(tasks: Tasks, batches: Batches) -> Iterator[tuple[list[tuple[Tensor, Tensor]], tuple[Tensor, Tensor]]]:
    """For each task of the first lane its mini-batches, and its queries."""
    for task, chosen in enumerate(batches.chosen[0]):
        steps = [(tasks.x[0, task, some], tasks.y[0, task, some]) for some in chosen]
        yield steps, (tasks.query_x[0, task], tasks.query_y[0, task])


def _descend(module: nn.Module, rate: float) -> None:
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.grad is not None:
                parameter.add_(parameter.grad, alpha=-rate)
                parameter.grad = None
