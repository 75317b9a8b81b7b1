"""Batch-norm with running statistics, against torch's own."""

import itertools
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from eigen_reptile.inner import InnerState
from eigen_reptile.methods import (
    METHODS,
    Maml,
    MetaBatch,
    MetaUpdate,
    Method,
    MixtFsl,
    Prototypical,
    Reptile,
    RobustLoss,
)
from eigen_reptile.methods.method import initial_theta
from eigen_reptile.nn import Conv4
from eigen_reptile.nn.running_norm import RunningNorm
from eigen_reptile.runtime.progress import no_progress
from eigen_reptile.tasks import Batches, Tasks
from eigen_reptile.training.config import Experiment, MetaConfig
from eigen_reptile.training.data import TrainingData
from eigen_reptile.training.loop import iterate
from eigen_reptile.training.setup import Setup, set_up
from eigen_reptile.training.state import TrainState
from meta_batches import WAY, check_resumed_in_the_same_bits, image_experiment

MODEL = Conv4(4, head=False, statistics="running")
METRIC = [name for name, method in METHODS.items() if not method.requirements.inner_loop]


def experiment(method: Method, steps: int, tasks: int = 1) -> Experiment:
    meta = MetaConfig(steps=steps, batch=tasks, lr=(0.01,), final_lr=0.01, optimizer="adam")
    return replace(image_experiment(method, MODEL), meta=meta)


def trained(exp: Experiment) -> tuple[Setup, TrainState]:
    setup = set_up(exp, no_progress, "cpu")
    state, data = TrainState.fresh(setup), TrainingData(setup)
    with torch.no_grad():
        for step in range(exp.meta.steps):
            state, _ = iterate(setup, exp.method.meta_update, state, *data.at(step))
    return setup, state


class PlainNetwork(nn.Module):
    """The same network made of torch's own layers."""

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
        """Parameters and statistics, by their names in our network."""
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


def test_prototypical_networks_with_running_statistics_agree_with_plain_torch() -> None:
    exp = experiment(Prototypical(), steps=4)
    setup, state = trained(exp)
    theirs = PlainNetwork().double()
    named = {name: piece for index in range(4) for name, piece in theirs.pieces(index).items()}
    shapes = setup.network.module.shapes
    assert named.keys() == shapes.keys()
    start = initial_theta(exp.method, setup.network, 0, setup.spec).split([shape.numel() for shape in shapes.values()])
    for name, piece in zip(shapes, start, strict=True):
        named[name].data.copy_(piece.view(shapes[name]))
    data = TrainingData(setup)
    adam = torch.optim.Adam(theirs.parameters(), lr=0.01)
    for step in range(exp.meta.steps):
        tasks, _ = data.at(step)
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
    torch.testing.assert_close(setup.network.output(state.theta[0], x), theirs(x).detach())


def test_statistics_move_by_the_mean_difference_over_tasks() -> None:
    exp = experiment(Prototypical(), steps=1, tasks=3)
    setup, after = trained(exp)
    shapes, before, (tasks, _) = setup.network.module.shapes, TrainState.fresh(setup), TrainingData(setup).at(0)
    sizes = setup.network.module.sizes
    kernels = before.theta[0].split(sizes)[list(shapes).index("0.convolution.weight")]
    kernel = kernels.view(shapes["0.convolution.weight"])
    x = torch.cat([tasks.x, tasks.query_x], dim=2)[0].double() / 255
    batches = torch.stack([torch.conv2d(one, kernel, padding=1).mean((0, 2, 3)) for one in x])
    found = after.theta[0].split(sizes)[list(shapes).index("0.norm.mean")]
    torch.testing.assert_close(found, 0.1 * batches.mean(0))


def test_neither_clipping_nor_the_outer_rate_affects_statistics() -> None:
    exp = experiment(Prototypical(), steps=1)
    changed = replace(exp, meta=replace(exp.meta, lr=(0.5,), clip=1e-9))
    (setup, one), (_, other) = trained(exp), trained(changed)
    running = setup.running_statistics(one.theta)
    assert running is not None
    assert running.sum() == 4 * 2 * MODEL.filters
    assert torch.equal(one.theta[0, running], other.theta[0, running])
    assert not torch.equal(one.theta[0, ~running], other.theta[0, ~running])


def test_statistics_do_not_depend_on_how_work_is_shared() -> None:
    exp = replace(experiment(Prototypical(), steps=1, tasks=4), seeds=(0, 1))
    setup = set_up(exp, no_progress, "cpu")
    state, (tasks, batches) = TrainState.fresh(setup), TrainingData(setup).at(0)

    def update_of(replicas: slice, chosen: slice) -> MetaUpdate:
        some_tasks = Tasks(*(part[replicas, chosen] for part in tasks))
        some_batches = Batches(*(part[replicas, chosen] for part in batches))
        inner_state = InnerState(*(part[replicas] for part in state.inner_state))
        theta, step = state.theta[replicas], torch.tensor(0)
        batch = MetaBatch(setup.network, theta, inner_state, some_tasks, some_batches, exp.inner, step)
        with torch.no_grad():
            return exp.method.meta_update(batch)

    all_replicas, every_task = slice(2), slice(4)
    whole = update_of(all_replicas, every_task).direction
    halves = update_of(all_replicas, slice(2)).plus(update_of(all_replicas, slice(2, 4))).over(2)
    torch.testing.assert_close(halves.direction, whole)
    torch.testing.assert_close(update_of(slice(1, 2), every_task).direction[0], whole[1])


def test_statistics_are_resumed_and_kept_with_the_best(tmp_path: Path) -> None:
    """Also when training passes over the whole training set."""
    exp = experiment(MixtFsl(components=2), steps=4, tasks=2)
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
def test_methods_without_an_inner_loop_can_use_running_statistics(name: str) -> None:
    """Predictions for a query then do not depend on other queries, except in graphs, which have norms of their own."""
    method = RobustLoss(Prototypical()) if name == "robust" else METHODS[name]
    setup, state = trained(experiment(method, steps=2))
    tasks, _ = TrainingData(setup).at(0)
    theta = state.theta[:, None]
    together = method.predict(setup.network, theta, tasks, tasks.query_x)
    alone = [method.predict(setup.network, theta, tasks, one[:, :, None]) for one in tasks.query_x.unbind(2)]
    assert together.isfinite().all()
    assert torch.allclose(torch.cat(alone, dim=2), together) == (name != "gnn")


@pytest.mark.parametrize("method", [Reptile(), Maml(), METHODS["metal"]], ids=lambda method: type(method).__name__)
def test_an_inner_loop_needs_batch_statistics_and_a_head(method: Method) -> None:
    with pytest.raises(ValueError, match=r"set `model\.statistics` to batch"):
        set_up(image_experiment(method, Conv4(statistics="running")), no_progress, "cpu")
    with pytest.raises(ValueError, match=r"`model\.head` must be true"):
        set_up(image_experiment(method, Conv4(head=False)), no_progress, "cpu")


def test_gradients_agree_with_torchs_layer() -> None:
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
