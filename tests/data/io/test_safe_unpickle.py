"""Plain data is extracted from pickles of every protocol, and nothing in them is ever executed."""

import io
import os
import pickle
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eigen_reptile.data.io import safe_unpickle as module
from eigen_reptile.data.io.safe_unpickle import safe_unpickle

ARRAY = np.random.default_rng(0).integers(0, 256, (4, 3, 2), dtype=np.uint8)
TABLE = {
    "data": ARRAY,
    "fortran order": np.asfortranarray(ARRAY),
    "numbers": np.arange(-3, 4),
    "labels": [1, 2, 300, 70_000, -1, 2**40],
    "names": ["a", "é"],
    b"bytes": b"\x00\xff",
    "more": {"none": None, "yes": True, "no": False, "tuple": (1, (2, 3), (), (4,) * 4), "float": 0.5},
    "twice": [[1], [1]],
}


def same(ours: Any, theirs: Any) -> bool:
    if isinstance(theirs, np.ndarray):
        return ours.dtype == theirs.dtype and np.array_equal(ours, theirs)
    if isinstance(theirs, dict):
        return list(ours) == list(theirs) and all(same(ours[key], theirs[key]) for key in theirs)
    return bool(ours == theirs and type(ours) is type(theirs))


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_plain_data_of_every_protocol_is_read(protocol: int) -> None:
    assert same(safe_unpickle(io.BytesIO(pickle.dumps(TABLE, protocol))), TABLE)


def test_plain_data_written_by_python_2_is_read() -> None:
    """Like the official CIFAR files: strings are bytes to Python 3, and arrays are stored as byte strings."""
    data = (
        b"\x80\x02}q\x01(U\x04dataq\x02cnumpy.core.multiarray\n_reconstruct\nq\x03cnumpy\nndarray\nq\x04K\x00\x85U\x01b\x87Rq\x05"
        b"(K\x01K\x02K\x03\x86cnumpy\ndtype\nq\x06U\x02u1K\x00K\x01\x87Rq\x07(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xff"
        b"K\x00tb\x89U\x06\x00\x01\x02\xfd\xfe\xfftbU\x0bfine_labelsq\x08]q\x09(K\x13K\x1deu."
    )
    expected = {"data": np.array([[0, 1, 2], [253, 254, 255]], dtype=np.uint8), "fine_labels": [19, 29]}
    assert same(safe_unpickle(io.BytesIO(data)), expected)


def test_ordered_dict_is_read_as_a_dict() -> None:
    assert safe_unpickle(io.BytesIO(pickle.dumps(OrderedDict(a=1), 2))) == {"a": 1}


class Evil:
    def __init__(self, call: Any, *arguments: Any) -> None:
        self.reduced = call, arguments

    def __reduce__(self) -> Any:
        return self.reduced


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_nothing_is_executed(tmp_path: Path, protocol: int) -> None:
    for call, argument in ((os.system, f"mkdir {tmp_path}/evil"), (os.mkdir, f"{tmp_path}/evil")):
        data = pickle.dumps({"data": ARRAY, "fine_labels": Evil(call, argument)}, protocol)
        with pytest.raises(ValueError, match="more than plain data"):
            safe_unpickle(io.BytesIO(data))
        assert not list(tmp_path.iterdir())
        pickle.loads(data)
        (tmp_path / "evil").rmdir()  # a real unpickler would have executed it


@pytest.mark.parametrize(
    "value",
    [
        np.array([{}], dtype=object),
        np.zeros(2, dtype=[("a", "u1")]),
        np.dtype("O"),
        Path("x"),
        {(1, 2): 3},
        {1, 2},
        1j,
    ],
)
def test_anything_but_plain_data_is_rejected(value: Any) -> None:
    with pytest.raises(ValueError, match=r"more than plain data|keys are not strings"):
        safe_unpickle(io.BytesIO(pickle.dumps(value)))


def array_claiming(shape: tuple[int, ...]) -> bytes:
    """A pickled array of seven bytes whose header claims another shape."""
    return pickle.dumps(np.zeros(7, np.uint8), 2).replace(b"K\x07\x85", pickle.dumps(shape, 2)[2:-1])


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b".",
        b"hello",
        array_claiming((2**40,)),
        array_claiming((-1,)),
        array_claiming((8,)),
        b"\x80\x04\x8e\xff\xff\xff\xff\xff\xff\xff\x00.",  # a string longer than memory
        b"\x80\x02r\xff\xff\xff\xff.",  # index four billion of the memo
        b"\x80\x02e.",
        b"\x80\x02K\x01K\x02a.",
        b"\x80\x02h\x07.",
        pickle.dumps(TABLE)[:-1],
    ],
)
def test_damaged_file_is_rejected(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        safe_unpickle(io.BytesIO(data))


def test_too_many_opcodes_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_OPCODES", 1000)
    with pytest.raises(ValueError, match="more than 1000 opcodes"):
        safe_unpickle(io.BytesIO(b"\x80\x02" + b"]" * 2000 + b"."))
