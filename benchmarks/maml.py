"""MAML: second-order gradients, against other libraries that compute them."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from importlib.util import find_spec

import torch
from torch import Tensor, nn

from benchmarks.contenders import library_entry
from benchmarks.conv4 import RandomImages, plain_conv4
from benchmarks.peers import MakeOptimizer, MeanLoss, peer_contender
from benchmarks.timing import ContenderFactory, compare_speeds
from eigen_reptile.methods import AdaptedParameters, Maml
from eigen_reptile.report.benchmark import BenchmarkTable
from eigen_reptile.runtime.progress import StartProgress
from eigen_reptile.tasks import Batches, Tasks
from eigen_reptile.training.config import Experiment
from eigen_reptile.training.presets import preset

SIZES = ((28, 1), (84, 3))


def maml(repeats: int, start_progress: StartProgress) -> BenchmarkTable:
    """Outer iterations per second of MAML, against higher and TorchOpt."""
    groups = {}
    for side, channels in SIZES:
        exp, build = experiment(side, channels), partial(plain_conv4, side, channels, 32)
        entries = {"maml": library_entry(exp)}
        for name, peer in PEERS.items():
            if find_spec(name):
                entries[name] = ContenderFactory(partial(peer_contender, peer, exp, build))
        groups[f"{side} x {side} x {channels}"] = entries
    about = (
        f"Outer iterations per second of MAML: {exp.meta.batch} tasks, {exp.inner.steps} steps on {exp.task.support} "
        f"images, {exp.task.queries} queries of each class, gradients through all steps. The time of the other "
        "libraries includes neither sampling nor Adam in the outer step."
    )
    return compare_speeds("MAML", about, groups, tuple(PEERS), repeats, start_progress)


def experiment(side: int, channels: int) -> Experiment:
    """All parameters are adapted, as in other libraries by default."""
    exp = preset(RandomImages(side, channels), Maml(adapted=AdaptedParameters(norms=True)))
    return replace(exp, meta=replace(exp.meta, optimizer="step", clip=None))


def higher_maml(
    module: nn.Module, tasks: Tasks, batches: Batches, make_optimizer: MakeOptimizer, loss: MeanLoss, outer_lr: float
) -> None:
    """MAML's outer iteration with `higher`."""
    import higher

    optimizer = make_optimizer(module.parameters())
    for mini_batches, (x, y) in _each_task(tasks, batches):
        with higher.innerloop_ctx(module, optimizer, copy_initial_weights=False) as (adapted, stepper):
            for batch_x, batch_y in mini_batches:
                stepper.step(loss(adapted(batch_x), batch_y))
            loss(adapted(x), y).backward()
    _gradient_step(module, outer_lr / tasks.x.shape[1])


def torchopt_maml(
    module: nn.Module, tasks: Tasks, batches: Batches, make_optimizer: MakeOptimizer, loss: MeanLoss, outer_lr: float
) -> None:
    """MAML's outer iteration with TorchOpt."""
    import torchopt

    stepper = torchopt.MetaSGD(module, lr=make_optimizer(module.parameters()).defaults["lr"])
    module_state, stepper_state = (torchopt.extract_state_dict(part, by="reference") for part in (module, stepper))
    for mini_batches, (x, y) in _each_task(tasks, batches):
        for batch_x, batch_y in mini_batches:
            stepper.step(loss(module(batch_x), batch_y))
        loss(module(x), y).backward()
        torchopt.recover_state_dict(module, module_state)
        torchopt.recover_state_dict(stepper, stepper_state)
    _gradient_step(module, outer_lr / tasks.x.shape[1])


PEERS = {"higher": higher_maml, "torchopt": torchopt_maml}


def _each_task(tasks: Tasks, batches: Batches) -> Iterator[tuple[list[tuple[Tensor, Tensor]], tuple[Tensor, Tensor]]]:
    """The mini-batches and the queries of each task of the first replica."""
    for task, chosen in enumerate(batches.chosen[0]):
        mini_batches = [(tasks.x[0, task, some], tasks.y[0, task, some]) for some in chosen]
        yield mini_batches, (tasks.query_x[0, task], tasks.query_y[0, task])


def _gradient_step(module: nn.Module, rate: float) -> None:
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.grad is not None:
                parameter.add_(parameter.grad, alpha=-rate)
                parameter.grad = None
