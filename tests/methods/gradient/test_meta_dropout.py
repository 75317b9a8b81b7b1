"""Meta-dropout: noise layer by layer, its seeds, and what the inner loop leaves as it is."""

from functools import partial

import pytest
import torch
from torch import Tensor
from torch.nn.functional import batch_norm, conv2d, linear, max_pool2d, relu, softplus

from eigen_reptile.data import Glyphs
from eigen_reptile.methods import METHODS, Maml, MetaBatch, MetaDropout
from eigen_reptile.methods.gradient.meta_dropout import noise_seeds, noisy_gradient
from eigen_reptile.nn import Conv4
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

METHOD, NOISY = MetaDropout(), Conv4(3, layers="noise")


def noisy_batch() -> MetaBatch:
    return meta_batch_of(image_experiment(METHOD, NOISY), 2)


def test_gradients_against_finite_differences() -> None:
    batch = noisy_batch()
    gradient = gradient_of(METHOD, batch)
    assert gradient.numel() == batch.network.d
    generator = torch.Generator().manual_seed(0)
    for _ in range(2):
        along = random_direction(gradient, generator)
        expected = finite_difference(METHOD, batch, along, 1e-5)
        assert float(gradient @ along) == pytest.approx(expected, rel=1e-4, abs=1e-8)
    assert float(gradient.norm()) > 1e-6


def test_adaptation_leaves_noise_and_norm_layers_as_they_are() -> None:
    batch = noisy_batch()
    moved = (adapted(METHOD, batch) - batch.adaptation.theta).abs().amax((0, 1))
    module, gradient = batch.network.module, gradient_of(METHOD, batch)
    noise, norms = module.mask(module.within(("noise",)), CPU), module.mask(module.norms, CPU)
    for unchanged in (noise, norms):
        assert float(moved[unchanged].max()) == 0
        assert float(gradient[unchanged].norm()) > 1e-6
    assert float((moved[~noise & ~norms] > 0).double().mean()) > 0.8  # the last kernels see little but padding


def test_without_noise_layers_it_is_maml() -> None:
    for exp in (image_experiment(Maml()), sine_experiment(Maml())):
        batch = meta_batch_of(exp)
        assert torch.equal(gradient_of(METHOD, batch), gradient_of(Maml(), batch))
        assert torch.equal(adapted(METHOD, batch), adapted(Maml(), batch))


def normal(rng: torch.Generator, like: Tensor) -> Tensor:
    return torch.randn(like.shape, generator=rng, dtype=like.dtype)


def test_noise_layer_by_layer() -> None:
    module = NOISY.build((2, 8, 8), WAY).double()
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


def test_noise_is_determined_by_the_mini_batch() -> None:
    batch = noisy_batch()
    before = torch.get_rng_state()
    first, again = adapted(METHOD, batch), adapted(METHOD, batch)
    assert torch.equal(first, again)
    assert torch.equal(before, torch.get_rng_state())
    assert not torch.equal(first, adapted(MetaDropout(samples=1), batch))
    x = batch.tasks.x[:, :1]
    seeds = noise_seeds(x, 3)
    assert seeds == noise_seeds(x, 4)[:3]
    assert len({*seeds, *noise_seeds(x.flip(2), 3), *noise_seeds(batch.tasks.x[:, 1:], 3)}) == 9
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_gradients_are_averaged_over_noise_draws() -> None:
    batch = noisy_batch()
    network, tasks, theta = batch.network, batch.tasks, batch.adaptation.network_theta
    weight = torch.ones(tasks.y.shape, dtype=torch.float64)
    found = noisy_gradient(network, theta, tasks.x, tasks.y, weight, samples=3)
    for task in range(2):
        one = slice(task, task + 1)
        draws = [
            network.with_arguments(seed).gradient(theta[:, one], tasks.x[:, one], tasks.y[:, one], weight[:, one])
            for seed in noise_seeds(tasks.x[:, one], 3)
        ]
        torch.testing.assert_close(found[:, one], torch.stack(draws).mean(0))
    assert not torch.allclose(found, network.gradient(theta, tasks.x, tasks.y, weight), rtol=1e-3)


def test_there_must_be_a_noise_draw() -> None:
    with pytest.raises(ValueError, match=r"samples.* not 0"):
        MetaDropout(samples=0)


def test_the_preset_has_noise_layers() -> None:
    exp = preset(Glyphs(), METHODS["meta-dropout"])
    assert isinstance(exp.model, Conv4)
    assert exp.model.layers == "noise"
    assert exp.evaluation.inner_steps == (5,)
