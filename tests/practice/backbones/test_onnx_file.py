"""ONNX files as backbones: against PyTorch, and files that are not what they seem."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from onnx import TensorProto, helper, numpy_helper

from eigen_reptile.errors import ConfigError, RunError
from eigen_reptile.practice.backbones import load_backbone
from eigen_reptile.practice.backbones.onnx_file import OnnxBackbone

FLOAT, UINT8 = TensorProto.FLOAT, TensorProto.UINT8
RNG = np.random.default_rng(0)
BYTES = RNG.integers(0, 256, (5, 6, 6, 3), dtype=np.uint8)


def model_of(nodes: Sequence[Any], shape: Sequence[Any], kind: int = FLOAT, weights: Sequence[Any] = ()) -> bytes:
    """A file with one input x of this shape and one output y."""
    inputs = [helper.make_tensor_value_info("x", kind, shape)]
    outputs = [helper.make_tensor_value_info("y", FLOAT, None)]
    graph = helper.make_graph(list(nodes), "test", inputs, outputs, list(weights))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    data: bytes = model.SerializeToString()
    return data


def means(axes: Sequence[int]) -> list[Any]:
    return [helper.make_node("ReduceMean", ["x"], ["y"], axes=list(axes), keepdims=0)]


def test_images_with_channels_first() -> None:
    backbone = OnnxBackbone(model_of(means([2, 3]), ["n", 3, 6, 6]), mean=(0.5, 0.4, 0.3), std=(0.1, 0.2, 0.4))
    expected = (BYTES / 255 - [0.5, 0.4, 0.3]) / [0.1, 0.2, 0.4]
    np.testing.assert_allclose(backbone.features(BYTES), expected.mean((1, 2)), rtol=1e-5, atol=1e-6)
    assert backbone.image_format is not None
    assert backbone.image_format.shape == (6, 6, 3)


def test_images_with_channels_last() -> None:
    backbone = OnnxBackbone(model_of(means([1, 2]), ["n", "h", "w", 3]), size=6)
    np.testing.assert_allclose(backbone.features(BYTES), BYTES.mean((1, 2)) / 255, rtol=1e-5)


def test_images_of_bytes_that_the_network_converts_itself() -> None:
    nodes = [
        helper.make_node("Cast", ["x"], ["floats"], to=FLOAT),
        helper.make_node("ReduceMean", ["floats"], ["y"], axes=[2, 3], keepdims=1),
    ]
    backbone = OnnxBackbone(model_of(nodes, ["n", 1, 6, 6], UINT8))
    np.testing.assert_allclose(backbone.features(BYTES[..., :1]), BYTES[..., :1].mean((1, 2)), rtol=1e-6)


def test_one_sample_at_a_time_if_the_file_says_so() -> None:
    backbone = OnnxBackbone(model_of(means([2, 3]), [1, 3, 6, 6]))
    np.testing.assert_allclose(backbone.features(BYTES), BYTES.mean((1, 2)) / 255, rtol=1e-5)


def test_vectors() -> None:
    weight = RNG.normal(size=(4, 2)).astype(np.float32)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    backbone = OnnxBackbone(model_of(nodes, ["n", 4], weights=[numpy_helper.from_array(weight, "w")]))
    x = RNG.normal(size=(3, 4)).astype(np.float32)
    assert backbone.image_format is None
    np.testing.assert_allclose(backbone.features(x), x @ weight, rtol=1e-5)


def test_sizes_are_those_of_the_file_or_the_users() -> None:
    fixed, free = model_of(means([2, 3]), ["n", 3, 6, 6]), model_of(means([2, 3]), ["n", 3, "h", "w"])
    sizes = [OnnxBackbone(free).image_format, OnnxBackbone(free, 32).image_format, OnnxBackbone(fixed).image_format]
    assert [one.size for one in sizes if one is not None] == [224, 32, 6]
    with pytest.raises(ConfigError, match="`size` must be 6"):
        OnnxBackbone(fixed, 8)


def test_a_saved_backbone_is_the_same() -> None:
    backbone = OnnxBackbone(model_of(means([2, 3]), ["n", 3, "h", "w"]), 6, (0.5,), (0.25,))
    again = load_backbone(backbone.saved())
    assert again == backbone
    assert again.fingerprint == backbone.fingerprint
    assert backbone.as_module() is None


def test_fingerprints_tell_files_and_settings_apart() -> None:
    data = model_of(means([2, 3]), ["n", 3, "h", "w"])
    other = model_of(means([3, 2]), ["n", 3, "h", "w"])
    several = [OnnxBackbone(data), OnnxBackbone(data, 8), OnnxBackbone(data, mean=(0.1,)), OnnxBackbone(other)]
    assert len({one.fingerprint for one in several}) == 4


@pytest.mark.parametrize(
    ("shape", "kind", "problem"),
    [
        (["n", 5, 6, 7], FLOAT, "one or three channels"),
        (["n", 3, 6, 8], FLOAT, "square"),
        ([4, 3, 6, 6], FLOAT, "exactly 4 samples"),
        (["n", 3, 6, 6], TensorProto.INT64, "tensor"),
        (["n"], FLOAT, "images of one or three channels"),
    ],
)
def test_other_inputs_are_refused(shape: list[Any], kind: int, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        OnnxBackbone(model_of([helper.make_node("Identity", ["x"], ["y"])], shape, kind))


def test_an_output_that_is_not_a_row_for_each_sample_is_refused() -> None:
    with pytest.raises(ConfigError, match="a row for each of 5 samples"):
        OnnxBackbone(model_of(means([0, 1]), ["n", 3, 6, 6])).features(BYTES)


@pytest.mark.parametrize("content", [b"", b"hello", b"\x08" * 1000, b"PK\x03\x04" + bytes(100)])
def test_foreign_files_are_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "network.onnx"
    file.write_bytes(content)
    with pytest.raises(ConfigError, match=r"network\.onnx: it is not an ONNX file"):
        OnnxBackbone.from_file(file)


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="No such file"):
        OnnxBackbone.from_file(tmp_path / "none.onnx")


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_damaged_files_are_refused_or_give_features(data: st.DataObject) -> None:
    weight = numpy_helper.from_array(np.ones((3, 2), dtype=np.float32), "w")
    nodes = [helper.make_node("ReduceMean", ["x"], ["m"], axes=[2, 3], keepdims=0)]
    nodes += [helper.make_node("MatMul", ["m", "w"], ["y"])]
    content = bytearray(model_of(nodes, ["n", 3, 6, 6], weights=[weight]))
    if data.draw(st.booleans()):
        content = content[: data.draw(st.integers(0, len(content) - 1))]
    else:
        content[data.draw(st.integers(0, len(content) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    with suppress(ConfigError, RunError):
        backbone = OnnxBackbone(bytes(content))
        if backbone.image_format is not None and backbone.image_format.size < 1000:
            backbone.features(np.zeros((2, *backbone.image_format.shape), dtype=np.uint8))


def elsewhere(name: str, location: str) -> Any:
    tensor = numpy_helper.from_array(np.ones((3, 2), dtype=np.float32), name)
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=location)
    return tensor


def test_weights_in_other_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where onnxruntime would find them."""
    monkeypatch.chdir(tmp_path)
    Path("secret").write_bytes(np.ones((3, 2), dtype=np.float32).tobytes())
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    inside = [helper.make_node("Constant", [], ["w"], value=elsewhere("w", "secret")), *nodes]
    for data in (
        model_of(nodes, ["n", 3], weights=[elsewhere("w", "secret")]),
        model_of(nodes, ["n", 3], weights=[elsewhere("w", "../secret")]),
        model_of(inside, ["n", 3]),
    ):
        with pytest.raises(ConfigError, match="in other files"):
            OnnxBackbone(data)


def test_unknown_operations_are_refused() -> None:
    nodes = [helper.make_node("Steal", ["x"], ["y"], domain="evil.example")]
    with pytest.raises(ConfigError, match="can be used"):
        OnnxBackbone(model_of(nodes, ["n", 3, 6, 6]))


def test_a_deeply_nested_file_is_refused() -> None:
    """A graph in an attribute of a node of a graph, and so on, which cannot be made by onnx itself."""

    def within(field: int, content: bytes) -> bytes:
        length, size = b"", len(content)
        while size >= 128:
            length, size = length + bytes([size % 128 + 128]), size // 128
        return bytes([field * 8 + 2]) + length + bytes([size]) + content

    graph = b""
    for _ in range(1000):
        graph = within(1, within(5, within(6, graph)))
    with pytest.raises(ConfigError, match="not an ONNX file"):
        OnnxBackbone(within(7, graph))
