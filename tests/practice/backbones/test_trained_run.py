"""Finished runs as backbones."""

import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import final

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import batch_norm, conv2d, max_pool2d, relu

from doubles import ImageDouble
from eigen_reptile.data import Banks, ImageBank
from eigen_reptile.errors import ConfigError
from eigen_reptile.methods import METHODS
from eigen_reptile.nn import Conv4, Mlp, Model
from eigen_reptile.practice.backbones import RunBackbone, SavedBackbone, find_backbone, load_backbone, read_trained_run
from eigen_reptile.runtime.progress import StartProgress, no_progress
from eigen_reptile.training.config import Experiment
from eigen_reptile.training.experiment import run
from eigen_reptile.training.saved_result import read_result
from patterns import SMALL

BYTES = np.random.default_rng(1).integers(0, 256, (5, 8, 8, 1), dtype=np.uint8)
NUMBERS = torch.tensor(BYTES).permute(0, 3, 1, 2) / 255


@final
@dataclass(frozen=True)
class Squares(ImageDouble):
    """Square grey images of noise."""

    def load(self, start_progress: StartProgress) -> Banks:
        rng = np.random.default_rng(0)
        names = [str(number) for number in range(4)]
        return Banks(
            *(ImageBank(rng.integers(0, 256, (40, 8, 8, 1), dtype=np.uint8), names, [10] * 4) for _ in range(3))
        )


def training_pixels() -> np.ndarray:
    bank = Squares().load(no_progress).train
    assert isinstance(bank, ImageBank)
    return bank.pixels


def experiment(method: str, model: Model) -> Experiment:
    task = replace(SMALL.task, queries=0 if "reptile" in method else 3)
    meta = replace(SMALL.meta, steps=2, lr=(0.1, 0.2))
    inner = replace(SMALL.inner, carry="fresh")
    exp = replace(SMALL, data=Squares(), model=model, task=task, inner=inner, meta=meta, compile="off")
    return replace(exp, method=METHODS[method])


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "eigen"
    run(experiment("eigen-reptile", Conv4(filters=4)), folder, device="cpu")
    return folder


def test_the_replica_is_the_first_that_validation_chose(trained: Path) -> None:
    found, result = read_trained_run(trained), read_result(trained / "result.json")
    assert result.choice is not None
    assert found.seed == 0
    assert found.theta.shape == (1, found.setup.network.d)
    assert found.image_input.image_format.shape == (8, 8, 1)


def test_features_are_those_before_the_last_layer_with_the_statistics_of_training_images(trained: Path) -> None:
    """Against the formula, layer by layer."""
    found = read_trained_run(trained)
    flat = found.setup.network.module
    pieces = found.theta[0].split(flat.sizes)
    tensors = {name: piece.view(shape) for (name, shape), piece in zip(flat.shapes.items(), pieces, strict=True)}
    x = torch.cat([torch.tensor(training_pixels()).permute(0, 3, 1, 2) / 255, NUMBERS])
    for block in range(4):
        x = conv2d(x, tensors[f"{block}.convolution.weight"], padding=1)
        variance, mean = torch.var_mean(x[:40].transpose(0, 1).flatten(1), dim=1)
        x = batch_norm(x, mean, variance, tensors[f"{block}.norm.weight"], tensors[f"{block}.norm.bias"], eps=1e-3)
        x = relu(max_pool2d(x, 2, ceil_mode=True))
    features = RunBackbone.of(found).features(BYTES)
    np.testing.assert_allclose(features, x[40:].flatten(1), atol=1e-5)


def test_a_sample_has_the_same_features_in_any_company(trained: Path) -> None:
    backbone = find_backbone(str(trained))
    np.testing.assert_allclose(backbone.features(BYTES)[2:3], backbone.features(BYTES[2:3]), atol=1e-6)


def test_a_saved_backbone_is_the_same(trained: Path) -> None:
    backbone = find_backbone(str(trained))
    saved = backbone.saved()
    assert saved is not None
    assert str(trained) not in str(saved.description)
    again = load_backbone(SavedBackbone(saved.description, copy.deepcopy(saved.tensors)))
    assert again.fingerprint == backbone.fingerprint == find_backbone(str(trained)).fingerprint
    np.testing.assert_array_equal(again.features(BYTES), backbone.features(BYTES))


def test_damaged_backbones_are_refused(trained: Path) -> None:
    saved = find_backbone(str(trained)).saved()
    assert saved is not None
    about, tensors = saved
    larger = about | {"model": about["model"] | {"filters": 10_000_000}}
    fewer = {name: tensor for name, tensor in tensors.items() if "0." not in name}
    for one in (
        SavedBackbone(larger, tensors),
        SavedBackbone(about, fewer),
        SavedBackbone(about | {"size": "8"}, tensors),
        SavedBackbone(about | {"model": {"kind": "Evil"}}, tensors),
        SavedBackbone({"kind": "run"}, tensors),
    ):
        with pytest.raises(ConfigError):
            load_backbone(one)


@pytest.mark.parametrize(
    ("method", "model", "features"),
    [
        ("prototypical", Conv4(filters=4, head=False, statistics="running"), 4),
        ("prototypical", Conv4(filters=4, statistics="running"), 3),
        ("meta-dropout", Conv4(filters=4, layers="noise"), 4),
        ("reptile", Mlp(hidden=(7, 6)), 6),
    ],
)
def test_other_networks(tmp_path: Path, method: str, model: Model, features: int) -> None:
    """A metric method compares the outputs of the whole network, so nothing is left out of it."""
    run(replace(experiment(method, model), seeds=(0,)), tmp_path / "run", device="cpu")
    found = read_trained_run(tmp_path / "run")
    backbone = RunBackbone.of(found)
    assert backbone.features(BYTES).shape == (5, features)
    if not found.setup.exp.method.requirements.inner_loop:
        network, theta = found.setup.network, found.theta[0, : found.setup.network.d]
        expected = network.output(theta, torch.tensor(BYTES).permute(0, 3, 1, 2))
        np.testing.assert_allclose(backbone.features(BYTES), expected, atol=1e-5)


@final
@dataclass(frozen=True)
class WithTorchNorm(Model):
    """A network with batch-norm of torch, which has no running statistics in a run."""

    @property
    def batched(self) -> bool:
        return False

    @property
    def compile_from(self) -> int | None:
        return None

    def build(self, shape: tuple[int, ...], outputs: int) -> nn.Module:
        norm = nn.BatchNorm2d(2, track_running_stats=False)
        return nn.Sequential(nn.Conv2d(shape[0], 2, 1), norm, nn.Flatten(), nn.Linear(2 * 64, outputs))


def test_a_network_of_the_user(tmp_path: Path) -> None:
    run(replace(experiment("reptile", WithTorchNorm()), seeds=(0,)), tmp_path / "run", device="cpu")
    backbone = find_backbone(str(tmp_path / "run"))
    assert backbone.features(BYTES).shape == (5, 128)
    np.testing.assert_allclose(backbone.features(BYTES)[:1], backbone.features(BYTES[:1]), atol=1e-6)
    saved = backbone.saved()
    assert saved is not None
    np.testing.assert_array_equal(load_backbone(saved).features(BYTES), backbone.features(BYTES))


def test_runs_without_images_are_refused(tmp_path: Path) -> None:
    old = Path(__file__).parents[2] / "training" / "old_run"
    with pytest.raises(ConfigError, match="no classes"):
        find_backbone(str(old))
    run(replace(SMALL, meta=replace(SMALL.meta, steps=1), compile="off"), tmp_path / "wide", device="cpu")
    with pytest.raises(ConfigError, match="no square images"):
        find_backbone(str(tmp_path / "wide"))


def test_what_is_no_backbone_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is not the folder of a run"):
        find_backbone(str(tmp_path))
    with pytest.raises(ConfigError, match="`backbone` must be efficientnet-lite0, an ONNX file"):
        find_backbone("resnet-50")
