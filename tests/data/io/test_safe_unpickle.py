"""Plain data is extracted from pickles of every protocol, and nothing in them is ever executed."""

import io
import os
import pickle
import subprocess
import sys
from collections import OrderedDict
from contextlib import suppress
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


def doubled(times: int, opcode: bytes = b"\x86") -> bytes:
    """An object that holds the one before twice, and so on: few bytes, but its text is endless."""
    return b"\x80\x02(lp0\n" + b"".join(b"h%ch%c%bq%c" % (n, n, opcode, n + 1) for n in range(times)) + b"h%c" % times


def number(value: int) -> bytes:
    return pickle.dumps(value, 2)[2:-1]


LIMITED = """
import io, resource, sys
from eigen_reptile.data.io.safe_unpickle import safe_unpickle
resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
resource.setrlimit(resource.RLIMIT_DATA, (600 << 20, 600 << 20))
for line in sys.stdin:
    try:
        safe_unpickle(io.BytesIO(bytes.fromhex(line)))
        sys.exit(f"accepted {line}")
    except ValueError as error:
        assert len(str(error)) < 200, error
"""


@pytest.mark.timeout(60)
def test_small_file_cannot_take_much_memory_or_time() -> None:
    head = b"\x80\x02cnumpy.core.multiarray\n_reconstruct\n)R(K\x01"
    kind = b"cnumpy\ndtype\nX\x02\0\0\0u1\x85R"
    text = b"X\x40\x42\x0f\0" + b"a" * 1_000_000
    hostile = [
        doubled(60)[: -2] + b"h\x08h\x08R.",  # calling it names it
        doubled(9) + b"h\x09\x93.",  # and so does taking it for the name of a global
        b"\x80\x02(l" + b"q\x01(lh\x01a" * 100 + b".",  # containers within containers
        b"\x80\x02]q\x00h\x00a.",  # a list in itself
        b"\x80\x02]q\x00]q\x01h\x00ah\x00h\x01a.",  # or by a detour
        head + b"X\x01\0\0\0aJ\xff\xff\xff\x3f\x86" + kind + b"\x89C\x01atb.",  # text a billion times
        head + b"]J\xff\xff\xff\x3f\x86" + kind + b"\x89C\x01atb.",
        head + b"K\x01\x85" + kind + b"\x89J\xff\xff\xff\x7ftb.",  # an integer for the data
        b"\x80\x02\x8b\xff\xff\xff\x7f\x01.",  # an integer of two billion bytes
        b"\x80\x02\x8b\x00\x00\x01\x00" + b"\x7f" * 65536 + b"q\x00" + b"h\x00" * 1000 + b".",
        b"\x80\x02}(" + b"".join(number(n * (2**61 - 1)) + b"N" for n in range(2**10, 2**10 + 30_000)) + b"u.",
        b"".join(b"Np%d\n" % (n * (2**61 - 1)) for n in range(2**10, 2**10 + 30_000)) + b".",
        b"I" + b"1" * 1_000_000 + b"\n.",
        b"\x80\x02" + text + b"q\x00" + b"c_codecs\nencode\nh\x00X\x06\0\0\0latin1\x86R" * 100_000 + b".",
        b"\x80\x02" + b"(" * 1_000_001,
        b"\x80\x04\x8e\xff\xff\xff\xff\0\0\0\0.",
        b"\x80\x02c" + b"a" * 1000 + b"\nb\n.",
    ]  # fmt: skip
    lines = "\n".join(data.hex() for data in hostile)
    done = subprocess.run([sys.executable, "-c", LIMITED], input=lines, text=True, capture_output=True)
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_large_arrays_of_every_protocol_stay_within_the_budget(protocol: int) -> None:
    if protocol == 0:
        pytest.skip("text without a length is taken to be wide")
    array = np.random.default_rng(0).integers(0, 256, (20, 1 << 20), dtype=np.uint8)
    table = {"data": array, "again": array}
    assert same(safe_unpickle(io.BytesIO(pickle.dumps(table, protocol))), table)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of damaged escape sequences in protocol 0
def test_any_byte_may_be_wrong() -> None:
    """Whatever a damaged file contains, the answer is plain data or a ValueError."""
    rng = np.random.default_rng(0)
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        original = np.frombuffer(pickle.dumps(TABLE, protocol), dtype=np.uint8)
        for _ in range(20):
            damaged = original.copy()
            where = rng.integers(0, len(damaged), size=rng.integers(1, 4))
            damaged[where] = rng.integers(0, 256, size=len(where))
            with suppress(ValueError):
                safe_unpickle(io.BytesIO(damaged.tobytes()))


def test_message_about_a_long_argument_is_short() -> None:
    with pytest.raises(ValueError, match="no string quotes") as caught:
        safe_unpickle(io.BytesIO(b"S" + b"7" * 10_000 + b"\n."))
    assert len(str(caught.value)) <= 200
