"""ONNX: the same answers without PyTorch and without this package, at any batch size."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from blobs import blobs
from eigen_reptile import FewShotClassifier
from eigen_reptile.errors import ConfigError, RunError
from eigen_reptile.practice import onnx_export
from eigen_reptile.practice.backbones import FunctionBackbone, ImageInput, ModuleBackbone
from eigen_reptile.practice.onnx_export import export_onnx

onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")

ALONE = """
import json, sys
import numpy, onnxruntime
session = onnxruntime.InferenceSession(sys.argv[1])
about = session.get_modelmeta().custom_metadata_map
outputs = session.run(None, {"samples": numpy.load(sys.argv[2])})
names = [json.loads(about["classes"])[row.argmax()] for row in outputs[0]]
if "reject" in about:
    unknown = outputs[1] <= float(about["reject"])
    names = [about["unknown"] if one else name for one, name in zip(unknown, names)]
assert "torch" not in sys.modules and "eigen_reptile" not in sys.modules
print(json.dumps(names))
"""
"""What a user without this package would write."""


def answers_elsewhere(model: Path, samples: np.ndarray) -> list[str]:
    np.save(model.with_suffix(".npy"), samples)
    command = [sys.executable, "-I", "-c", ALONE, str(model), str(model.with_suffix(".npy"))]
    found = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert found.returncode == 0, found.stderr
    names: list[str] = json.loads(found.stdout)
    return names


def test_vectors_get_the_same_answers_elsewhere(tmp_path: Path) -> None:
    data = blobs(wrong=1)
    new = np.concatenate([data.x, blobs(seed=5).x])
    classifier = FewShotClassifier(reject=0.1).fit(data.x, data.y)
    exported = export_onnx(classifier, tmp_path / "m.onnx", new)
    assert exported.difference < 1e-5
    assert [file.name for file in tmp_path.iterdir()] == ["m.onnx"]
    expected = classifier.predict(new).tolist()
    assert len(set(expected)) > 2
    assert "unknown" in expected
    assert answers_elsewhere(tmp_path / "m.onnx", new) == expected


def test_pictures_get_the_same_answers_elsewhere(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    torch.manual_seed(0)
    network = nn.Sequential(nn.Conv2d(3, 8, 3, 2), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten())
    backbone = ModuleBackbone(network, ImageInput(12, mean=(0.5,), std=(0.25,)))
    pixels = rng.integers(0, 256, (20, 12, 12, 3), dtype=np.uint8)
    classifier = FewShotClassifier(backbone).fit(pixels, np.array(["dog", "cat"])[np.arange(20) % 2])
    export_onnx(classifier, tmp_path / "m.onnx", pixels)
    assert answers_elsewhere(tmp_path / "m.onnx", pixels[:7]) == classifier.predict(pixels[:7]).tolist()
    about = onnxruntime.InferenceSession(tmp_path / "m.onnx").get_modelmeta().custom_metadata_map
    assert about["size"] == "12"
    assert "bicubic" in about["resize"]


def test_a_file_that_differs_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = blobs()
    classifier = FewShotClassifier().fit(data.x, data.y)
    monkeypatch.setattr(onnx_export, "_written", lambda *_: b"")
    monkeypatch.setattr(onnx_export, "_largest_difference", lambda *_: 2e-4)
    with pytest.raises(RunError, match="is not written"):
        export_onnx(classifier, tmp_path / "m.onnx")
    assert not list(tmp_path.iterdir())


def test_what_cannot_be_exported_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = blobs()
    function = FewShotClassifier(FunctionBackbone(lambda x: x)).fit(data.x, data.y)
    with pytest.raises(ConfigError, match="FunctionBackbone is not a PyTorch module"):
        export_onnx(function, tmp_path / "m.onnx")
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    with pytest.raises(ConfigError, match=r"pip install 'eigen-reptile\[onnx\]'"):
        export_onnx(FewShotClassifier().fit(data.x, data.y), tmp_path / "m.onnx")
