"""A lack of memory becomes one line; other errors stay what they are."""

import numpy as np
import pytest
import torch

from eigen_reptile.errors import RunError
from eigen_reptile.runtime.memory import out_of_memory_as_run_error


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
