"""Methods that go down a gradient: the gradient is the right one."""

from dataclasses import replace
from typing import Any

import higher
import numpy as np
import pytest
import torch
from torch import Tensor, nn

from eigen_reptile.config import Experiment, standard
from eigen_reptile.data import Sine
from eigen_reptile.evaluate import EvalConfig
from eigen_reptile.files import RunError
from eigen_reptile.inner import InnerConfig
from eigen_reptile.learner import Learner, class_error
from eigen_reptile.methods import (
    Domain,
    Iteration,
    Maml,
    MetaCurvature,
    MetaDropout,
    Method,
    Prototypical,
    Robust,
    SparseMaml,
    Taml,
    WarpMaml,
)
from eigen_reptile.methods.gradient import META_LOSS, GradientMethod
from eigen_reptile.methods.robust import GeneralisedCrossEntropy
from eigen_reptile.methods.taml import inequality
from eigen_reptile.models import Conv4, Mlp
from eigen_reptile.progress import silent
from eigen_reptile.stage import prepare
from eigen_reptile.state import TrainState
from eigen_reptile.tasks import TaskConfig
from eigen_reptile.train import training_data
from pictures import Patterns

WAY, SHOTS = 3, 2


def pictures(method: Method, **changes: Any) -> Experiment:
    exp = Experiment(
        method,
        Patterns(),
        Conv4(3),
        TaskConfig(WAY, SHOTS, queries=3),
        inner=InnerConfig(steps=2, batch=WAY * SHOTS, lr=0.1, carry="fresh"),
        evaluation=EvalConfig(tasks=2, monitor_tasks=2, shots=(1,), queries=2, after=(2,), pictures=()),
        precision="float64",
    )
    return replace(exp, **changes)


def waves(method: Method) -> Experiment:
    return replace(
        Experiment(method, Sine(), Mlp((5, 4)), TaskConfig(shots=10), precision="float64"),
        inner=InnerConfig(steps=3, batch=10, lr=0.05),
    )


def iteration_of(exp: Experiment, tasks: int = 3) -> Iteration:
    stage = prepare(replace(exp, meta=replace(exp.meta, batch=tasks)), silent, "cpu")
    state = TrainState.fresh(stage)
    theta = state.theta
    # Away from where extra parameters start, so that nothing is the identity by chance.
    theta = theta + 0.05 * torch.randn(theta.shape, generator=torch.Generator().manual_seed(1), dtype=theta.dtype)
    return Iteration(stage.learner, theta, state.memory, *training_data(stage, 0), exp.inner, torch.tensor(0))


def gradient_of(method: Method, iteration: Iteration) -> Tensor:
    with torch.no_grad():
        return -method.settled(method.propose(iteration)).direction[0]


def meta_loss(method: GradientMethod, iteration: Iteration) -> float:
    """What is minimised, out of the losses themselves: for TAML's inequality with the measure of all tasks."""
    terms = {name: float(values[0].mean()) for name, values in method.terms(iteration).items()}
    if isinstance(method, Taml) and method.bias != "entropy":
        first, second = (torch.tensor([terms[name]], dtype=torch.float64) for name in ("first", "second"))
        return terms[META_LOSS] + method.strength * float(inequality(method.bias, first, second))
    return terms[META_LOSS]


SECOND_ORDER = {
    "maml": Maml(),
    "anil": Maml(adapts="head"),
    "boil": Maml(adapts="body"),
    "taml": Taml(strength=0.5),
    "taml, support": Taml(entropy_of="support", strength=0.5),
    "taml-theil": Taml(bias="theil", strength=0.5),
    "taml-theil, queries": Taml(bias="theil", losses_of="queries", strength=0.5),
    "taml-atkinson": Taml(bias="atkinson", strength=0.5),
    "taml-log-variance": Taml(bias="log-variance", strength=0.5),
    "meta-curvature": MetaCurvature(),
    "meta-curvature, small": MetaCurvature(largest=4),
    "prototypical": Prototypical(),
}


@pytest.mark.parametrize("name", SECOND_ORDER)
def test_gradients_against_finite_differences(name: str) -> None:
    method = SECOND_ORDER[name]
    iteration = iteration_of(pictures(method))
    gradient = gradient_of(method, iteration)
    generator = torch.Generator().manual_seed(0)
    for _ in range(4):
        along = torch.randn(gradient.shape, generator=generator, dtype=torch.float64)
        along /= along.norm()
        h = 1e-6  # no larger: the loss jumps where an inner gradient does, at a kink of a ReLU
        high, low = (
            meta_loss(method, iteration._replace(theta=iteration.theta + sign * h * along)) for sign in (1, -1)
        )
        assert float(gradient @ along) == pytest.approx((high - low) / (2 * h), rel=1e-4, abs=1e-7)


@pytest.mark.parametrize("name", ["maml", "taml-theil", "meta-curvature"])
def test_gradients_of_a_batched_network_too(name: str) -> None:
    method = SECOND_ORDER[name]
    iteration = iteration_of(waves(method))
    gradient = gradient_of(method, iteration)
    along = torch.randn(gradient.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    along /= along.norm()
    high, low = (meta_loss(method, iteration._replace(theta=iteration.theta + h * along)) for h in (1e-5, -1e-5))
    assert float(gradient @ along) == pytest.approx((high - low) / 2e-5, rel=1e-4, abs=1e-8)


class Stopped(torch.autograd.Function):
    """The same number, through which no gradient goes; nor any of a second order."""

    @staticmethod
    def forward(ctx: Any, value: Tensor) -> Tensor:
        return value.clone()

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> Tensor:
        return torch.zeros_like(slopes[0])


FIRST_ORDER = {
    "taml": (Taml(strength=0.5), "plain"),
    "taml-theil": (Taml(bias="theil", strength=0.5), "plain"),
    "meta-curvature": (MetaCurvature(), "plain"),
    "warp-maml": (WarpMaml(), "warp"),
    "meta-dropout": (MetaDropout(), "noise"),
}


@pytest.mark.parametrize("name", FIRST_ORDER)
def test_first_order_is_second_order_with_constant_inner_gradients(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    method, layers = FIRST_ORDER[name]
    iteration = iteration_of(pictures(method, model=Conv4(3, layers=layers)))  # type: ignore[arg-type]
    first, second = gradient_of(replace(method, order=1), iteration), gradient_of(method, iteration)
    assert not torch.allclose(first, second, rtol=1e-3)
    inner = Learner.gradient
    monkeypatch.setattr(Learner, "gradient", lambda *arguments: Stopped.apply(inner(*arguments)))  # type: ignore[no-untyped-call]
    torch.testing.assert_close(gradient_of(method, iteration), first)


def test_fomaml_is_the_gradient_where_adaptation_ended() -> None:
    iteration = iteration_of(pictures(Maml()))
    learner, tasks = iteration.learner, iteration.tasks
    end, _ = Maml().adapted(iteration.adaptation)
    ones = torch.ones(tasks.query_y.shape, dtype=torch.float64)
    expected = learner.gradient(end.detach(), tasks.query_x, tasks.query_y, ones).mean(1)[0]
    torch.testing.assert_close(gradient_of(Maml(order=1), iteration), expected)
    assert not torch.allclose(gradient_of(Maml(), iteration), expected, rtol=1e-3)


@pytest.mark.parametrize("adapts_norms", [True, False])
def test_maml_is_that_of_higher(adapts_norms: bool) -> None:
    method = Maml(adapts_norms=adapts_norms)
    exp = pictures(method)
    iteration = iteration_of(exp)
    module = exp.model.build((3, 8, 9), WAY).double()
    nn.utils.vector_to_parameters(iteration.theta[0], module.parameters())
    changed = [
        parameter for name, parameter in module.named_parameters() if adapts_norms or name.split(".")[1] != "norm"
    ]
    assert len(changed) == (14 if adapts_norms else 6)
    optimizer, loss = torch.optim.SGD(changed, lr=exp.inner.lr), nn.CrossEntropyLoss()
    pixels, queries = iteration.tasks.x[0].double() / 255, iteration.tasks.query_x[0].double() / 255
    for task in range(3):
        with higher.innerloop_ctx(module, optimizer, copy_initial_weights=False) as (fast, steps):
            for chosen, y in zip(iteration.batches.chosen[0, task], iteration.batches.y[0, task], strict=True):
                steps.step(loss(fast(pixels[task, chosen]), y))
            (loss(fast(queries[task]), iteration.tasks.query_y[0, task]) / 3).backward()
    theirs = torch.cat([parameter.grad.flatten() for parameter in module.parameters() if parameter.grad is not None])
    torch.testing.assert_close(gradient_of(method, iteration), theirs, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("kind", [Maml, MetaCurvature, SparseMaml])
def test_what_is_adapted_is_what_they_say(kind: type[Maml]) -> None:
    """All, the head (ANIL) or the body (BOIL); also where the gradients are mapped or masked."""
    iteration = iteration_of(pictures(kind()))
    head = int(iteration.learner.where(iteration.learner.head).sum())
    assert head == (3 * 1 + 1) * WAY
    changed = {}
    for adapts in ("all", "head", "body"):
        method = kind(adapts=adapts)
        end = method.adapted(iteration.adaptation)[0][..., : iteration.learner.d]
        moved = (end - iteration.network).abs()[0, 0]
        changed[adapts] = (bool((moved[:-head] > 0).any()), bool((moved[-head:] > 0).any()))
    assert changed == {"all": (True, True), "head": (False, True), "body": (True, False)}


def test_the_maps_of_meta_curvature_against_a_slow_sum() -> None:
    rng = np.random.default_rng(0)
    build = lambda: nn.Conv2d(2, 3, (2, 1))  # noqa: E731
    learner = Learner(build, class_error)
    method = MetaCurvature()
    extra = method.extra(learner, 0, Domain((2, 3, 3), 3, 3))
    assert len(extra) == 3**2 + 2**2 + 2**2 + 3
    kernel = rng.normal(size=(3, 2, 2))  # out, in, places
    out, within, places, bias = (rng.normal(size=shape) for shape in ((3, 3), (2, 2), (2, 2), (3,)))
    slow = np.zeros_like(kernel)
    for o, i, p in np.ndindex(*kernel.shape):
        for a, b, c in np.ndindex(*kernel.shape):
            slow[o, i, p] += out[o, a] * within[i, b] * places[p, c] * kernel[a, b, c]
    drawn = torch.from_numpy(np.concatenate([part.ravel() for part in (out, within, places, bias)]))
    gradient = torch.from_numpy(np.concatenate([kernel.ravel(), [1.0, 2.0, 3.0]]))
    found = method.rule(learner, drawn[None, None])(gradient[None, None])[0, 0]
    np.testing.assert_allclose(found[:-3].numpy(), slow.ravel())
    np.testing.assert_allclose(found[-3:].numpy(), bias * [1, 2, 3])
    same = method.rule(learner, extra.double()[None, None])(gradient[None, None])[0, 0]
    torch.testing.assert_close(same, gradient)


def test_sparse_maml_by_its_formula() -> None:
    """The mask's gradient is minus the rate times the sum over steps of the inner gradient, times the outer one."""
    method = SparseMaml(mask_rate=2.0)
    iteration = iteration_of(pictures(method), tasks=1)
    learner, d = iteration.learner, iteration.learner.d
    point, mask = iteration.theta[:, None, :d], (iteration.theta[:, None, d:] > 0).double()
    assert 0.3 < float(mask.mean()) < 0.7
    total = torch.zeros_like(point)
    tasks, batches = iteration.tasks, iteration.batches
    for step in range(2):
        x = tasks.x[:, :, batches.chosen[0, 0, step]]
        gradient = learner.gradient(point, x, batches.y[:, :, step], batches.weight[:, :, step].double())
        total += gradient
        point = point - iteration.inner.lr * mask * gradient
    ones = torch.ones(tasks.query_y.shape, dtype=torch.float64)
    outer = learner.gradient(point, tasks.query_x, tasks.query_y, ones)[0, 0]
    found = gradient_of(method, iteration)
    torch.testing.assert_close(found[:d], outer)
    torch.testing.assert_close(found[d:], -2.0 * iteration.inner.lr * total[0, 0] * outer)


@pytest.mark.parametrize("samples", ["queries", "support"])
def test_taml_by_its_formulas(samples: Any) -> None:
    """J = L(after) + lambda (H(after) - H(before)), or + lambda times Theil's index of the losses before."""
    entropic = Taml(entropy_of=samples, strength=0.3)
    unequal = Taml(bias="theil", losses_of=samples, strength=0.3)
    iteration = iteration_of(pictures(entropic))
    learner, tasks, theta = iteration.learner, iteration.tasks, iteration.theta[0]
    x, y = (tasks.query_x, tasks.query_y) if samples == "queries" else (tasks.x, tasks.y)
    after, _ = Maml().adapted(iteration.adaptation)

    def said(network: Tensor, pictures: Tensor) -> np.ndarray:
        return learner.output(network, pictures).softmax(-1).numpy()

    expected, before = [], []
    for task in range(3):
        answers, labels = said(after[0, task], tasks.query_x[0, task]), tasks.query_y[0, task].tolist()
        expected.append(-np.mean([np.log(row[label]) for row, label in zip(answers, labels, strict=True)]))
        old, new = said(theta, x[0, task]), said(after[0, task], x[0, task])
        before.append(-np.mean([np.log(row[label]) for row, label in zip(old, y[0, task].tolist(), strict=True)]))
        expected[-1] += 0.3 * ((old * np.log(old)).sum(1) - (new * np.log(new)).sum(1)).mean()
    np.testing.assert_allclose(entropic.losses(iteration)[0], expected)
    shares = np.array(before) / np.mean(before)
    plain = Maml().losses(iteration)[0].mean()
    assert meta_loss(unequal, iteration) == pytest.approx(float(plain) + 0.3 * (shares * np.log(shares)).mean())


def test_tasks_that_are_compared_are_several() -> None:
    assert standard(Sine(), Taml(bias="theil")).meta.batch > 1
    with pytest.raises(RunError, match=r"use --meta.batch 2 or more"):
        prepare(pictures(Taml(bias="theil")), silent, "cpu")
    prepare(pictures(Taml()), silent, "cpu")


@pytest.mark.parametrize("measure", ["theil", "atkinson", "log-variance"])
def test_inequality_of_losses(measure: Any) -> None:
    losses = np.array([0.5, 1.0, 2.5])
    mu = losses.mean()
    expected = {
        "theil": (losses / mu * np.log(losses / mu)).mean(),
        "atkinson": 1 - losses.prod() ** (1 / 3) / mu,
        "log-variance": np.log(losses).var(),
    }[measure]

    def measured(values: np.ndarray) -> float:
        log = np.log(values)
        means = {
            "theil": (values.mean(), (values * log).mean()),
            "atkinson": (values.mean(), log.mean()),
            "log-variance": (log.mean(), (log**2).mean()),
        }[measure]
        return float(inequality(measure, *(torch.tensor([mean]) for mean in means)))

    assert measured(losses) == pytest.approx(expected)
    assert measured(np.full(4, 1.7)) == pytest.approx(0, abs=1e-12)


def test_prototypes_against_a_slow_loop() -> None:
    iteration = iteration_of(pictures(Prototypical(), model=Conv4(3, head=False)))
    learner, tasks = iteration.learner, iteration.tasks
    said = Prototypical().answers(learner, iteration.point, tasks, tasks.query_x)
    for task in range(3):
        placed = learner.output(iteration.theta[0], torch.cat([tasks.x[0, task], tasks.query_x[0, task]]))
        support, queries = placed[: WAY * SHOTS], placed[WAY * SHOTS :]
        for number, query in enumerate(queries):
            for way in range(WAY):
                members = [support[m] for m in range(WAY * SHOTS) if tasks.y[0, task, m] == way]
                distance = float(((query - sum(members) / len(members)) ** 2).sum())
                assert float(said[0, task, number, way]) == pytest.approx(-distance)


def test_the_robust_loss_lies_between_two_known_ones() -> None:
    output = torch.randn(4, 6, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    y = torch.arange(24).view(4, 6) % 5
    p = output.softmax(-1).gather(-1, y[..., None])[..., 0]
    absolute, nearly_log = (GeneralisedCrossEntropy(q)(output, y) for q in (1.0, 1e-7))
    torch.testing.assert_close(absolute, 1 - p)
    torch.testing.assert_close(nearly_log, class_error(output, y), rtol=1e-5, atol=1e-5)


def test_the_robust_loss_has_a_slope_where_a_probability_is_zero() -> None:
    output = torch.tensor([[200.0, 0.0, 0.0]], requires_grad=True)
    loss = GeneralisedCrossEntropy(0.7)(output, torch.tensor([1]))
    loss.sum().backward()
    assert loss.item() == pytest.approx(1 / 0.7)
    assert output.grad is not None
    assert output.grad.isfinite().all()


def test_a_robust_learner_is_used_in_training_and_adaptation() -> None:
    plain = iteration_of(pictures(Maml()))
    robust = Robust(Maml(), q=0.5)
    learner = plain.learner.with_loss(GeneralisedCrossEntropy(robust.q))
    torch.testing.assert_close(
        gradient_of(robust, plain), gradient_of(Maml(), plain._replace(learner=learner)), rtol=0, atol=0
    )
    start = plain.adaptation
    ours, theirs = robust.adapted(start)[0], Maml().adapted(start._replace(learner=learner))[0]
    assert torch.equal(ours, theirs)
    assert not torch.equal(ours, Maml().adapted(start)[0])


@pytest.mark.parametrize(
    ("method", "problem"),
    [(Prototypical(), "tells classes apart"), (Taml(), "tells classes apart")],
)
def test_methods_for_classes_refuse_curves(method: Method, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        Experiment(method, Sine())


def test_methods_that_need_queries_say_so() -> None:
    with pytest.raises(ValueError, match=r"--task\.queries 15"):
        pictures(Maml(), task=TaskConfig(WAY, SHOTS))
