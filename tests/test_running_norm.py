"""Batch-norm with running statistics: torch's own, by another way."""

import itertools
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from eigen_reptile.config import Experiment, MetaConfig
from eigen_reptile.files import RunError
from eigen_reptile.inner import InnerState
from eigen_reptile.methods import METHODS, Iteration, Maml, Method, MixtFsl, Proposal, Prototypical, Reptile, Robust
from eigen_reptile.models import Conv4
from eigen_reptile.progress import silent
from eigen_reptile.running_norm import RunningNorm
from eigen_reptile.stage import Stage, prepare
from eigen_reptile.state import TrainState
from eigen_reptile.tasks import Batches, Tasks
from eigen_reptile.train import iterate, training_data
from test_gradient_methods import WAY, pictures
from test_methods import check_resumed_in_the_same_bits

MODEL = Conv4(4, head=False, statistics="running")
METRIC = [name for name, method in METHODS.items() if not method.has_inner_loop]


def some(method: Method, steps: int, tasks: int = 1) -> Experiment:
    meta = MetaConfig(steps=steps, batch=tasks, lr=(0.01,), final_lr=0.01, optimizer="adam")
    return pictures(method, model=MODEL, meta=meta)


def trained(exp: Experiment) -> tuple[Stage, TrainState]:
    stage = prepare(exp, silent, "cpu")
    state = TrainState.fresh(stage)
    with torch.no_grad():
        for step in range(exp.meta.steps):
            state, _ = iterate(stage, exp.method.propose, state, *training_data(stage, step))
    return stage, state


class Torchs(nn.Module):
    """The same network out of torch's own layers."""

    def __init__(self) -> None:
        super().__init__()
        sizes = (3, *[MODEL.filters] * 4)
        self.convolutions = nn.ModuleList(
            nn.Conv2d(before, after, 3, padding=1, bias=False) for before, after in itertools.pairwise(sizes)
        )
        self.norms = nn.ModuleList(nn.BatchNorm2d(MODEL.filters, eps=1e-3) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        for convolution, norm in zip(self.convolutions, self.norms, strict=True):
            x = torch.relu(torch.max_pool2d(norm(convolution(x)), 2, ceil_mode=True))
        return x.flatten(1)

    def pieces(self, index: int) -> dict[str, Tensor]:
        """By their names in ours."""
        norm = self.norms[index]
        assert isinstance(norm, nn.BatchNorm2d)
        assert norm.running_mean is not None
        assert norm.running_var is not None
        return {
            f"{index}.convolution.weight": self.convolutions[index].get_parameter("weight"),
            f"{index}.norm.weight": norm.weight,
            f"{index}.norm.bias": norm.bias,
            f"{index}.norm.mean": norm.running_mean,
            f"{index}.norm.variance": norm.running_var,
        }


def test_prototypical_networks_with_running_statistics_are_those_of_plain_torch() -> None:
    exp = some(Prototypical(), steps=4)
    stage, state = trained(exp)
    theirs = Torchs().double()
    named = {name: piece for index in range(4) for name, piece in theirs.pieces(index).items()}
    shapes = stage.learner.shapes
    assert named.keys() == shapes.keys()
    start = exp.method.init(stage.learner, 0, stage.domain).split([shape.numel() for shape in shapes.values()])
    for name, piece in zip(shapes, start, strict=True):
        named[name].data.copy_(piece.view(shapes[name]))
    adam = torch.optim.Adam(theirs.parameters(), lr=0.01)
    for step in range(exp.meta.steps):
        tasks, _ = training_data(stage, step)
        x = torch.cat([tasks.x[0, 0], tasks.query_x[0, 0]]).double() / 255
        support, queries = theirs(x).split([tasks.x.shape[2], tasks.query_x.shape[2]])
        means = torch.stack([support[tasks.y[0, 0] == label].mean(0) for label in range(WAY)])
        loss = cross_entropy(-torch.cdist(queries, means).square(), tasks.query_y[0, 0])
        adam.zero_grad()
        loss.backward()
        adam.step()
    ours = state.theta[0].split([shape.numel() for shape in shapes.values()])
    for name, piece in zip(shapes, ours, strict=True):
        torch.testing.assert_close(piece.view(shapes[name]), named[name].detach(), msg=name)
    theirs.eval()
    torch.testing.assert_close(stage.learner.output(state.theta[0], x), theirs(x).detach())


def test_several_tasks_move_statistics_by_the_mean_of_their_distances() -> None:
    exp = some(Prototypical(), steps=1, tasks=3)
    stage, after = trained(exp)
    learner, before, (tasks, _) = stage.learner, TrainState.fresh(stage), training_data(stage, 0)
    first = learner.shapes["0.convolution.weight"]
    place = list(learner.shapes).index("0.convolution.weight")
    sizes = [shape.numel() for shape in learner.shapes.values()]
    kernel = before.theta[0].split(sizes)[place].view(first)
    x = torch.cat([tasks.x, tasks.query_x], dim=2)[0].double() / 255
    batches = torch.stack([torch.conv2d(one, kernel, padding=1).mean((0, 2, 3)) for one in x])
    noted = after.theta[0].split(sizes)[list(learner.shapes).index("0.norm.mean")]
    torch.testing.assert_close(noted, 0.1 * batches.mean(0))


def test_neither_clipping_nor_the_rate_acts_on_statistics() -> None:
    exp = some(Prototypical(), steps=1)
    changed = replace(exp, meta=replace(exp.meta, lr=(0.5,), clip=1e-9))
    (stage, one), (_, other) = trained(exp), trained(changed)
    running = stage.running(one.theta)
    assert running is not None
    assert running.sum() == 4 * 2 * MODEL.filters
    assert torch.equal(one.theta[0, running], other.theta[0, running])
    assert not torch.equal(one.theta[0, ~running], other.theta[0, ~running])


def test_workers_and_lanes_that_share_the_work_end_at_the_same_statistics() -> None:
    exp = replace(some(Prototypical(), steps=1, tasks=4), seeds=(0, 1))
    stage = prepare(exp, silent, "cpu")
    state, (tasks, batches) = TrainState.fresh(stage), training_data(stage, 0)

    def proposed(lanes: slice, chosen: slice) -> Proposal:
        some_tasks = Tasks(*(part[lanes, chosen] for part in tasks))
        some_batches = Batches(*(part[lanes, chosen] for part in batches))
        memory = InnerState(*(part[lanes] for part in state.memory))
        step = torch.tensor(0)
        iteration = Iteration(stage.learner, state.theta[lanes], memory, some_tasks, some_batches, exp.inner, step)
        with torch.no_grad():
            return exp.method.propose(iteration)

    all_lanes, every_task = slice(2), slice(4)
    whole = proposed(all_lanes, every_task).direction
    halves = proposed(all_lanes, slice(2)).plus(proposed(all_lanes, slice(2, 4))).over(2)
    torch.testing.assert_close(halves.direction, whole)
    torch.testing.assert_close(proposed(slice(1, 2), every_task).direction[0], whole[1])


def test_statistics_are_resumed_and_kept_with_the_best(tmp_path: Path) -> None:
    """In passes over the whole training set, too."""
    exp = some(MixtFsl(components=2), steps=4, tasks=2)
    check_resumed_in_the_same_bits(
        replace(
            exp,
            task=replace(exp.task, epochs=True),
            meta=replace(exp.meta, keep="best"),
            evaluation=replace(exp.evaluation, every=2),
        ),
        tmp_path,
    )


@pytest.mark.parametrize("name", [*METRIC, "robust"])
def test_methods_without_an_inner_loop_can_have_them(name: str) -> None:
    """All but graphs, which have batches of their own, then answer each query the same beside whatever others."""
    method = Robust(Prototypical()) if name == "robust" else METHODS[name]
    stage, state = trained(some(method, steps=2))
    tasks, _ = training_data(stage, 0)
    point = state.theta[:, None]
    together = method.answers(stage.learner, point, tasks, tasks.query_x)
    alone = [method.answers(stage.learner, point, tasks, one[:, :, None]) for one in tasks.query_x.unbind(2)]
    assert together.isfinite().all()
    assert torch.allclose(torch.cat(alone, dim=2), together) == (name != "gnn")


@pytest.mark.parametrize("method", [Reptile(), Maml(), METHODS["metal"]], ids=lambda method: type(method).__name__)
def test_an_inner_loop_cannot_nor_can_it_do_without_a_head(method: Method) -> None:
    with pytest.raises(RunError, match=r"use --model.statistics batch"):
        prepare(pictures(method, model=Conv4(statistics="running")), silent, "cpu")
    with pytest.raises(RunError, match=r"leave out --model.no-head"):
        prepare(pictures(method, model=Conv4(head=False)), silent, "cpu")


def test_gradients_are_those_of_torchs_layer() -> None:
    ours, theirs = RunningNorm(3).double(), nn.BatchNorm2d(3).double()
    x = torch.randn(5, 3, 2, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    ours.mean.data.fill_(0.5)
    gradients = []
    for layer in (ours, theirs):
        point = x.clone().requires_grad_()
        layer(point).pow(3).sum().backward()
        gradients.append((point.grad, layer.weight.grad, layer.bias.grad))
    torch.testing.assert_close(*gradients)
    torch.testing.assert_close(ours.mean.grad, 0.5 - x.mean((0, 2, 3)))
    torch.testing.assert_close(ours.variance.grad, 1 - x.var((0, 2, 3)))
