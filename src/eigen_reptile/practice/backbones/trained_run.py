"""What a run of this library has learnt, as a backbone: its network without the last layer.

A network that was trained with the statistics of each batch would give an image other features in other company. So its
batch-norm layers get fixed statistics: those of images that it was trained on.
"""

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, final

import numpy as np
import torch
from jaxtyping import Float, UInt8
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from eigen_reptile.data import Bank, require_finite
from eigen_reptile.data.io.images import ImageFormat
from eigen_reptile.errors import ConfigError
from eigen_reptile.inner import InnerState
from eigen_reptile.nn import Conv4, Model
from eigen_reptile.nn.running_norm import RunningNorm
from eigen_reptile.practice.backbones.backbone import SavedBackbone, TorchBackbone
from eigen_reptile.practice.backbones.image_input import BytesToNumbers, ImageInput
from eigen_reptile.practice.backbones.module import fingerprint_of
from eigen_reptile.runtime.checksums import digest
from eigen_reptile.runtime.progress import StartProgress, no_progress
from eigen_reptile.runtime.rng import generator_at
from eigen_reptile.runtime.strict_json import strict_converter, structured
from eigen_reptile.training.serialise import model_from_json, model_to_json
from eigen_reptile.training.setup import Setup, set_up
from eigen_reptile.training.trained import last_checkpoint, trained_experiment, trained_result, trained_state

MODES: dict[int, Literal["L", "RGB"]] = {1: "L", 3: "RGB"}
REFERENCE = 128
"""Training images whose statistics are used."""


class TrainedRun(NamedTuple):
    """One replica of a finished run: the first with the step size that validation chose."""

    setup: Setup
    """With the run's data and its network for tasks like those of training, on the CPU."""
    theta: Float[Tensor, "1 D"]
    inner_state: InnerState
    seed: int

    @property
    def image_input(self) -> ImageInput:
        """The images that the run was trained on."""
        channels, size, _ = self.setup.banks.train.shape
        return ImageInput(size, MODES[channels])


def read_trained_run(folder: Path, start_progress: StartProgress = no_progress) -> TrainedRun:
    """What the run in this folder has learnt; ConfigError if it is not finished, has diverged, or has no images.

    Its data set must still be there.
    """
    exp, checkpoint, result = trained_experiment(folder), last_checkpoint(folder), trained_result(folder)
    if result is None or result.choice is None:
        raise ConfigError(f"the run in {folder} is not finished: repeat its command first")
    if not exp.data.is_classification:
        raise ConfigError(f"the run in {folder} has learnt no classes, so it is no backbone")
    setup = set_up(exp, start_progress, "cpu", trains=False)
    shape = setup.banks.train.shape
    if len(shape) != 3 or shape[0] not in MODES or shape[1] != shape[2]:
        raise ConfigError(f"the run in {folder} was trained on inputs of shape {shape}, which are no square images")
    state = trained_state(folder, exp, checkpoint, setup)
    kept = state.best if exp.meta.keep == "best" else state
    lr = result.choice.lr
    chosen = next(number for number, replica in enumerate(exp.replicas) if replica.lr == lr)
    inner_state = InnerState(*(part[chosen : chosen + 1] for part in kept.inner_state))
    return TrainedRun(setup, kept.theta[chosen : chosen + 1], inner_state, exp.replicas[chosen].seed)


class Architecture(NamedTuple):
    """What is needed to build the network of a run without its last layer."""

    model: Model
    image_input: ImageInput
    outputs: int
    """Number of outputs of the last layer."""
    has_head: bool
    """Whether the last layer is a classifier, which is left out."""

    def build(self) -> nn.Module:
        """The network in evaluation mode, in which its statistics do not depend on the batch."""
        shape = (len(self.image_input.mode), self.image_input.size, self.image_input.size)
        model = replace(self.model, statistics="running") if isinstance(self.model, Conv4) else self.model
        with torch.random.fork_rng(devices=[]):
            module = model.build(shape, self.outputs).float()
        for layer in module.modules():
            if isinstance(layer, _BatchNorm):
                layer.track_running_stats, layer.num_batches_tracked = True, torch.tensor(0)
                layer.running_mean, layer.running_var = torch.zeros(layer.num_features), torch.ones(layer.num_features)
        if self.has_head:
            last = next(reversed(dict(module.named_parameters()))).rpartition(".")[0]
            module.set_submodule(last, nn.Flatten())  # the identity on vectors, which can take the place of any layer
        return module.requires_grad_(False).eval()


@final
class RunBackbone(TorchBackbone):
    """The network of a finished run of this library before its last layer. A model file contains it."""

    def __init__(self, architecture: Architecture, network: nn.Module) -> None:
        self._architecture, self._network = architecture, network
        self._module = nn.Sequential(BytesToNumbers(architecture.image_input), network, nn.Flatten())
        self._fingerprint = digest(["run", repr(architecture.image_input), fingerprint_of(network)])

    @staticmethod
    def of(run: TrainedRun) -> "RunBackbone":
        exp, flat = run.setup.exp, run.setup.network.module
        has_head = exp.method.requirements.inner_loop  # a metric method compares the outputs of the whole network
        architecture = Architecture(exp.model, run.image_input, exp.task.way, has_head)
        network = architecture.build()
        pieces = zip(flat.shapes.items(), run.theta[0, : flat.d].float().split(flat.sizes), strict=True)
        found = {name: piece.view(shape) for (name, shape), piece in pieces}
        network.load_state_dict({name: found.get(name, value) for name, value in network.state_dict().items()})
        if not flat.running:
            images = BytesToNumbers(run.image_input)(_training_images(run.setup.banks.train))
            _fix_statistics(network, images)
        return RunBackbone(architecture, network)

    @staticmethod
    def from_saved(saved: SavedBackbone) -> "RunBackbone":
        about = structured(_CONVERTER, saved.description, _Description)
        image_input = ImageInput(about.size, about.mode, (about.mean,))
        architecture = Architecture(model_from_json(about.model), image_input, about.outputs, about.has_head)
        with torch.device("meta"):  # to allocate nothing but what is there
            expected = {name: value.shape for name, value in architecture.build().state_dict().items()}
        if expected != {name: value.shape for name, value in saved.tensors.items()}:
            raise ValueError("its weights do not fit its model")
        network = architecture.build()
        network.load_state_dict(saved.tensors)
        return RunBackbone(architecture, network)

    def saved(self) -> SavedBackbone:
        model, image_input, outputs, has_head = self._architecture
        size, mode, (mean, *_) = image_input.size, image_input.mode, image_input.mean
        description = _Description("run", model_to_json(model), size, mode, outputs, has_head, mean)
        return SavedBackbone(asdict(description), self._network.state_dict())

    @property
    def fingerprint(self) -> str:
        return self._fingerprint

    @property
    def image_format(self) -> ImageFormat:
        return self._architecture.image_input.image_format

    def as_module(self) -> nn.Module:
        return self._module


@final
@dataclass(frozen=True)
class _Description:
    """The JSON of a saved backbone."""

    kind: str
    model: dict[str, Any]
    size: int
    mode: Literal["L", "RGB"]
    outputs: int
    has_head: bool
    mean: float = 0.0
    """What is subtracted from every pixel: 1 for a network of dark ink on white paper, which is 0 for it."""


def _training_images(bank: Bank) -> UInt8[Tensor, "N C H W"]:
    """Some images of all classes, the same whenever they are asked for."""
    finite = require_finite(bank)
    rows = np.linspace(0, finite.size - 1, min(REFERENCE, finite.size)).astype(np.int64)
    return torch.from_numpy(finite.take(rows[None, None], [generator_at(0, "tasks")]).x[0, 0].copy())


def _fix_statistics(network: nn.Module, images: Float[Tensor, "N C H W"]) -> None:
    """Let every batch-norm layer keep the statistics that its inputs have for these images."""

    def fix(layer: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        variance, mean = torch.var_mean(inputs[0].transpose(0, 1).flatten(1), dim=1)
        if isinstance(layer, RunningNorm):
            layer.mean.data, layer.variance.data = mean, variance
        elif isinstance(layer, _BatchNorm):
            layer.running_mean, layer.running_var = mean, variance

    norms = [layer for layer in network.modules() if isinstance(layer, RunningNorm | _BatchNorm)]
    hooks = [layer.register_forward_pre_hook(fix) for layer in norms]
    with torch.no_grad():
        network(images)
    for hook in hooks:
        hook.remove()


@final
@dataclass(frozen=True)
class Pixels(TorchBackbone):
    """The images themselves, for a head that adapts a whole network: numbers from 0 to 1, channel by channel."""

    size: int
    """Height and width."""
    mode: Literal["L", "RGB"] = "RGB"
    """Greyscale or colours."""

    def __post_init__(self) -> None:
        self._input  # noqa: B018  # which checks the fields

    @property
    def _input(self) -> ImageInput:
        return ImageInput(self.size, self.mode)

    @property
    def fingerprint(self) -> str:
        return digest(["pixels", self.size, self.mode])

    @property
    def image_format(self) -> ImageFormat:
        return self._input.image_format

    def saved(self) -> SavedBackbone:
        return SavedBackbone({"kind": "pixels", "size": self.size, "mode": self.mode}, {})

    def as_module(self) -> nn.Module:
        return nn.Sequential(BytesToNumbers(self._input), nn.Flatten())


_CONVERTER = strict_converter()
