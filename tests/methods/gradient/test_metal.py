"""MeTAL: the learnt losses against a slow loop, and what adaptation and prediction see."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.nn.functional import relu

from eigen_reptile.data import Glyphs, Sine
from eigen_reptile.methods import METHODS, MetaBatch, Metal
from eigen_reptile.methods.gradient.metal import learnt_losses
from eigen_reptile.nn import Conv4, CrossEntropy
from eigen_reptile.training.config import Experiment
from eigen_reptile.training.presets import preset
from meta_batches import (
    SHOTS,
    WAY,
    adapted,
    finite_difference,
    gradient_of,
    image_experiment,
    meta_batch_of,
    predictions,
)

METAL, ONE_COPY = Metal(copies=2), Metal(copies=1)


def batch_for(method: Metal) -> MetaBatch:
    return meta_batch_of(image_experiment(method), 2)


@pytest.mark.parametrize("method", [METAL, ONE_COPY], ids=["as many copies as steps", "fewer copies than steps"])
def test_gradients_against_finite_differences(method: Metal) -> None:
    batch = batch_for(method)
    gradient, d = gradient_of(method, batch), batch.network.d
    assert gradient.numel() > d
    generator = torch.Generator().manual_seed(0)
    for part in (slice(0, d), slice(d, None), slice(None)):  # the network, the learnt losses, and both
        along = torch.zeros_like(gradient)
        along[part] = torch.randn(along[part].shape, generator=generator, dtype=torch.float64)
        along /= along.norm()
        expected = finite_difference(method, batch, along, 1e-5)
        assert float(gradient @ along) == pytest.approx(expected, rel=1e-4, abs=1e-8)
        assert float(gradient[part].norm()) > 1e-6


def slow_loss(parts: list[Tensor], features: list[list[float]], task: list[float]) -> list[float]:
    """The output of a loss network for each sample, with its parameters changed as its adapter says."""

    def layers(x: Tensor, first: Tensor, first_bias: Tensor, second: Tensor, second_bias: Tensor) -> Tensor:
        return relu(x @ first.T + first_bias) @ second.T + second_bias

    changes = layers(torch.tensor(task, dtype=torch.float64), *parts[4:8])
    changed = [
        (1 + float(parts[8][j]) * float(changes[j])) * parts[j] + float(parts[9][j]) * float(changes[4 + j])
        for j in range(4)
    ]
    return [float(layers(torch.tensor(sample, dtype=torch.float64), *changed)) for sample in features]


def standardised(features: list[list[float]]) -> list[list[float]]:
    flat = torch.tensor(features, dtype=torch.float64)
    found: list[list[float]] = ((flat - flat.mean()) / flat.std()).tolist()
    return found


def parts_of(copy: Tensor, tensors: int) -> list[Tensor]:
    """One copy of the loss networks as single tensors."""
    shapes: list[tuple[int, ...]] = []
    for width, task in ((1 + tensors + 2 * WAY, 1 + tensors), (tensors + WAY + 1, tensors + WAY + 1)):
        shapes += [(width, width), (width,), (1, width), (1,), (task, task), (task,), (8, task), (8,), (4,), (4,)]
    parts, rest = [], copy
    for shape in shapes:
        count = torch.Size(shape).numel()
        parts.append(rest[:count].view(shape))
        rest = rest[count:]
    assert rest.numel() == 0
    return parts


def test_the_learnt_losses_against_a_slow_loop() -> None:
    batch = batch_for(METAL)
    network, tasks, shapes = batch.network, batch.tasks, batch.network.module.shapes
    tensors = [name for name in shapes if ".norm." not in name]
    L, m, d = len(tensors), WAY * SHOTS, network.d
    assert (L, m) == (6, 6)
    size = (batch.theta.shape[1] - d) // 2
    copy, theta = batch.adaptation.theta[..., d : d + size], batch.adaptation.network_theta
    outputs = network.outputs(theta, torch.cat([tasks.x, tasks.query_x], dim=2))
    loss = CrossEntropy()(outputs[:, :, :m], tasks.y).mean(-1)
    found = learnt_losses(network.module, theta, copy, loss, outputs[:, :, :m], tasks.y, outputs[:, :, m:])
    parts = parts_of(copy[0, 0], L)

    pieces = batch.theta[0, :d].split([shape.numel() for shape in shapes.values()])
    wbar = [float(piece.mean()) for name, piece in zip(shapes, pieces, strict=True) if name in tensors]
    for task in range(2):
        s = float(loss[0, task])
        support, queries = [], []
        for number in range(m):
            label = [float(tasks.y[0, task, number] == way) for way in range(WAY)]
            support.append([s, *wbar, *outputs[0, task, number].tolist(), *label])
        for logits in outputs[0, task, m:]:
            p = logits.softmax(-1)
            queries.append([*wbar, *logits.tolist(), float((p * p.log()).sum())])
        support, queries = standardised(support), standardised(queries)
        mean = torch.tensor(queries, dtype=torch.float64).mean(0).tolist()
        expected = slow_loss(parts[:10], support, standardised([[s, *wbar]])[0]), slow_loss(parts[10:], queries, mean)
        for ours, theirs in zip(found, expected, strict=True):
            assert ours[0, task].tolist() == pytest.approx(theirs)


def test_adaptation_sees_queries_but_not_their_labels() -> None:
    batch = batch_for(METAL)
    tasks, d = batch.tasks, batch.network.d
    end = adapted(METAL, batch)
    blind = batch._replace(tasks=tasks._replace(query_y=torch.zeros_like(tasks.query_y)))
    assert torch.equal(end, adapted(METAL, blind))
    other = batch._replace(tasks=tasks._replace(query_x=tasks.query_x.flip(1)))
    assert not torch.allclose(end, adapted(METAL, other))
    assert torch.equal(end[..., d:], batch.adaptation.extra)


def test_further_steps_use_the_last_copy() -> None:
    batch = batch_for(ONE_COPY)
    d = batch.network.d
    twice = batch._replace(theta=torch.cat([batch.theta, batch.theta[:, d:]], dim=1))
    assert torch.equal(adapted(ONE_COPY, batch)[..., :d], adapted(METAL, twice)[..., :d])


def test_queries_are_predicted_in_one_batch_with_the_support() -> None:
    batch = batch_for(METAL)
    network, tasks = batch.network, batch.tasks
    found = predictions(METAL, batch)
    assert not torch.allclose(found, network.outputs(batch.adaptation.network_theta, tasks.query_x))
    both = network.output(batch.theta[0, : network.d], torch.cat([tasks.x[0, 1], tasks.query_x[0, 1]]))
    torch.testing.assert_close(found[0, 1], both[WAY * SHOTS :])


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(ValueError, match=r"copies.* not 0"):
        Metal(copies=0)
    with pytest.raises(ValueError, match="can only classify"):
        replace(Experiment(data=Sine()), method=Metal())


def test_the_preset_has_plain_layers() -> None:
    exp = preset(Glyphs(), METHODS["metal"])
    assert isinstance(exp.model, Conv4)
    assert exp.model.layers == "plain"
    assert exp.evaluation.inner_steps == (5,)
