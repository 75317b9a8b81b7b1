"""ONNX files as backbones: damaged ones, and networks whose parts contradict each other."""

import random
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from eigen_reptile.errors import ConfigError, RunError
from eigen_reptile.practice.backbones.onnx_file import OnnxBackbone
from siege.mutate import NUMBERS, mutated
from siege.readers.refusal import outcome_of

IS_INSTALLED = all(find_spec(name) is not None for name in ("onnx", "onnxruntime"))
IMAGES = np.random.default_rng(0).integers(0, 256, (2, 4, 4, 3), dtype=np.uint8)
OPERATIONS = (
    "Relu", "Add", "MatMul", "Reshape", "Concat", "Cast", "Gather", "Identity", "Softmax", "Transpose", "Squeeze", "If",
    "NoSuchOperation", "",
)  # fmt: skip
NAMES = ("x", "weights", "flat", "y", "", "none", "x" * 3000, "../../x")
LENGTHS = (0, 1, 2, 3, 4, -1, 65_536, 2**31, 2**62)


def damaged(rng: random.Random, folder: Path) -> str:
    return _read(folder, mutated(rng, _network().SerializeToString()))


def generated(rng: random.Random, folder: Path) -> str:
    """A network in which some names, shapes, types and operations are odd."""
    import onnx

    model = onnx.ModelProto()
    model.CopyFrom(_network())
    for _ in range(rng.randint(1, 3)):
        _change(rng, model)
    return _read(folder, model.SerializeToString())


def prepare() -> None:
    """Load what is needed, or each child process would do so."""
    OnnxBackbone(_network().SerializeToString()).features(IMAGES)


@cache
def _network() -> Any:
    """Images (N, 3, 4, 4), flattened and multiplied by a matrix."""
    from onnx import TensorProto, helper

    weights = helper.make_tensor("weights", TensorProto.FLOAT, [48, 5], [0.1] * 240)
    nodes = [
        helper.make_node("Flatten", ["x"], ["flat"], axis=1),
        helper.make_node("MatMul", ["flat", "weights"], ["product"]),
        helper.make_node("Relu", ["product"], ["y"]),
    ]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, 4, 4])]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 5])]
    graph = helper.make_graph(nodes, "network", inputs, outputs, [weights])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _change(rng: random.Random, model: Any) -> None:
    graph, node = model.graph, rng.choice(model.graph.node)
    match rng.randrange(10):
        case 0:
            node.op_type = rng.choice(OPERATIONS)
        case 1:
            _set_one(rng, rng.choice((node.input, node.output)), NAMES)
        case 2:
            node.domain = rng.choice(("com.microsoft", "x", "ai.onnx.ml"))
        case 3:
            _set_one(rng, graph.initializer[0].dims, LENGTHS)
        case 4:
            graph.initializer[0].data_type = rng.randrange(25)
        case 5:
            value = rng.choice((graph.input[0], graph.output[0])).type.tensor_type
            value.elem_type = rng.randrange(25)
        case 6:
            length = rng.choice(graph.input[0].type.tensor_type.shape.dim)
            length.dim_value = rng.choice(LENGTHS)
        case 7:
            graph.node.extend([node])
        case 8:
            _point_elsewhere(rng, graph.initializer[0])
        case 9:
            model.ir_version, model.opset_import[0].version = (rng.choice(NUMBERS) % 2**31 for _ in range(2))


def _set_one(rng: random.Random, values: Any, odd: Sequence[Any]) -> None:
    if len(values):
        values[rng.randrange(len(values))] = rng.choice(odd)


def _point_elsewhere(rng: random.Random, tensor: Any) -> None:
    """Weights that are said to be in another file."""
    tensor.data_location = rng.choice((0, 1))
    entry = tensor.external_data.add()
    entry.key, entry.value = "location", rng.choice(("/etc/passwd", "../x", "x"))


def _read(folder: Path, data: bytes) -> str:
    (folder / "x.onnx").write_bytes(data)
    read = outcome_of(lambda: OnnxBackbone.from_file(folder / "x.onnx"), ConfigError, RunError)
    if read == "refused":
        return read
    backbone = OnnxBackbone.from_file(folder / "x.onnx")
    if backbone.image_format is None:
        samples: Any = np.ones((2, 48), np.float32)
    else:
        size, mode = backbone.image_format.size, backbone.image_format.mode
        samples = np.zeros((2, min(size, 64), min(size, 64), len(mode)), np.uint8)
    used = outcome_of(lambda: backbone.features(samples), ConfigError, RunError)
    return read if used == "read" else "read, cannot be run"
