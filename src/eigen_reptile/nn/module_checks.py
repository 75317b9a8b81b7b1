"""Which modules can be a pure function of their parameters; the others are refused with the reason."""

import copy
import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from eigen_reptile.errors import ConfigError

DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
"""Types of parameters."""


def copy_of_module(build: Callable[[], nn.Module]) -> nn.Module:
    """A copy of the module that `build` returns, because that one may be used elsewhere.

    ConfigError if it cannot be a pure function of its parameters; randomness in `forward` shows only when it is called.
    """
    module: Any = None if isinstance(build, nn.Module) else build()
    if not isinstance(module, nn.Module):
        raise ConfigError("a function that returns a module is needed, such as `lambda: module`")
    _check_parameters(module)
    for name, layer in module.named_modules():
        _check_layer(f"layer {name}" if name else "the module", layer)
    _check_forward(module)
    try:
        return copy.deepcopy(module)
    except (RuntimeError, TypeError) as error:
        raise ConfigError(
            f"the module cannot be copied: {error}. Weights that hooks compute, as in `torch.nn.utils.weight_norm` or "
            "`prune`, must be made by `torch.nn.utils.parametrize` instead"
        ) from error


def refuse_randomness(module: nn.Module, device: torch.device) -> None:
    """Watch the module until its first good call: ConfigError if it draws random numbers, or returns no tensor."""
    states: list[Tensor] = []

    def before(module: nn.Module, inputs: Any) -> None:
        states[:] = _random_states(device)

    def after(module: nn.Module, inputs: Any, output: Any) -> None:
        if not isinstance(output, Tensor):
            raise ConfigError(f"the module must return one tensor, not a {type(output).__name__}")
        if not all(map(torch.equal, states, _random_states(device))):
            raise ConfigError(
                "the module draws random numbers in its `forward`, for example by dropout, which a pure function must "
                "not do: switch that off"
            )
        for hook in hooks:
            hook.remove()

    hooks = [module.register_forward_pre_hook(before), module.register_forward_hook(after)]


def _check_parameters(module: nn.Module) -> None:
    parameters = dict(module.named_parameters())
    for name, parameter in parameters.items():
        if is_lazy(parameter):
            raise ConfigError(f"parameter {name} is lazy and has no shape yet: give the layer its number of inputs")
        if parameter.dtype not in DTYPES:
            allowed = ", ".join(str(dtype).removeprefix("torch.") for dtype in DTYPES)
            raise ConfigError(f"parameter {name} must have one of the types {allowed}, not {parameter.dtype}")
        if parameter.is_meta or parameter.layout != torch.strided or parameter.is_nested:
            kind = "a meta tensor" if parameter.is_meta else "sparse or nested"
            raise ConfigError(f"parameter {name} must be a dense tensor with values, but is {kind}")
        if not parameter.requires_grad:
            raise ConfigError(
                f"parameter {name} is frozen, but all parameters are learnt: set `requires_grad`, or make it a buffer"
            )
    if not sum(parameter.numel() for parameter in parameters.values()):
        raise ConfigError("the module has no parameters, so there is nothing to learn")
    if len(dtypes := sorted({str(parameter.dtype) for parameter in parameters.values()})) > 1:
        raise ConfigError(f"all parameters must have the same type, not {' and '.join(dtypes)}")


def _check_layer(name: str, layer: nn.Module) -> None:
    if isinstance(layer, torch.jit.ScriptModule):
        raise ConfigError(f"{name} is compiled to TorchScript: pass the module before `torch.jit`")
    if any(is_lazy(buffer) for buffer in layer.buffers(recurse=False) if buffer is not None):
        raise ConfigError(f"{name} is lazy: give it its number of inputs")
    if _is_random(layer):
        raise ConfigError(f"{name} draws random numbers, which a pure function must not do: switch that off")
    for attribute, value in vars(layer).items():
        if isinstance(value, Tensor) and value.requires_grad and value.is_leaf:
            raise ConfigError(f"{attribute} of {name} would not be learnt: make it an `nn.Parameter`")


def _is_random(layer: nn.Module) -> bool:
    if isinstance(layer, nn.modules.dropout._DropoutNd):
        return layer.p > 0
    if isinstance(layer, nn.MultiheadAttention | nn.RNNBase):
        return layer.dropout > 0
    return isinstance(layer, nn.RReLU) and layer.lower < layer.upper


def _check_forward(module: nn.Module) -> None:
    try:
        inspect.signature(module.forward).bind(None)
    except TypeError as error:
        raise ConfigError(f"the module's `forward` must take the inputs as its only argument: {error}") from error


def _random_states(device: torch.device) -> list[Tensor]:
    """The states of the global generators that a module on this device can draw from."""
    states = [torch.get_rng_state()]
    if device.type in ("cuda", "mps"):
        states.append(torch.get_device_module(device).get_rng_state())
    return states
