"""MAML, FOMAML, ANIL and BOIL: the meta-gradient is the right one, and only what should be adapted is."""

from dataclasses import replace
from typing import Any, Literal

import higher
import pytest
import torch
from torch import Tensor, nn

from eigen_reptile.methods import (
    AdaptedParameters,
    EntropyReduction,
    GradientTransform,
    LossInequality,
    Maml,
    MetaCurvature,
    MetaDropout,
    SparseMask,
    WarpedSteps,
)
from eigen_reptile.methods.gradient.gradient_transform import NoTransform
from eigen_reptile.nn import Conv4, Network
from eigen_reptile.tasks import TaskConfig
from meta_batches import (
    CPU,
    WAY,
    adapted,
    finite_difference,
    gradient_of,
    image_experiment,
    meta_batch_of,
    random_direction,
    sine_experiment,
)

WARP = Maml(adapted=AdaptedParameters(frozen=("warp",)), objective=WarpedSteps())
SECOND_ORDER = {
    "maml": Maml(),
    "anil": Maml(adapted=AdaptedParameters("head")),
    "boil": Maml(adapted=AdaptedParameters("body")),
    "taml": Maml(objective=EntropyReduction(strength=0.5)),
    "taml, support": Maml(objective=EntropyReduction("support", strength=0.5)),
    "taml-theil": Maml(objective=LossInequality("theil", strength=0.5)),
    "taml-theil, queries": Maml(objective=LossInequality("theil", "queries", strength=0.5)),
    "taml-atkinson": Maml(objective=LossInequality("atkinson", strength=0.5)),
    "taml-log-variance": Maml(objective=LossInequality("log-variance", strength=0.5)),
    "meta-curvature": Maml(transform=MetaCurvature()),
    "meta-curvature, small": Maml(transform=MetaCurvature(largest=4)),
}


@pytest.mark.parametrize("name", SECOND_ORDER)
def test_gradients_against_finite_differences(name: str) -> None:
    method = SECOND_ORDER[name]
    batch = meta_batch_of(image_experiment(method))
    gradient = gradient_of(method, batch)
    generator = torch.Generator().manual_seed(0)
    for _ in range(4):
        along = random_direction(gradient, generator)
        h = 1e-6  # no larger: the loss jumps where an inner gradient does, at a kink of a ReLU
        expected = finite_difference(method, batch, along, h)
        assert float(gradient @ along) == pytest.approx(expected, rel=1e-4, abs=1e-7)


@pytest.mark.parametrize("name", ["maml", "taml-theil", "meta-curvature"])
def test_gradients_of_a_batched_network_against_finite_differences(name: str) -> None:
    method = SECOND_ORDER[name]
    batch = meta_batch_of(sine_experiment(method))
    assert batch.network.batched
    gradient = gradient_of(method, batch)
    along = random_direction(gradient, torch.Generator().manual_seed(0))
    expected = finite_difference(method, batch, along, 1e-5)
    assert float(gradient @ along) == pytest.approx(expected, rel=1e-4, abs=1e-8)


class Constant(torch.autograd.Function):
    """The same values, but with a gradient of zero, and none of second order."""

    @staticmethod
    def forward(ctx: Any, value: Tensor) -> Tensor:
        return value.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        return torch.zeros_like(gradients[0])


FIRST_ORDER: dict[str, tuple[Maml | MetaDropout, Literal["plain", "warp", "noise"]]] = {
    "taml": (SECOND_ORDER["taml"], "plain"),
    "taml-theil": (SECOND_ORDER["taml-theil"], "plain"),
    "meta-curvature": (SECOND_ORDER["meta-curvature"], "plain"),
    "warp-maml": (WARP, "warp"),
    "meta-dropout": (MetaDropout(), "noise"),
}


@pytest.mark.parametrize("name", FIRST_ORDER)
def test_first_order_is_second_order_with_constant_inner_gradients(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    method, layers = FIRST_ORDER[name]
    batch = meta_batch_of(image_experiment(method, Conv4(3, layers=layers)))
    first, second = gradient_of(replace(method, order=1), batch), gradient_of(method, batch)
    assert not torch.allclose(first, second, rtol=1e-3)
    inner = Network.gradient
    monkeypatch.setattr(Network, "gradient", lambda *arguments: Constant.apply(inner(*arguments)))  # type: ignore[no-untyped-call]
    torch.testing.assert_close(gradient_of(method, batch), first)


def test_fomaml_is_the_gradient_where_adaptation_ended() -> None:
    batch = meta_batch_of(image_experiment(Maml()))
    network, tasks = batch.network, batch.tasks
    ones = torch.ones(tasks.query_y.shape, dtype=torch.float64)
    end = adapted(Maml(), batch).detach()
    expected = network.gradient(end, tasks.query_x, tasks.query_y, ones).mean(1)[0]
    torch.testing.assert_close(gradient_of(Maml(order=1), batch), expected)
    assert not torch.allclose(gradient_of(Maml(), batch), expected, rtol=1e-3)


@pytest.mark.parametrize("norms", [True, False])
def test_maml_agrees_with_higher(norms: bool) -> None:
    method = Maml(adapted=AdaptedParameters(norms=norms))
    exp = image_experiment(method)
    batch = meta_batch_of(exp)
    module = exp.model.build((3, 8, 9), WAY).double()
    nn.utils.vector_to_parameters(batch.theta[0], module.parameters())
    changed = [parameter for name, parameter in module.named_parameters() if norms or name.split(".")[1] != "norm"]
    assert len(changed) == (14 if norms else 6)
    optimizer, loss = torch.optim.SGD(changed, lr=exp.inner.lr), nn.CrossEntropyLoss()
    pixels, queries = batch.tasks.x[0].double() / 255, batch.tasks.query_x[0].double() / 255
    for task in range(3):
        with higher.innerloop_ctx(module, optimizer, copy_initial_weights=False) as (fast, steps):
            for chosen, y in zip(batch.batches.chosen[0, task], batch.batches.y[0, task], strict=True):
                steps.step(loss(fast(pixels[task, chosen]), y))
            (loss(fast(queries[task]), batch.tasks.query_y[0, task]) / 3).backward()
    theirs = torch.cat([parameter.grad.flatten() for parameter in module.parameters() if parameter.grad is not None])
    torch.testing.assert_close(gradient_of(method, batch), theirs, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("transform", [NoTransform(), MetaCurvature(), SparseMask()], ids=str)
def test_only_the_chosen_layers_are_adapted(transform: GradientTransform) -> None:
    """All, the head (ANIL) or the body (BOIL); also where the gradients are transformed."""
    layers: tuple[Literal["all", "head", "body"], ...] = ("all", "head", "body")
    batch = meta_batch_of(image_experiment(Maml(transform=transform)))
    module = batch.network.module
    head = int(module.mask(module.head, CPU).sum())
    assert head == (3 * 1 + 1) * WAY
    changed = {}
    for choice in layers:
        method = Maml(adapted=AdaptedParameters(choice), transform=transform)
        end = adapted(method, batch)[..., : module.d]
        moved = (end - batch.adaptation.network_theta).abs()[0, 0]
        changed[choice] = (bool((moved[:-head] > 0).any()), bool((moved[-head:] > 0).any()))
    assert changed == {"all": (True, True), "head": (False, True), "body": (True, False)}


def test_methods_that_learn_from_queries_require_them() -> None:
    exp = image_experiment(Maml())
    with pytest.raises(ValueError, match=r"`task\.queries` must be above 0, for example 15"):
        replace(exp, task=TaskConfig(WAY, 2))
