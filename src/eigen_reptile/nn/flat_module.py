"""Any `nn.Module` as a pure function of one flat vector of parameters."""

import copy
import threading
from collections.abc import Callable, Iterable
from typing import NamedTuple, final

import torch
from jaxtyping import Bool, Float, Shaped
from torch import Tensor, nn
from torch.func import functional_call, replace_all_batch_norm_modules_

from eigen_reptile.nn.module_checks import copy_of_module, refuse_randomness
from eigen_reptile.nn.running_norm import RUNNING_STATISTICS, RunningNorm
from eigen_reptile.runtime.rng import generator_at

CPU = torch.device("cpu")
NORMALISATION = nn.modules.batchnorm._NormBase | nn.LayerNorm | nn.GroupNorm | nn.RMSNorm | RunningNorm


@final
class FlatModule:
    """An `nn.Module` as a pure function of theta, its parameters in one flat vector.

    The module is only a template: its own parameter values are never used. Torch's batch-norm layers always use the
    statistics of the batch; `RunningNorm` uses running ones outside of training. ConfigError if the module cannot be a
    pure function of its parameters: if some are frozen, lazy or not real numbers, or if a layer is random. A
    module whose `forward` draws random numbers is refused at its first call.
    """

    def __init__(self, build: Callable[[], nn.Module], device: torch.device = CPU) -> None:
        self._build = build
        with torch.random.fork_rng(devices=[]):  # without touching the global generator
            template = replace_all_batch_norm_modules_(copy_of_module(build))
        modules = dict(template.named_modules())
        self.shapes = {name: parameter.shape for name, parameter in template.named_parameters()}
        """The parameters, in theta's order."""
        self.sizes = [shape.numel() for shape in self.shapes.values()]
        self.d = sum(self.sizes)
        """Number of parameters."""
        layers = {name: modules[name.rpartition(".")[0]] for name in self.shapes}
        self.norms = frozenset(name for name, layer in layers.items() if isinstance(layer, NORMALISATION))
        """Names of the parameters of normalisation layers."""
        self.running = frozenset(
            name
            for name, layer in layers.items()
            if isinstance(layer, RunningNorm) and name.rpartition(".")[2] in RUNNING_STATISTICS
        )
        """Those of them that are running statistics."""
        self.has_buffers = any(True for _ in template.buffers())
        self._has_ties = len(self.shapes) < len(list(template.named_parameters(remove_duplicate=False)))
        self._template = template.to(device)
        self._copies = threading.local()
        self._watched = False
        self._masks: dict[tuple[frozenset[str], torch.device], Tensor] = {}

    @property
    def head(self) -> frozenset[str]:
        """Names of the parameters of the last layer."""
        last = next(reversed(self.shapes)).rpartition(".")[0]
        return frozenset(name for name in self.shapes if name.rpartition(".")[0] == last)

    def within(self, layers: Iterable[str]) -> frozenset[str]:
        """Names of the parameters of all layers with one of these names."""
        wanted = set(layers)
        return frozenset(name for name in self.shapes if wanted & set(name.split(".")))

    def mask(self, names: frozenset[str], device: torch.device) -> Bool[Tensor, "d"]:
        """Which entries of theta belong to these parameters. Made once for each set of names."""
        key = (names, device)
        if key not in self._masks:
            pieces = [torch.full((size,), name in names) for name, size in zip(self.shapes, self.sizes, strict=True)]
            self._masks[key] = torch.cat(pieces).to(device)
        return self._masks[key]

    def init(self, seed: int) -> Float[Tensor, "d"]:
        """Fresh parameters: the module's own initialisation under this seed, without touching the global generator."""
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(int(generator_at(seed, "init").integers(2**63)))
            return flatten(self._build().parameters())

    def features(self, shape: tuple[int, ...]) -> int:
        """Number of outputs for one input of this shape."""
        theta = flatten(self._template.parameters())
        with torch.no_grad():  # two samples, because batch-norm refuses one
            return self(theta, theta.new_zeros(2, *shape)).shape[1:].numel()

    def __call__(
        self,
        theta: Float[Tensor, "d"],
        x: Shaped[Tensor, "b *shape"],
        arguments: tuple[object, ...] = (),
        training: bool = False,
        shared: bool = False,
    ) -> Shaped[Tensor, "b *out"]:
        """Outputs for b samples, differentiable and batchable in theta and x.

        `arguments` are passed to the module's `forward` after x. A functional call replaces the parameters of the
        module while it runs, so each thread has a copy of the module unless `shared` says that one is enough.
        """
        pieces = zip(self.shapes.items(), theta.split(self.sizes), strict=True)
        tensors = {name: piece.view(shape) for (name, shape), piece in pieces}
        module = self._template if shared else self.module_at(theta.detach(), training).module
        if self.has_buffers:
            # Copies, so that a module that changes its buffers gives the same answer when it is asked again.
            tensors |= {name: buffer.clone() for name, buffer in module.named_buffers()}
        output: Tensor = functional_call(module, tensors, (x, *arguments), tie_weights=self._has_ties)
        return output

    def module_at(self, theta: Float[Tensor, "d"], training: bool = False) -> "ModuleView":
        """This thread's copy of the module, with these parameters: several times faster than a functional call.

        The next call in the same thread reuses the copy.
        """
        view: ModuleView | None = getattr(self._copies, "view", None)
        if view is None or (view.flat.dtype, view.flat.device) != (theta.dtype, theta.device):
            view = self._copies.view = ModuleView.of(copy.deepcopy(self._template).to(theta), theta, self.sizes)
            if not self._watched:
                refuse_randomness(view.module, theta.device)
                self._watched = True
        if self.running:
            view.module.train(training)
        view.flat.copy_(theta)
        return view


class ModuleView(NamedTuple):
    """A module whose parameters are views of one flat vector, and their gradients views of another."""

    module: nn.Module
    parameters: list[nn.Parameter]
    flat: Float[Tensor, "d"]
    gradient: Float[Tensor, "d"]

    @staticmethod
    def of(module: nn.Module, like: Float[Tensor, "d"], sizes: list[int]) -> "ModuleView":
        view = ModuleView(module, list(module.parameters()), torch.empty_like(like), torch.empty_like(like))
        views = (flat.split(sizes) for flat in (view.flat, view.gradient))
        for parameter, value, gradient in zip(view.parameters, *views, strict=True):
            parameter.data, parameter.grad = value.view(parameter.shape), gradient.view(parameter.shape)
        return view


def flatten(parameters: Iterable[nn.Parameter]) -> Float[Tensor, "d"]:
    return torch.cat([parameter.detach().reshape(-1) for parameter in parameters])
