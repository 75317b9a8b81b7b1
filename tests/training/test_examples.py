"""Stored example tasks are shown only if they are what a run stores."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from eigen_reptile.errors import RunError
from eigen_reptile.runtime.files import write_tensors
from eigen_reptile.training.experiment import EXAMPLES, read_examples, run
from patterns import SMALL

TASK = {
    "support": torch.zeros(5, 3, 8, 8, dtype=torch.uint8),
    "query": torch.zeros(15, 3, 8, 8, dtype=torch.uint8),
    "query_y": torch.arange(15) // 3,
    "predicted": torch.zeros(15, dtype=torch.int64),
}


@pytest.mark.parametrize("task", [TASK, TASK | {"classes": torch.arange(5)}])
def test_example_task_is_read(tmp_path: Path, task: dict[str, torch.Tensor]) -> None:
    assert read_examples(tmp_path) is None
    write_tensors(tmp_path / EXAMPLES, task)
    found = read_examples(tmp_path)
    assert found is not None
    assert {name: array.shape for name, array in found.items()} == {name: part.shape for name, part in task.items()}


@pytest.mark.parametrize(
    "change",
    [
        *[
            {name: TASK[name].to(kind)}
            for name in ("support", "query_y", "predicted")
            for kind in (torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2, torch.float16, torch.bool)
        ],
        {"support": torch.zeros(5, 2, 8, 8, dtype=torch.uint8)},
        {"support": torch.zeros((), dtype=torch.uint8)},
        {"support": torch.zeros(0, 3, 8, 8, dtype=torch.uint8)},
        {"query": torch.zeros(14, 3, 8, 8, dtype=torch.uint8)},
        {"query": torch.zeros(15, 3, 9, 8, dtype=torch.uint8)},
        {"query_y": torch.zeros(3, 5, dtype=torch.int64)},
        {"query_y": torch.full((15,), 5)},
        {"query_y": torch.full((15,), -1)},
        {"classes": torch.zeros(4, dtype=torch.int64)},
        {"classes": torch.full((5,), -1)},
        {"classes": torch.zeros(5, dtype=torch.bfloat16)},
        {"predicted": torch.zeros(14, dtype=torch.int64)},
        {"more": torch.zeros(1)},
    ],
)
def test_other_tensors_are_refused(tmp_path: Path, change: dict[str, torch.Tensor]) -> None:
    write_tensors(tmp_path / EXAMPLES, TASK | change)
    with pytest.raises(RunError, match=r"example\.safetensors is damaged: .*; delete it"):
        read_examples(tmp_path)


def test_missing_tensor_is_refused(tmp_path: Path) -> None:
    write_tensors(tmp_path / EXAMPLES, {name: part for name, part in TASK.items() if name != "query_y"})
    with pytest.raises(RunError, match=r"example\.safetensors is damaged"):
        read_examples(tmp_path)


def test_the_result_vouches_for_the_example_of_its_run(tmp_path: Path) -> None:
    run(replace(SMALL, meta=replace(SMALL.meta, steps=1)), tmp_path / "run")
    file = tmp_path / "run" / EXAMPLES
    assert read_examples(file.parent) is not None
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    with pytest.raises(RunError, match=r"example\.safetensors is damaged: its checksum is wrong"):
        read_examples(file.parent)
