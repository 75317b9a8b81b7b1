"""Pickles: programs of random opcodes, real files that were damaged, and arrays with impossible parts."""

import io
import pickle
import pickletools
import random
import struct
from pathlib import Path

import numpy as np

from eigen_reptile.data.datasets.cifar import index_official_arrays
from eigen_reptile.data.datasets.mini_imagenet import index_arrays
from eigen_reptile.data.io.archives import FolderSource, UnreadableFileError
from eigen_reptile.data.io.safe_unpickle import safe_unpickle
from eigen_reptile.errors import DataError
from siege.mutate import NUMBERS, mutated
from siege.readers.refusal import outcome_of

GLOBALS = (
    b"c_codecs\nencode\n", b"ccollections\nOrderedDict\n", b"cnumpy\ndtype\n", b"cnumpy\nndarray\n",
    b"cnumpy.core.multiarray\n_reconstruct\n", b"cnumpy._core.numeric\n_frombuffer\n", b"cos\nsystem\n",
    b"cbuiltins\neval\n", b"cbuiltins\nbytearray\n", b"cbuiltins\ngetattr\n",
)  # fmt: skip
BUILDERS = b"]})(NIKMJ\x88\x89aest.u\x85\x86\x87l d0pqrRbh"
DTYPES = ("u1", "i8", "u8", "i4", "f8", "O8", "V4", "U1000000", "x", "")


def generated(rng: random.Random, folder: Path) -> str:
    """A program of random opcodes with plausible arguments."""
    parts = [_opcode(rng) for _ in range(int(2 ** rng.uniform(1, 9)))]
    if rng.random() < 0.3:
        parts.insert(rng.randint(0, len(parts)), _array(rng))
    if rng.random() < 0.1:
        parts += [_bomb(rng)]
    return _unpickled(b"\x80\x04" + b"".join(parts) + rng.choice((b".", b"R.", b"b.", b"u.", b"")))


def damaged(rng: random.Random, folder: Path) -> str:
    return _unpickled(mutated(rng, pickle.dumps(_table(rng), rng.randrange(6))))


def cifar(rng: random.Random, folder: Path) -> str:
    """The official files of CIFAR-100 with odd columns."""
    names = _odd(rng, [f"class {number}" for number in range(4)])
    _write(rng, folder / "meta", {_key(rng, "fine_label_names"): names})
    for part in ("train", "test"):
        rows = rng.choice((3, 3, 3, 0, 4))
        labels = _odd(rng, [rng.randrange(4) for _ in range(3)])
        _write(rng, folder / part, {_key(rng, "data"): _pixels(rng, rows), _key(rng, "fine_labels"): labels})
    source = FolderSource(folder, depth=1)
    return outcome_of(lambda: index_official_arrays(source), DataError, UnreadableFileError)


def mini_imagenet(rng: random.Random, folder: Path) -> str:
    """The arrays of mini-ImageNet with odd columns."""
    for part in ("train", "val", "test"):
        pixels = _odd(rng, np.zeros((4, 84, 84, 3), np.uint8))
        rows = _odd(rng, {"n01": _odd(rng, [0, 1]), "n02": _odd(rng, [2, 3])})
        _write(rng, folder / f"mini-imagenet-cache-{part}.pkl", {"image_data": pixels, "class_dict": rows})
    return outcome_of(lambda: index_arrays(folder), DataError)


def _unpickled(data: bytes) -> str:
    return outcome_of(lambda: safe_unpickle(io.BytesIO(data)), ValueError)


def _write(rng: random.Random, file: Path, value: object) -> None:
    data = pickle.dumps(value, rng.randrange(6))
    file.write_bytes(mutated(rng, data) if rng.random() < 0.1 else data)


def _key(rng: random.Random, name: str) -> str | bytes:
    return rng.choice((name, name.encode()))


def _table(rng: random.Random) -> dict[object, object]:
    pixels = np.frombuffer(rng.randbytes(24), np.uint8).reshape(2, 12)
    return {
        b"data": pixels,
        "labels": [1, 2, 2**70],
        "names": ["a", "b" * 300],
        b"x": (None, True, 1.5, b"c", "\u20ac"),
    }


def _pixels(rng: random.Random, rows: int) -> object:
    return _odd(rng, np.zeros((rows, 3072), rng.choice((np.uint8, np.uint8, np.uint8, np.int64))))


def _odd(rng: random.Random, value: object) -> object:
    """The value itself, more often than not."""
    if rng.random() < 0.7:
        return value
    nested: list[object] = [0]
    for _ in range(rng.choice((2, 10, 25))):
        nested = [nested, nested]
    odd: tuple[object, ...] = (
        None, 5, "text", b"\xff\xfe", [], {}, [None], ["a", 1], [[1, 2], [3]], [10**30], [-1], nested, [nested] * 3,
        (1, 2), {"a": 1}, np.zeros(3), np.arange(3), np.zeros((3, 1), np.int8), [1.5], [True], [b"\xff"], ["\ud800"],
    )  # fmt: skip
    return rng.choice(odd)


def _opcode(rng: random.Random) -> bytes:
    if rng.random() < 0.1:
        return rng.choice(GLOBALS)
    opcode = _OPCODES[rng.choice(BUILDERS)] if rng.random() < 0.7 else rng.choice(pickletools.opcodes)
    code = opcode.code.encode("latin1")
    return code + (_argument(rng, opcode.arg.name) if opcode.arg else b"")


_OPCODES = {ord(opcode.code): opcode for opcode in pickletools.opcodes}
_OPCODES |= {ord(" "): _OPCODES[ord("}")]}


def _argument(rng: random.Random, name: str) -> bytes:
    """The argument of an opcode, by the name that pickletools gives to its form."""
    if name in _FIXED:
        form = _FIXED[name]
        size = struct.calcsize(form)
        small = rng.randrange(8) if rng.random() < 0.7 else rng.choice(NUMBERS)
        return struct.pack(form, small % 2 ** (8 * size - 1)) if form != ">d" else rng.randbytes(8)
    if name in _COUNTED:
        form = _COUNTED[name]
        text = (
            rng.randbytes(rng.choice((0, 1, 2, 8, 40)))
            if "byte" in name or "long" in name
            else b"ab" * rng.randrange(9)
        )
        claimed = len(text) if rng.random() < 0.9 else rng.choice(NUMBERS)
        return struct.pack(form, claimed % 2 ** (8 * struct.calcsize(form) - 1)) + text
    return rng.choice((b"1", b"-5", b"7" * 5000, b"'a'", b"abc", b"1L", b"00", b"nan", b"")) + (
        b"\nx\n" if name == "stringnl_noescape_pair" else b"\n"
    )


_FIXED = {"uint1": "<B", "uint2": "<H", "int4": "<i", "uint4": "<I", "uint8": "<Q", "float8": ">d"}
_COUNTED = {
    "string1": "<B", "string4": "<i", "bytes1": "<B", "bytes4": "<I", "bytes8": "<Q", "bytearray8": "<Q",
    "unicodestring1": "<B", "unicodestring4": "<I", "unicodestring8": "<Q", "long1": "<B", "long4": "<i",
}  # fmt: skip


def _array(rng: random.Random) -> bytes:
    """A numpy array whose shape, type or content may be anything."""
    dtype = GLOBALS[2] + _pickled(rng.choice(DTYPES)) + b"\x89\x88\x87R"
    state = _pickled((3, rng.choice(("<", "|", ">", 5)), None, None, None, -1, -1, 0)) + b"b"
    shape = rng.choice(
        ((2,), (2, 3), (-1,), (2**40,), (2**31, 2**31), ("a", 3), ([0] * 9, 10**8), (True,), (0, 2**62), 7)
    )
    content = rng.choice((b"ab", b"", b"a" * 6, "text", 10**9, 2**31, [1, 2], None, (1,)))
    target = GLOBALS[4] + GLOBALS[3] + b"K\x00\x85C\x01b\x87R"
    return target + b"(K\x01" + _pickled(shape) + dtype + state + b"\x89" + _pickled(content) + b"tb"


def _bomb(rng: random.Random) -> bytes:
    """A few bytes that describe something large: doubled lists, tuples or texts, colliding keys, long integers."""
    match rng.randrange(4):
        case 0:
            return b"]q\x00" + b"".join(b"](h%ch%ce" % (n, n) + b"q%c" % (n + 1) for n in range(rng.randint(5, 80)))
        case 1:
            return b")q\x00" + b"".join(b"h%ch%c\x86q%c" % (n, n, n + 1) for n in range(rng.randint(5, 80)))
        case 2:
            keys = [_pickled(number * (2**61 - 1)) + b"N" for number in range(rng.choice((10, 1000, 30_000)))]
            return b"}(" + b"".join(keys) + b"u"
    return b"\x8b" + struct.pack("<i", 50_000) + rng.randbytes(50_000) + b"q\x00" + b"h\x00" * rng.randint(1, 500)


def _pickled(value: object) -> bytes:
    """The opcodes that push a value."""
    return pickle.dumps(value, 2)[2:-1]
