"""Columns of the tables in pickles, each checked item by item; a ValueError says what is wrong with one.

Items may be anything that a pickle can contain, so they are neither printed nor converted before they are checked.
"""

from typing import Any

import numpy as np
from jaxtyping import Int64, UInt8

MAX_NAME = 200
"""Limit for the length of a name."""


def column(table: Any, name: str) -> Any:
    """A column by its name, which is bytes if it was written by Python 2."""
    if not isinstance(table, dict):
        raise ValueError(f"it contains a {type(table).__name__}, not a table")
    for key in (name, name.encode()):
        if key in table:
            return table[key]
    raise ValueError(f"it has no {name!r}")


def to_integers(values: Any) -> Int64[np.ndarray, "N"]:
    """A list of integers, or an array of them."""
    if isinstance(values, np.ndarray) and values.ndim == 1 and values.dtype.kind in "iu":
        return values.astype(np.int64)
    if not isinstance(values, list | tuple) or not all(type(value) is int for value in values):
        raise ValueError(f"{_describe(values)} is not a list of integers")
    try:
        return np.array(values, dtype=np.int64)
    except OverflowError as error:
        raise ValueError("it contains an integer that is no number of a class or an image") from error


def to_name(value: Any) -> str:
    """A name, which is bytes if it was written by Python 2."""
    try:
        name = value.decode() if isinstance(value, bytes) and len(value) <= 4 * MAX_NAME else value
    except UnicodeDecodeError as error:
        raise ValueError("it contains a name that is not UTF-8") from error
    if not isinstance(name, str) or len(name) > MAX_NAME:
        raise ValueError(f"{_describe(name)} is not a name of at most {MAX_NAME} characters")
    return name


def to_names(values: Any) -> list[str]:
    if not isinstance(values, list | tuple):
        raise ValueError(f"{_describe(values)} is not a list of names")
    return [to_name(value) for value in values]


def to_rows(values: Any, shape: tuple[int, ...]) -> UInt8[np.ndarray, "N ..."]:
    """An array whose rows are bytes of this shape."""
    if not isinstance(values, np.ndarray) or values.dtype != np.uint8 or values.shape[1:] != shape or not values.ndim:
        size = "x".join(map(str, shape))
        raise ValueError(f"it does not contain a row of {size} bytes for each image")
    return values


def _describe(value: Any) -> str:
    return f"a {type(value).__name__} in it"
