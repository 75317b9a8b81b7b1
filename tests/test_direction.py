"""`main_direction` against dense decompositions, on random and on degenerate trajectories."""

import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch import Tensor

from eigen_reptile import main_direction
from eigen_reptile.direction import CHUNK, Length


def trajectories(seed: int, tasks: int, rows: int, d: int, dtype: torch.dtype = torch.float64) -> Tensor:
    """Random walks with a drift, like the trajectories of inner loops."""
    rng = np.random.default_rng(seed)
    steps = rng.normal(size=(tasks, rows, d)) + 0.5 * rng.normal(size=(tasks, 1, d))
    return torch.from_numpy(steps.cumsum(1)).to(dtype)


def dense_answer(W: np.ndarray, length: Length) -> tuple[np.ndarray, float, float]:
    """Unit vector, explained variance ratio and length by the paper's formulas, from the d x d scatter matrix."""
    rows = len(W)
    X = W - W.mean(0)
    eigenvalues, eigenvectors = np.linalg.eigh(X.T @ X)
    e = eigenvectors[:, -1]
    half = rows // 2
    v_bar = sum(W[rows - 1 - i] - W[i] for i in range(half)) / half
    if e @ v_bar < 0:
        e = -e
    projections = [(W[i + 1] - W[i]) @ e for i in range(rows - 1)]
    travelled = sum(projections) if length == "net" else sum(abs(p) for p in projections)
    return e, eigenvalues[-1] / eigenvalues.sum(), travelled


@given(
    seed=st.integers(0, 10_000),
    rows=st.integers(2, 12),
    d=st.integers(1, 40),
    scale=st.sampled_from([1e-20, 1e-6, 1.0, 1e6, 1e20]),
    length=st.sampled_from(["net", "path"]),
)
@settings(max_examples=150, deadline=None)
def test_agrees_with_the_d_by_d_eigendecomposition(seed: int, rows: int, d: int, scale: float, length: Length) -> None:
    W = scale * trajectories(seed, 1, rows, d)
    vector, ratio, travelled = (part[0] for part in main_direction(W, length=length))
    e, dense_ratio, dense_length = dense_answer(W[0].numpy() / scale, length)
    X = W[0].numpy() / scale - W[0].numpy().mean(0) / scale
    spectrum = np.linalg.svd(X, compute_uv=False) ** 2
    assert ratio.item() == pytest.approx(dense_ratio, abs=1e-10)
    assert torch.linalg.vector_norm(vector).item() == pytest.approx(1.0, abs=1e-10)
    assert np.linalg.norm(X @ vector.numpy()) ** 2 == pytest.approx(spectrum[0], rel=1e-9)
    if len(spectrum) == 1 or spectrum[1] < 0.9 * spectrum[0]:  # otherwise the direction is ill-conditioned
        assert vector.numpy() == pytest.approx(e, abs=1e-6)
        assert travelled.item() / scale == pytest.approx(dense_length, rel=1e-6, abs=1e-9 * spectrum[0] ** 0.5)


@pytest.mark.parametrize("tasks", [1, 6])
@pytest.mark.parametrize("rows", [2, 5, 8])
@pytest.mark.parametrize("scale", [1e-20, 1.0, 1e20])
def test_float32_agrees_with_numpys_svd(tasks: int, rows: int, scale: float) -> None:
    W = (scale * trajectories(1, tasks, rows, 3 * CHUNK // 2)).float()
    vector, ratio, _ = main_direction(W)
    assert vector.dtype == torch.float32
    for task in range(0, tasks, 5):
        X = W[task].double().numpy() / scale
        X = X - X.mean(0)
        _, singular, right = np.linalg.svd(X, full_matrices=False)
        assert ratio[task].item() == pytest.approx(singular[0] ** 2 / (singular**2).sum(), abs=1e-5)
        assert abs(vector[task].double().numpy() @ right[0]) == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("rows", [2, 3, 6, 9])
def test_points_on_a_line(dtype: torch.dtype, rows: int) -> None:
    line = torch.randn(500, generator=torch.Generator().manual_seed(0), dtype=dtype)
    at = torch.arange(rows, dtype=dtype)[:, None] ** 2
    vector, ratio, travelled = main_direction(7.0 + at * line)
    assert ratio.item() == pytest.approx(1.0, abs=1e-6)
    assert travelled.item() == pytest.approx(at.max().item() * line.norm().item(), rel=1e-5)
    torch.testing.assert_close(vector, line / line.norm(), atol=1e-5, rtol=1e-5)


def test_equal_eigenvalues_give_a_unit_vector_of_the_largest() -> None:
    corners = torch.tensor([[0.0, 0.0, 5.0], [1.0, 0.0, 5.0], [1.0, 1.0, 5.0], [0.0, 1.0, 5.0]], dtype=torch.float64)
    vector, ratio, _ = main_direction(corners)
    assert ratio.item() == pytest.approx(0.5)
    assert vector.norm().item() == pytest.approx(1.0)
    assert ((corners - corners.mean(0)) @ vector).square().sum().item() == pytest.approx(1.0)


def test_path_length_counts_the_way_back_and_net_length_does_not() -> None:
    there_and_half_back = torch.tensor([[0.0], [4.0], [2.0]], dtype=torch.float64)
    assert main_direction(there_and_half_back, length="net").length.item() == pytest.approx(2.0)
    assert main_direction(there_and_half_back, length="path").length.item() == pytest.approx(6.0)


def test_the_sign_follows_the_means_of_the_halves_not_the_ends() -> None:
    # The second half's mean is 3 higher, but the last point is below the first: the net length is negative.
    W = torch.tensor([[1.0], [0.0], [7.0], [0.0]], dtype=torch.float64)
    vector, _, travelled = main_direction(W)
    assert vector.item() == pytest.approx(1.0)
    assert travelled.item() == pytest.approx(-1.0)


def test_without_the_sign_fix_the_vector_differs_at_most_in_sign() -> None:
    W = trajectories(3, 20, 6, 30)
    fixed, raw = main_direction(W), main_direction(W, fix_sign=False)
    torch.testing.assert_close((fixed.vector * raw.vector).sum(-1).abs(), torch.ones(20, dtype=torch.float64))
    # Length times vector does not depend on the sign.
    torch.testing.assert_close(fixed.length[:, None] * fixed.vector, raw.length[:, None] * raw.vector)


@given(seed=st.integers(0, 1000), rows=st.integers(2, 9), d=st.integers(2, 25))
@settings(max_examples=50, deadline=None)
def test_shifting_rotating_and_reordering_the_trajectories(seed: int, rows: int, d: int) -> None:
    W = trajectories(seed, 3, rows, d)
    rng = np.random.default_rng(seed)
    rotation = torch.from_numpy(np.linalg.qr(rng.normal(size=(d, d)))[0])
    base = main_direction(W)
    shifted = main_direction(W + 100 * torch.from_numpy(rng.normal(size=(3, 1, d))))
    rotated = main_direction(W @ rotation)
    swapped = main_direction(W.flip(0))
    torch.testing.assert_close(swapped.vector.flip(0), base.vector)
    torch.testing.assert_close(shifted.explained_variance_ratio, base.explained_variance_ratio)
    torch.testing.assert_close(rotated.explained_variance_ratio, base.explained_variance_ratio)
    gap = torch.linalg.svdvals(W - W.mean(1, keepdim=True))
    if bool((gap[:, 1] < 0.9 * gap[:, 0]).all()):
        torch.testing.assert_close(shifted.vector, base.vector, atol=1e-8, rtol=1e-6)
        torch.testing.assert_close(rotated.vector, base.vector @ rotation, atol=1e-8, rtol=1e-6)
        torch.testing.assert_close(rotated.length, base.length, atol=1e-8, rtol=1e-6)


def test_a_float32_trajectory_far_from_zero_loses_no_precision() -> None:
    near = torch.from_numpy(np.random.default_rng(0).integers(-8, 8, (6, 400))).float()  # exact after the shift
    torch.testing.assert_close(main_direction(near + 2.0**19).vector, main_direction(near).vector, atol=1e-6, rtol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_points_that_do_not_move_give_a_zero_vector(dtype: torch.dtype) -> None:
    W = torch.full((2, 4, 10), 3.3, dtype=dtype)
    W[1, 2, 5] = 4.0
    vector, ratio, travelled = main_direction(W)
    assert not vector[0].any()
    assert ratio[0].item() == travelled[0].item() == 0.0
    assert vector[1].norm().item() == pytest.approx(1.0)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
def test_values_that_are_not_finite_are_located_in_the_message(bad: float) -> None:
    W = trajectories(0, 5, 4, 2 * CHUNK, torch.float32)
    W[3, 2, CHUNK + 7] = bad
    with pytest.raises(ValueError, match=rf"task 3, row 2 .*{bad}"):
        main_direction(W)
    with pytest.raises(ValueError, match="task 0, row 2"):
        main_direction(W[3])


@pytest.mark.parametrize(
    ("W", "words"),
    [
        (torch.zeros(1, 10), "at least 2 rows"),
        (torch.zeros(3, 1, 10), "at least 2 rows"),
        (torch.zeros(0, 10), "empty"),
        (torch.zeros(4, 0), "empty"),
        (torch.zeros(0, 4, 10), "empty"),
        (torch.zeros(10), "shape"),
        (torch.zeros(4, 10, dtype=torch.int64), "floating"),
        (torch.zeros(4, 10, dtype=torch.complex64), "floating"),
    ],
)
def test_invalid_trajectories_are_rejected(W: Tensor, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        main_direction(W)


REFUSED = {
    "np.eye(3)": "W must be a torch.Tensor, not a ndarray",
    "[[0.0, 1.0], [1.0, 0.0]]": "W must be a torch.Tensor, not a list",
    "None": "W must be a torch.Tensor, not a NoneType",
    "torch.eye(3).to(torch.float8_e4m3fn)": "float16, bfloat16, float32, float64), not torch.float8_e4m3fn",
    "torch.eye(3).to(torch.float8_e5m2)": "float16, bfloat16, float32, float64), not torch.float8_e5m2",
    "torch.eye(3).bool()": "not torch.bool",
    "torch.quantize_per_tensor(torch.eye(3), 0.1, 0, torch.quint8)": "not torch.quint8",
    "torch.eye(3, device='meta')": "meta device",
    "torch.eye(3).to_sparse()": "dense tensor, not torch.sparse_coo",
    "torch.eye(3).to_sparse_csr()": "dense tensor, not torch.sparse_csr",
    "torch.nested.nested_tensor([torch.eye(3), torch.ones(2, 3)])": "dense tensor, not nested",
    "torch.nested.nested_tensor([torch.eye(3)], layout=torch.jagged)": "dense tensor, not nested",
    "torch.eye(3), length='long'": "length must be 'net' or 'path', not 'long'",
    "torch.eye(3), length=None": "length must be 'net' or 'path', not None",
}


def test_what_is_not_a_dense_tensor_of_real_numbers_is_rejected() -> None:
    # In a separate process, because the type checks of the tests would reject most of it first.
    code = """
import sys, warnings, numpy as np, torch
from eigen_reptile import main_direction
warnings.simplefilter("ignore")
for arguments in sys.argv[1:]:
    try:
        print(eval(f"main_direction({arguments})"))
    except ValueError as error:
        print(f"ValueError: {error}")
"""
    answer = subprocess.run([sys.executable, "-c", code, *REFUSED], capture_output=True, text=True, check=True)
    for message, words in zip(answer.stdout.splitlines(), REFUSED.values(), strict=True):
        assert message.startswith("ValueError: ")
        assert words in message


def test_peak_memory_is_below_one_and_a_half_times_the_trajectory() -> None:
    # Eight rows of 10 million numbers; the peak of the process minus its peak before.
    code = """
import resource, torch
from eigen_reptile import main_direction
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
main_direction(torch.rand(8, 100_000))
before = peak()
W = torch.empty(8, 10_000_000)
for row in W:
    row.uniform_()
main_direction(W)
print((peak() - before) / (W.numel() * W.element_size()))
"""
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert float(answer.stdout) < 1.5


def test_the_direction_is_a_constant_for_autograd() -> None:
    W = trajectories(3, 1, 5, 40)
    expected = main_direction(W)
    found = main_direction(W.requires_grad_())
    assert not any(part.requires_grad for part in found)
    assert torch.equal(found.vector, expected.vector)
