"""Run folders for tests: what is saved in them, and how it is damaged."""

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from eigen_reptile.runtime.checkpoints import Clock
from eigen_reptile.runtime.run_folder import RunFolder

CLOCK = Clock(1.5, 2.25)
CONFIG = {"meta": {"steps": 30, "lr": [1.0]}, "seeds": [0]}


def state(step: int) -> dict[str, Tensor]:
    """Values and memory layouts that a careless format would change."""
    return {
        "awkward": torch.tensor([step, -0.0, float("nan"), float("-inf"), 1e-45, 0.1]),
        "transposed": torch.arange(6.0, dtype=torch.float64).reshape(2, 3).T + step / 3,
        "count": torch.tensor([step, -1, 2**62]),
        "scalar": torch.tensor(step / 7),
    }


def bits(tensors: dict[str, Tensor]) -> dict[str, tuple[torch.dtype, torch.Size, bytes]]:
    return {name: (tensor.dtype, tensor.shape, tensor.numpy().tobytes()) for name, tensor in tensors.items()}


def loads_bit_for_bit(run: RunFolder, step: int) -> bool:
    loaded = run.load_checkpoint()
    return loaded is not None and loaded.step == step and bits(loaded.tensors) == bits(state(step))


def checkpoint_file(run: RunFolder, step: int, suffix: str) -> Path:
    return run.path / "checkpoints" / f"step-{step:09d}{suffix}"


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-3])


def flip_a_bit(file: Path) -> None:
    data = file.read_bytes()
    file.write_bytes(data[:-3] + bytes([data[-3] ^ 1]) + data[-2:])


def edited(file: Path, **changes: Any) -> None:
    """Change entries, and leave everything else as it is."""
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


def contents(folder: Path) -> dict[Path, bytes]:
    return {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}
