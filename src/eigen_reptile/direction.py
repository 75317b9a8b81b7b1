"""The main direction of a trajectory: its first principal component in parameter space.

A trajectory W has one row per point and d columns, few rows and very many columns. Its main direction is the
eigenvector of the d x d scatter matrix with the largest eigenvalue (paper, eq. 3 to 6). It is computed from the rows
x rows Gram matrix, which has the same non-zero eigenvalues (paper, eq. 7); nothing of size d x d is ever formed.
"""

from collections.abc import Iterator
from typing import Literal, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import pad

Length = Literal["net", "path"]

CHUNK = 2**18
"""Columns processed at a time: small enough for the cache, large enough to be fast."""
DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
"""Types of the numbers in a trajectory."""
PIECES = 16
"""Parts of a chunk, contiguous in memory. Every operation assigns the first parts to the first core, and so on, so that
each core finds its data in its own cache; fetching it from another core's cache takes up to twice as long."""


class MainDirection(NamedTuple):
    """The main direction of each trajectory."""

    vector: Float[Tensor, "*batch d"]
    """Unit vector e of the main direction, in the dtype of W; zero if the points do not move."""
    explained_variance_ratio: Float[Tensor, "*batch"]
    """Fraction of the variance that lies along e: lambda_1 / sum of lambda (the paper's zeta), in float64."""
    length: Float[Tensor, "*batch"]
    """How far the points go along e (the paper's nu), in float64."""


@torch.no_grad()
def main_direction(W: Tensor, *, length: Length = "net", fix_sign: bool = True) -> MainDirection:
    """The main direction of each trajectory in W, of shape (rows, d) or (B, rows, d); a constant for autograd.

    `length` is "net" (the signed projections of the steps onto e, summed after the sign is fixed) or "path" (the sum of
    their absolute values). With `fix_sign`, e agrees with the trajectory: its product with V-bar, the mean of the last
    half of the rows minus the mean of the first half, is not negative.

    Raises ValueError for anything but a dense tensor of float16, bfloat16, float32 or float64, for fewer than two rows,
    no columns, an unknown `length`, and for NaN or infinity, naming the task and the row.
    """
    _check_request(W, length)
    result, finite = main_direction_or_nan(W, length=length, fix_sign=fix_sign)
    if not bool(finite.all()):
        raise ValueError(_describe_not_finite(W, finite))
    return result


def main_direction_or_nan(
    W: Float[Tensor, "*batch rows d"], *, length: Length, fix_sign: bool
) -> tuple[MainDirection, Tensor]:
    """`main_direction` without checks or control flow on values, so that it can be compiled and batched.

    For a trajectory with NaN or infinity the result is NaN, and its entry in the returned mask is False.
    """
    gram, scale = _centred_gram(W)
    weights, ratio, travelled = _first_component(gram, scale.to(gram.device), length, fix_sign)
    return MainDirection(_combine_rows(W, weights, scale), ratio, travelled), scale.isfinite()


def _first_component(gram: Tensor, scale: Tensor, length: Length, fix_sign: bool) -> tuple[Tensor, Tensor, Tensor]:
    """The weights of the rows in e, the explained variance ratio and the length, from the Gram matrix."""
    finite = scale.isfinite()
    gram = torch.where(finite[..., None, None], gram, 0.0)  # LAPACK raises on NaN
    eigenvalues, eigenvectors = torch.linalg.eigh(gram)  # ascending order
    v, largest = eigenvectors[..., -1], eigenvalues[..., -1]
    moves = largest > 0
    sign = torch.where(finite, moves.to(v), torch.nan)
    if fix_sign:
        half = gram.shape[-1] // 2
        sign = sign.copysign(v[..., -half:].sum(-1) - v[..., :half].sum(-1))

    # Row i of the centred W projects onto e as sqrt(lambda_1) v_i, so lengths need no further pass over W.
    root = torch.where(moves, largest, 1.0).sqrt()
    steps = v.diff(dim=-1) * (sign * root)[..., None]
    travelled = scale * (steps.sum(-1) if length == "net" else steps.abs().sum(-1))
    ratio = sign.abs() * (largest / torch.where(moves, eigenvalues.sum(-1), 1.0)).clamp(0.0, 1.0)
    return v * (sign / root)[..., None], ratio, travelled


def _chunks(W: Tensor) -> Iterator[Float[Tensor, "*batch pieces others columns"]]:
    """All rows but the first, relative to the first, a chunk of columns at a time; the last chunk is one piece.

    The differences are exact for points close to each other, however far from zero they are. Each chunk reuses the
    memory of the one before, because allocating memory takes longer than everything done with it; compiled code does
    so anyway.
    """
    dtype = torch.promote_types(W.dtype, torch.float32)
    others = W.shape[-2] - 1
    buffer = W.new_empty((*W.shape[:-2], others * min(CHUNK, W.shape[-1])), dtype=dtype)
    for columns in W.split(CHUNK, dim=-1):
        pieces = PIECES if columns.shape[-1] == CHUNK else 1
        rows = columns.to(dtype).unflatten(-1, (pieces, -1)).movedim(-2, -3)
        own = buffer[..., : others * columns.shape[-1]].unflatten(-1, (pieces, others, -1))
        yield torch.sub(rows[..., 1:, :], rows[..., :1, :], out=None if torch.compiler.is_compiling() else own)


def _centred_gram(W: Tensor) -> tuple[Float[Tensor, "*batch rows rows"], Float[Tensor, "*batch"]]:
    """Gram matrix of the centred rows of W, summed over pieces in float64, divided by the square of a scale.

    The scale, returned second, is the largest movement, which keeps squares in range. It is known only at the end, so
    each piece is first divided by its own largest movement.
    """
    # Apple's GPU has no float64: there the small matrix is summed up, and then solved, on the CPU.
    device = torch.device("cpu") if W.device.type == "mps" else W.device
    movements, products = [], []
    for chunk in _chunks(W):
        furthest = torch.maximum(chunk.amax((-2, -1)), -chunk.amin((-2, -1))).clamp(min=torch.finfo(chunk.dtype).tiny)
        chunk.div_(furthest[..., None, None])
        movements.append(furthest)
        products.append(chunk @ chunk.mT)
    furthest, product = torch.cat(movements, dim=-1), torch.cat(products, dim=-3)
    scale = furthest.amax(-1)
    parts = (furthest / scale[..., None]).to(device).double().square()[..., None, None] * product.to(device).double()
    gram = parts.sum(-3)
    gram = pad(gram, (1, 0, 1, 0))  # the first row, relative to itself, is zero
    # Centring the small matrix on both sides equals centring the rows of W, without touching W again.
    gram = gram - gram.mean(-1, keepdim=True)
    return gram - gram.mean(-2, keepdim=True), scale


def _combine_rows(W: Tensor, weights: Tensor, scale: Tensor) -> Float[Tensor, "*batch d"]:
    """Sum of the rows of W, over scale, with weights that add up to zero."""
    vector = W.new_empty((*W.shape[:-2], W.shape[-1]))
    for chunk, part in zip(_chunks(W), vector.split(CHUNK, dim=-1), strict=True):
        combined = weights.to(chunk)[..., None, None, 1:] @ chunk
        part.copy_(combined.flatten(-3) / scale[..., None])
    return vector


def _check_request(W: object, length: object) -> None:
    if length not in ("net", "path"):
        raise ValueError(f"length must be 'net' or 'path', not {length!r}")
    if not isinstance(W, Tensor):
        raise ValueError(f"W must be a torch.Tensor, not a {type(W).__name__}: convert it with torch.as_tensor")
    if W.is_nested or W.layout != torch.strided:
        raise ValueError(f"W must be a dense tensor, not {'nested' if W.is_nested else W.layout}")
    if W.dtype not in DTYPES:
        allowed = ", ".join(str(dtype).removeprefix("torch.") for dtype in DTYPES)
        raise ValueError(f"W must hold real floating-point numbers ({allowed}), not {W.dtype}")
    if W.is_meta:
        raise ValueError("W must hold values, but is on the meta device, which has none")
    if W.ndim < 2:
        raise ValueError(f"W must have shape (rows, d) or (B, rows, d), not {tuple(W.shape)}")
    if W.numel() == 0:
        raise ValueError(f"W is empty: its shape is {tuple(W.shape)}")
    if W.shape[-2] < 2:
        raise ValueError(f"a direction needs at least 2 rows in W, not {W.shape[-2]}")


def _describe_not_finite(W: Tensor, finite: Tensor) -> str:
    tasks = W.reshape(-1, *W.shape[-2:])
    task = int((~finite).reshape(-1).nonzero()[0])
    for row in range(tasks.shape[1]):
        bad = tasks[task, row][~tasks[task, row].isfinite()]
        if bad.numel():
            return f"task {task}, row {row} of W is not finite: it holds {bad[0].item()}"
    return f"task {task}: the rows of W lie further apart than {W.dtype} can hold"
