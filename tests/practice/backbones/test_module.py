"""Networks of the user, and feature vectors as they are."""

import copy
import pickle

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from eigen_reptile.errors import ConfigError
from eigen_reptile.practice.backbones import (
    FunctionBackbone,
    ImageInput,
    ModuleBackbone,
    Pixels,
    SavedBackbone,
    Vectors,
    load_backbone,
)

RNG = np.random.default_rng(0)
BYTES = RNG.integers(0, 256, (4, 6, 6, 3), dtype=np.uint8)
NUMBERS = torch.tensor(BYTES).permute(0, 3, 1, 2) / 255
INPUT = ImageInput(6)


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 5, 3), nn.BatchNorm2d(5), nn.Dropout(), nn.AdaptiveAvgPool2d(1))


def test_features_are_those_of_the_module_in_evaluation_mode() -> None:
    module = network()
    backbone = ModuleBackbone(module, INPUT)
    assert module.training
    expected = network().eval()(NUMBERS).flatten(1).detach()
    np.testing.assert_allclose(backbone.features(BYTES), expected, atol=1e-6)
    torch.testing.assert_close(backbone.as_module()(torch.tensor(BYTES).permute(0, 3, 1, 2)), expected)


def test_mean_and_standard_deviation() -> None:
    image_input = ImageInput(6, mean=(0.1, 0.2, 0.3), std=(1.0, 2.0, 3.0))
    found = FunctionBackbone(lambda x: x.flatten(1), image_input).features(BYTES)
    expected = (NUMBERS - torch.tensor([0.1, 0.2, 0.3])[:, None, None]) / torch.tensor([1.0, 2.0, 3.0])[:, None, None]
    np.testing.assert_allclose(found, expected.flatten(1), atol=1e-6)


def test_later_changes_of_the_module_do_not_matter() -> None:
    module = network()
    backbone = ModuleBackbone(module, INPUT)
    before = backbone.features(BYTES)
    with torch.no_grad():
        module[0].weight.mul_(2)  # type: ignore[index]
    np.testing.assert_array_equal(backbone.features(BYTES), before)


def test_fingerprints_depend_on_weights_layers_and_input() -> None:
    other = network()
    with torch.no_grad():
        other[1].running_mean.add_(1e-6)  # type: ignore[index]
    several = [
        ModuleBackbone(network(), INPUT),
        ModuleBackbone(other, INPUT),
        ModuleBackbone(network(), ImageInput(6, std=(2.0,))),
        ModuleBackbone(network().append(nn.ReLU()), INPUT),  # type: ignore[operator]
    ]
    assert len({one.fingerprint for one in several}) == 4
    assert ModuleBackbone(network(), INPUT).fingerprint == several[0].fingerprint


def test_a_module_of_another_precision_on_vectors() -> None:
    linear = nn.Linear(3, 2).double()
    x = RNG.normal(size=(5, 3)).astype(np.float32)
    backbone = ModuleBackbone(linear)
    assert backbone.image_format is None
    assert backbone.features(x).dtype == np.float32
    np.testing.assert_allclose(backbone.features(x), linear(torch.tensor(x).double()).detach(), rtol=1e-6)


def test_copies_give_the_same_features() -> None:
    backbone = ModuleBackbone(network(), INPUT)
    for one in (copy.deepcopy(backbone), pickle.loads(pickle.dumps(backbone))):
        np.testing.assert_array_equal(one.features(BYTES), backbone.features(BYTES))
        assert one.fingerprint == backbone.fingerprint


def test_functions_are_known_by_their_names() -> None:
    def mean(x: Tensor) -> np.ndarray:
        return x.mean((2, 3)).numpy()

    assert FunctionBackbone(mean, INPUT).fingerprint is None
    named = [FunctionBackbone(mean, INPUT, name) for name in ("mean", "mean", "other")]
    assert named[0].fingerprint == named[1].fingerprint != named[2].fingerprint
    np.testing.assert_allclose(named[0].features(BYTES), BYTES.mean((1, 2)) / 255, rtol=1e-5)
    assert named[0].as_module() is None


def test_only_the_user_can_supply_these_again() -> None:
    assert ModuleBackbone(network(), INPUT).saved() is None
    assert FunctionBackbone(lambda x: x).saved() is None


@pytest.mark.parametrize("output", [lambda x: None, lambda x: x[:1], lambda x: x.mean(), lambda x: x[:, :0]])
def test_what_is_not_a_row_for_each_sample_is_refused(output: object) -> None:
    with pytest.raises(ConfigError, match="must return"):
        FunctionBackbone(output, INPUT).features(BYTES)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "values",
    [
        {"size": 0},
        {"size": 10**6},
        {"size": 6, "std": (0.0,)},
        {"size": 6, "mean": (1.0, 2.0)},
    ],
)
def test_inputs_are_checked(values: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="must"):
        ImageInput(**values)  # type: ignore[arg-type]


def test_vectors_are_their_own_features() -> None:
    x = RNG.normal(size=(5, 3)).astype(np.float32)
    np.testing.assert_array_equal(Vectors().features(x), x)
    assert load_backbone(Vectors().saved()) == Vectors()


def test_pixels_are_numbers_channel_by_channel() -> None:
    backbone = Pixels(6)
    np.testing.assert_allclose(backbone.features(BYTES), NUMBERS.flatten(1), rtol=1e-6)
    assert load_backbone(backbone.saved()) == backbone


@pytest.mark.parametrize(
    "description",
    [{}, {"kind": "evil"}, {"kind": ["onnx"]}, {"kind": "pixels"}, {"kind": "pixels", "size": 1e9, "mode": "L"}],
)
def test_damaged_descriptions_are_refused(description: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        load_backbone(SavedBackbone(description, {}))
