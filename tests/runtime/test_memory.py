"""A lack of memory becomes one line; other errors stay what they are."""

from pathlib import Path

import numpy as np
import pytest
import torch

from eigen_reptile.errors import RunError
from eigen_reptile.runtime.memory import available_memory, check_memory, out_of_memory_as_run_error


def test_arrays_and_tensors_that_fit_into_no_memory_are_reported_with_their_size() -> None:
    with (
        pytest.raises(RunError, match=r"^not enough memory for 1\.00 EiB: use a smaller"),
        out_of_memory_as_run_error(),
    ):
        np.empty(2**60, dtype=np.uint8)
    with (
        pytest.raises(RunError, match=r"^not enough memory for 1152921504606846976 bytes: use"),
        out_of_memory_as_run_error(),
    ):
        torch.empty(2**60, dtype=torch.uint8)


def test_a_size_that_overflows_is_reported() -> None:
    with pytest.raises(RunError, match=r"^not enough memory: use a smaller"), out_of_memory_as_run_error():
        torch.empty(2**31, 2**31, 9)


def test_other_errors_are_not_changed() -> None:
    with pytest.raises(RuntimeError, match="must match"), out_of_memory_as_run_error():
        torch.ones(2) + torch.ones(3)
    with pytest.raises(RuntimeError, match="overflow"), out_of_memory_as_run_error():
        torch.full((1,), 2**40, dtype=torch.int32)


def test_more_memory_than_there_is_is_refused_before_it_is_allocated() -> None:
    there = available_memory()
    assert there is not None
    check_memory(there, "this", "use less")
    with pytest.raises(RunError, match=r"^not enough memory for this: it needs [\d,.]+ GiB of [\d,.]+ GiB; use less$"):
        check_memory(there + 1, "this", "use less")


def test_limits_of_the_process_and_of_its_container_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limit = tmp_path / "memory.max"
    monkeypatch.setattr("eigen_reptile.runtime.memory.CONTAINER_LIMITS", (str(limit),))
    before = available_memory()
    limit.write_text("max\n")
    assert available_memory() == before
    limit.write_text("1048576\n")
    assert available_memory() == 1 << 20
    monkeypatch.setattr("resource.getrlimit", lambda which: (4096, 8192))
    assert available_memory() == 4096
