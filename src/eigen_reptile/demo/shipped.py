"""The initialisations that come with the package: what small networks have learnt about glyphs and sine waves.

`ship.py` makes the files, and measures how accurate they are.
"""

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple, final

import safetensors
import safetensors.torch
import torch
from jaxtyping import Float
from torch import Tensor

from eigen_reptile.demo.protocol import SIDE
from eigen_reptile.inner import InnerState
from eigen_reptile.nn import CrossEntropy, FlatModule, Network, SquaredError
from eigen_reptile.practice.backbones.backbone import SavedBackbone
from eigen_reptile.practice.backbones.trained_run import RunBackbone
from eigen_reptile.training.config import Experiment
from eigen_reptile.training.evaluate import Initialisation
from eigen_reptile.training.serialise import from_json

FOLDER = files(__package__) / "initialisations"
DRAWING_SHAPE = (1, SIDE, SIDE)
ABOUT = "about"
"""The key of the metadata under which a file describes itself in JSON."""


@final
@dataclass(frozen=True, eq=False)
class Start:
    """A network and the initialisation from which it is adapted."""

    exp: Experiment
    network: Network
    initialisation: Initialisation


class Shipped(NamedTuple):
    """The content of a file."""

    about: Any
    tensors: dict[str, Tensor]


@cache
def read_shipped(name: str) -> Shipped:
    data = FOLDER.joinpath(f"{name}.safetensors").read_bytes()
    length = int.from_bytes(data[:8], "little")
    about = json.loads(json.loads(data[8 : 8 + length])["__metadata__"][ABOUT])
    return Shipped(about, safetensors.torch.load(data))


@cache
def start_of_drawing(name: str, way: int) -> Start:
    """An initialisation for this number of classes, which all begin alike.

    Each begins with the mean of what the last layer has learnt for its outputs, so that neither the number of classes
    nor their order matters.
    """
    about, tensors = read_shipped(f"glyphs-{name}")
    exp = from_json(about)
    trained, network = (_network(exp, DRAWING_SHAPE, outputs) for outputs in (exp.task.way, way))
    theta, square = (_with_equal_outputs(trained.module, network.module, tensors[part]) for part in ("theta", "square"))
    return Start(exp, network, Initialisation(theta, InnerState(square, tensors["steps"]), exp.inner, exp.method))


@cache
def start_of_sine(name: str) -> Start:
    about, tensors = read_shipped(f"sine-{name}")
    exp = from_json(about)
    state = InnerState(tensors["square"], tensors["steps"])
    return Start(exp, _network(exp, (1,), 1), Initialisation(tensors["theta"], state, exp.inner, exp.method))


@cache
def embedding() -> RunBackbone:
    """The prototypical network, which takes dark ink on white paper."""
    about, tensors = read_shipped("glyphs-prototypical")
    return RunBackbone.from_saved(SavedBackbone(about, tensors))


def _network(exp: Experiment, shape: tuple[int, ...], outputs: int) -> Network:
    module = FlatModule(lambda: exp.model.build(shape, outputs))
    return Network(module, CrossEntropy() if exp.data.is_classification else SquaredError(), exp.model.batched)


def _with_equal_outputs(trained: FlatModule, new: FlatModule, values: Float[Tensor, "1 d"]) -> Float[Tensor, "1 e"]:
    """The values of all parameters; those of an output of the last layer are the mean over the trained ones."""
    parts = []
    for name, value in zip(trained.shapes, values.split(trained.sizes, dim=-1), strict=True):
        if name in trained.head:
            mean = value.view(trained.shapes[name]).mean(0, keepdim=True)
            value = mean.expand(new.shapes[name]).reshape(1, -1)
        parts.append(value)
    return torch.cat(parts, dim=-1)
