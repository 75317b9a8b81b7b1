"""Warp-MAML: what its two losses differentiate, and what the inner loop leaves as it is."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d

from eigen_reptile.data import Glyphs
from eigen_reptile.methods import METHODS, AdaptedParameters, Maml, WarpedSteps
from eigen_reptile.methods.gradient.warp import WARP_LOSS
from eigen_reptile.nn import Conv4
from eigen_reptile.tasks import Batches, each_step
from eigen_reptile.training.presets import preset
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
MAML_ALONE = replace(WARP, objective=WarpedSteps(strength=0.0))
WARPED = Conv4(3, layers="warp")


def test_gradients_against_finite_differences() -> None:
    batch = meta_batch_of(image_experiment(MAML_ALONE, WARPED), 2)
    gradient = gradient_of(MAML_ALONE, batch)
    assert gradient.numel() == batch.network.d
    generator = torch.Generator().manual_seed(0)
    for _ in range(2):
        along = random_direction(gradient, generator)
        expected = finite_difference(MAML_ALONE, batch, along, 1e-5)
        assert float(gradient @ along) == pytest.approx(expected, rel=1e-4, abs=1e-8)
    assert float(gradient.norm()) > 1e-6


def test_the_loss_of_the_warp_layers_against_finite_differences() -> None:
    """The points of the trajectory are constants; the loss depends on the warp layers only, and trains only them."""
    batch = meta_batch_of(image_experiment(WARP, WARPED), 2)
    network, theta, _, tasks, batches, _, _ = batch
    warp = network.module.mask(network.module.within(("warp",)), CPU)
    assert warp.any()

    def after_a_step(point: Tensor, batch_of_step: Batches) -> Tensor:
        return WARP.adapt(batch.adaptation._replace(theta=point, batches=batch_of_step))[0]

    points = [batch.adaptation.theta]
    for step_batch in each_step(batches):
        points.append(after_a_step(points[-1], step_batch))

    def loss(change: Tensor) -> float:
        total = 0.0
        for point, step_batch in zip(points, each_step(batches), strict=False):
            ahead = after_a_step(point + change, step_batch)
            total += float(network.losses(ahead, tasks.query_x, tasks.query_y).mean(-1).mean())
        return total

    assert float(WARP.meta_losses(batch).terms[WARP_LOSS].mean()) == pytest.approx(loss(torch.zeros_like(theta[0])))
    found = gradient_of(WARP, batch) - gradient_of(MAML_ALONE, batch)
    assert torch.allclose(found[~warp], torch.zeros(()).double(), atol=1e-12)
    generator = torch.Generator().manual_seed(0)
    for _ in range(3):
        along = warp * torch.randn(theta[0].shape, generator=generator, dtype=torch.float64)
        along /= along.norm()
        expected = (loss(1e-5 * along) - loss(-1e-5 * along)) / 2e-5
        assert float(found @ along) == pytest.approx(expected, rel=1e-4)


def test_adaptation_leaves_warp_and_norm_layers_as_they_are() -> None:
    batch = meta_batch_of(image_experiment(WARP, WARPED), 2)
    moved = (adapted(WARP, batch) - batch.adaptation.theta).abs().amax((0, 1))
    module, gradient = batch.network.module, gradient_of(WARP, batch)
    warp, norms = module.mask(module.within(("warp",)), CPU), module.mask(module.norms, CPU)
    for unchanged in (warp, norms):
        assert float(moved[unchanged].max()) == 0
        assert float(gradient[unchanged].norm()) > 1e-6
    assert float((moved[~warp & ~norms] > 0).double().mean()) > 0.8  # the last kernels see little but padding


def test_without_warp_layers_it_is_maml() -> None:
    for exp in (image_experiment(Maml()), sine_experiment(Maml())):
        batch = meta_batch_of(exp)
        assert torch.equal(gradient_of(WARP, batch), gradient_of(Maml(), batch))
        assert torch.equal(adapted(WARP, batch), adapted(Maml(), batch))


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


def test_a_negative_strength_is_refused() -> None:
    with pytest.raises(ValueError, match=r"strength.* not -1"):
        WarpedSteps(strength=-1.0)


def test_the_preset_has_warp_layers() -> None:
    exp = preset(Glyphs(), METHODS["warp-maml"])
    assert isinstance(exp.model, Conv4)
    assert exp.model.layers == "warp"
    assert exp.evaluation.inner_steps == (5,)
