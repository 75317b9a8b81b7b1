"""Warp-MAML, MeTAL and meta-dropout: what they differentiate, and what they leave as it is."""

from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import batch_norm, conv2d, linear, max_pool2d, relu, softplus

from eigen_reptile.config import Experiment, standard
from eigen_reptile.data import Glyphs, Sine
from eigen_reptile.learner import class_error
from eigen_reptile.methods import METHODS, Iteration, Maml, MetaDropout, Metal, Method, WarpMaml
from eigen_reptile.methods.gradient import GradientMethod
from eigen_reptile.methods.meta_dropout import noise_seeds
from eigen_reptile.methods.metal import learnt_losses
from eigen_reptile.methods.warp_maml import WARP_LOSS
from eigen_reptile.models import Conv4
from eigen_reptile.tasks import Batches, each_step
from test_gradient_methods import SHOTS, WAY, gradient_of, iteration_of, pictures, waves

WARPED, NOISY = Conv4(3, layers="warp"), Conv4(3, layers="noise")
CASES: dict[str, tuple[GradientMethod, Conv4]] = {
    "warp-maml": (WarpMaml(strength=0.0), WARPED),
    "metal": (Metal(copies=2), Conv4(3)),
    "metal, fewer copies than steps": (Metal(copies=1), Conv4(3)),
    "meta-dropout": (MetaDropout(), NOISY),
}


def case(name: str, tasks: int = 2) -> tuple[GradientMethod, Iteration]:
    method, model = CASES[name]
    return method, iteration_of(pictures(method, model=model), tasks)


def adapted(method: Method, iteration: Iteration) -> Tensor:
    return method.adapted(iteration.adaptation)[0]


@pytest.mark.parametrize("name", CASES)
def test_gradients_against_finite_differences(name: str) -> None:
    method, iteration = case(name)
    gradient = gradient_of(method, iteration)
    d = iteration.learner.d
    generator = torch.Generator().manual_seed(0)
    within = {"network": slice(0, d)} | ({"extra": slice(d, None)} if gradient.numel() > d else {})
    for part in (*within.values(), slice(None)):
        along = torch.zeros_like(gradient)
        along[part] = torch.randn(along[part].shape, generator=generator, dtype=torch.float64)
        along /= along.norm()
        high, low = (
            float(method.losses(iteration._replace(theta=iteration.theta + h * along)).mean()) for h in (1e-5, -1e-5)
        )
        assert float(gradient @ along) == pytest.approx((high - low) / 2e-5, rel=1e-4, abs=1e-8)
        assert float(gradient[part].norm()) > 1e-6


def test_the_warp_layers_loss_against_finite_differences() -> None:
    """The points of the trajectory stay where they are; only the warp layers move, and only they are taught."""
    method = WarpMaml()
    iteration = iteration_of(pictures(method, model=WARPED), 2)
    learner, theta, _, tasks, batches, _, _ = iteration
    warp = learner.within("warp")
    assert warp is not None

    def after_a_step(point: Tensor, batch: Batches) -> Tensor:
        return method.adapted(iteration.adaptation._replace(point=point, batches=batch))[0]

    points = [iteration.point]
    for batch in each_step(batches):
        points.append(after_a_step(points[-1], batch))

    def loss(change: Tensor) -> float:
        total = 0.0
        for point, batch in zip(points, each_step(batches), strict=False):
            ahead = after_a_step(point + change, batch)
            total += float(learner.losses(ahead, tasks.query_x, tasks.query_y).mean(-1).mean())
        return total

    assert float(method.terms(iteration)[WARP_LOSS].mean()) == pytest.approx(loss(torch.zeros_like(theta[0])))
    found = gradient_of(method, iteration) - gradient_of(replace(method, strength=0.0), iteration)
    assert torch.allclose(found[~warp], torch.zeros(()).double(), atol=1e-12)
    generator = torch.Generator().manual_seed(0)
    for _ in range(3):
        along = warp * torch.randn(theta[0].shape, generator=generator, dtype=torch.float64)
        along /= along.norm()
        expected = (loss(1e-5 * along) - loss(-1e-5 * along)) / 2e-5
        assert float(found @ along) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize(("method", "model"), [(WarpMaml(), WARPED), (MetaDropout(), NOISY)])
def test_adaptation_leaves_some_layers_as_they_are(method: Method, model: Conv4) -> None:
    iteration = iteration_of(pictures(method, model=model), 2)
    moved = (adapted(method, iteration) - iteration.point).abs().amax((0, 1))
    layers, norms = iteration.learner.within(model.layers), iteration.learner.where(iteration.learner.norms)
    assert layers is not None
    for left in (layers, norms):
        assert float(moved[left].max()) == 0
        assert float(gradient_of(method, iteration)[left].norm()) > 1e-6
    assert float((moved[~layers & ~norms] > 0).double().mean()) > 0.8  # the last kernels see little but padding


@pytest.mark.parametrize("method", [WarpMaml(), MetaDropout()])
@pytest.mark.parametrize("exp", [pictures, waves])
def test_without_their_layers_they_are_maml(method: Method, exp: Any) -> None:
    iteration = iteration_of(exp(Maml()))
    assert torch.equal(gradient_of(method, iteration), gradient_of(Maml(), iteration))
    assert torch.equal(adapted(method, iteration), adapted(Maml(), iteration))


def test_a_warp_layer_is_a_convolution_after_the_block() -> None:
    module, plain = (model.build((3, 16, 16), WAY) for model in (WARPED, Conv4(3)))
    assert isinstance(plain, nn.Sequential)
    plain.load_state_dict({name: value for name, value in module.state_dict().items() if "warp" not in name})
    x = torch.rand(4, 3, 16, 16)
    expected = x
    for number in range(4):
        expected = plain[number](expected)
        weight, bias = (module.state_dict()[f"{number}.warp.{part}"] for part in ("weight", "bias"))
        expected = conv2d(expected, weight, bias, padding=1)
    torch.testing.assert_close(module(x), plain[5](expected.flatten(1)))


def normal(rng: torch.Generator, like: Tensor) -> Tensor:
    return torch.randn(like.shape, generator=rng, dtype=like.dtype)


def test_noise_layer_by_layer() -> None:
    module = Conv4(3, layers="noise").build((2, 8, 8), WAY).double()
    values = module.state_dict()
    x = torch.rand(4, 2, 8, 8, dtype=torch.float64)
    for seed in (None, 7):
        noise = torch.zeros_like if seed is None else partial(normal, torch.Generator().manual_seed(seed))
        h = x
        for number in range(4):
            mu = conv2d(h, values[f"{number}.convolution.weight"], padding=1)
            a = conv2d(h, values[f"{number}.noise.weight"], values[f"{number}.noise.bias"], padding=1)
            scale, shift = values[f"{number}.norm.weight"], values[f"{number}.norm.bias"]
            h = batch_norm(mu * softplus(a + noise(a)), None, None, scale, shift, training=True, eps=1e-3)
            h = max_pool2d(relu(h), 2, ceil_mode=True)
        h = h.flatten(1)
        expected = linear(h, values["5.linear.weight"], values["5.linear.bias"])
        spread = softplus(linear(h, values["5.noise.weight"], values["5.noise.bias"]))
        torch.testing.assert_close(module(x, seed), expected + spread * noise(expected))


def test_noise_is_settled_by_the_mini_batch() -> None:
    method, iteration = case("meta-dropout")
    before = torch.get_rng_state()
    first, again = adapted(method, iteration), adapted(method, iteration)
    assert torch.equal(first, again)
    assert torch.equal(before, torch.get_rng_state())
    assert not torch.equal(first, adapted(MetaDropout(samples=1), iteration))
    x = iteration.tasks.x[:, :1]
    seeds = noise_seeds(x, 3)
    assert seeds == noise_seeds(x, 4)[:3]
    assert len({*seeds, *noise_seeds(x.flip(2), 3), *noise_seeds(iteration.tasks.x[:, 1:], 3)}) == 9
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_noise_of_several_draws_is_averaged() -> None:
    _, iteration = case("meta-dropout")
    learner, tasks, network = iteration.learner, iteration.tasks, iteration.network
    weight = torch.ones(tasks.y.shape, dtype=torch.float64)
    found = MetaDropout(samples=3).gradient(learner, network, tasks.x, tasks.y, weight)
    for task in range(2):
        one = slice(task, task + 1)
        draws = [
            learner.told(seed).gradient(network[:, one], tasks.x[:, one], tasks.y[:, one], weight[:, one])
            for seed in noise_seeds(tasks.x[:, one], 3)
        ]
        torch.testing.assert_close(found[:, one], sum(draws) / 3)
    assert not torch.allclose(found, learner.gradient(network, tasks.x, tasks.y, weight), rtol=1e-3)


def slow_loss(parts: list[Tensor], states: list[list[float]], told: list[float]) -> list[float]:
    """What a loss network says about each state, with its parameters changed as its adapter asks."""

    def layers(x: Tensor, first: Tensor, first_bias: Tensor, second: Tensor, second_bias: Tensor) -> Tensor:
        return relu(x @ first.T + first_bias) @ second.T + second_bias

    asked = layers(torch.tensor(told, dtype=torch.float64), *parts[4:8])
    changed = [
        (1 + float(parts[8][j]) * float(asked[j])) * parts[j] + float(parts[9][j]) * float(asked[4 + j])
        for j in range(4)
    ]
    return [float(layers(torch.tensor(state, dtype=torch.float64), *changed)) for state in states]


def standardised(states: list[list[float]]) -> list[list[float]]:
    flat = torch.tensor(states, dtype=torch.float64)
    found: list[list[float]] = ((flat - flat.mean()) / flat.std()).tolist()
    return found


def test_the_states_of_metal_against_a_slow_loop() -> None:
    _, iteration = case("metal")
    learner, tasks = iteration.learner, iteration.tasks
    tensors = [name for name in learner.shapes if ".norm." not in name]
    L, m, d = len(tensors), WAY * SHOTS, learner.d
    assert (L, m) == (6, 6)
    size = (iteration.theta.shape[1] - d) // 2
    copy = iteration.point[..., d : d + size]
    said = learner.outputs(iteration.network, torch.cat([tasks.x, tasks.query_x], dim=2))
    loss = class_error(said[:, :, :m], tasks.y).mean(-1)
    found = learnt_losses(learner, iteration.network, copy, loss, said[:, :, :m], tasks.y, said[:, :, m:])

    shapes = []
    for width, told in ((1 + L + 2 * WAY, 1 + L), (L + WAY + 1, L + WAY + 1)):
        shapes += [(width, width), (width,), (1, width), (1,), (told, told), (told,), (8, told), (8,), (4,), (4,)]
    parts, rest = [], copy[0, 0]
    for shape in shapes:
        count = torch.Size(shape).numel()
        parts.append(rest[:count].view(shape))
        rest = rest[count:]
    assert rest.numel() == 0

    for task in range(2):
        wbar, theta = [], iteration.theta[0]
        for name, shape in learner.shapes.items():
            if name in tensors:
                wbar.append(float(theta[: shape.numel()].mean()))
            theta = theta[shape.numel() :]
        s = float(loss[0, task])
        support, queries = [], []
        for number in range(m):
            label = [float(tasks.y[0, task, number] == way) for way in range(WAY)]
            support.append([s, *wbar, *said[0, task, number].tolist(), *label])
        for answer in said[0, task, m:]:
            p = answer.softmax(-1)
            queries.append([*wbar, *answer.tolist(), float((p * p.log()).sum())])
        support, queries = standardised(support), standardised(queries)
        mean = torch.tensor(queries, dtype=torch.float64).mean(0).tolist()
        expected = slow_loss(parts[:10], support, standardised([[s, *wbar]])[0]), slow_loss(parts[10:], queries, mean)
        for ours, theirs in zip(found, expected, strict=True):
            assert ours[0, task].tolist() == pytest.approx(theirs)


def test_metal_sees_queries_but_not_their_labels() -> None:
    method, iteration = case("metal")
    tasks = iteration.tasks
    end = adapted(method, iteration)
    blind = iteration._replace(tasks=tasks._replace(query_y=torch.zeros_like(tasks.query_y)))
    assert torch.equal(end, adapted(method, blind))
    other = iteration._replace(tasks=tasks._replace(query_x=tasks.query_x.flip(1)))
    assert not torch.allclose(end, adapted(method, other))
    assert torch.equal(end[..., iteration.learner.d :], iteration.point[..., iteration.learner.d :])


def test_metal_reuses_its_last_copy() -> None:
    few, iteration = case("metal, fewer copies than steps")
    d = iteration.learner.d
    twice = torch.cat([iteration.theta, iteration.theta[:, d:]], dim=1)
    many = iteration._replace(theta=twice)
    assert torch.equal(adapted(few, iteration)[..., :d], adapted(Metal(copies=2), many)[..., :d])


def test_metal_answers_in_one_batch_with_the_support() -> None:
    method, iteration = case("metal")
    learner, tasks = iteration.learner, iteration.tasks
    said = method.answers(learner, iteration.point, tasks, tasks.query_x)
    assert not torch.allclose(said, learner.outputs(iteration.network, tasks.query_x))
    both = learner.output(iteration.theta[0, : learner.d], torch.cat([tasks.x[0, 1], tasks.query_x[0, 1]]))
    torch.testing.assert_close(said[0, 1], both[WAY * SHOTS :])


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: Metal(copies=0), "copies .* not 0"),
        (lambda: Metal(order=1), "order must be 2"),
        (lambda: MetaDropout(samples=0), "samples .* not 0"),
        (lambda: WarpMaml(strength=-1.0), "strength .* not -1"),
        (lambda: Experiment(Metal(), Sine()), "tells classes apart"),
    ],
)
def test_settings_that_make_no_sense(make: Any, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        make()


@pytest.mark.parametrize(("name", "layers"), [("warp-maml", "warp"), ("metal", "plain"), ("meta-dropout", "noise")])
def test_standard_settings_have_the_layers(name: str, layers: str) -> None:
    exp = standard(Glyphs(), METHODS[name])
    assert isinstance(exp.model, Conv4)
    assert exp.model.layers == layers
    assert exp.evaluation.after == (5,)
