"""The plain data in a pickle, found without running it.

Such a file is a program for a small machine that can build and call anything. Here its steps are only read, one by one,
and followed as far as they build dicts, lists, texts, numbers and arrays of whole numbers; at any other step the file
is refused. No name in it is ever looked up: the few that arrays need are known by their spelling.
"""

import io
import math
import re
import struct
from itertools import islice
from pickletools import genops
from typing import Any, NamedTuple

import numpy as np

MAX_STEPS = 2_000_000
"""The official files take a tenth of it; a step can take up to a hundred bytes of memory."""

_VALUES = {
    "INT", "LONG", "LONG1", "LONG4", "BININT", "BININT1", "BININT2", "FLOAT", "BINFLOAT",
    "STRING", "BINSTRING", "SHORT_BINSTRING", "UNICODE", "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8",
    "SHORT_BINBYTES", "BINBYTES", "BINBYTES8", "BYTEARRAY8",
}  # fmt: skip
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False, "EMPTY_TUPLE": ()}
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


class _Name(NamedTuple):
    """What the file calls by its name."""

    full: str


def read_plain(file: io.BytesIO | io.BufferedReader) -> Any:
    """What the file holds; ValueError if it is damaged, or holds more than plain data."""
    machine = _Machine()
    try:
        for step, argument, _ in islice(genops(file), MAX_STEPS):
            if step.name == "STOP":
                return machine.stack.pop()
            machine.follow(step.name, argument)
    except (ArithmeticError, LookupError, MemoryError, RuntimeError, TypeError, struct.error, OSError) as error:
        raise ValueError(f"it is damaged ({error})") from error
    raise ValueError(f"it takes more than {MAX_STEPS} steps to read")


class _Machine:
    """Follows one step after the other; what is being built lies on the stack."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self._outer: list[list[Any]] = []
        self._memo: dict[int, Any] = {}

    def follow(self, step: str, argument: Any) -> None:
        if step in _VALUES:
            self.stack.append(argument)
        elif step in _CONSTANTS:
            self.stack.append(_CONSTANTS[step])
        elif step in _TUPLES:
            count = _TUPLES[step]
            self.stack[-count:] = [tuple(self.stack[-count:])]
        elif step not in ("PROTO", "FRAME"):
            self._build(step, argument)

    def _build(self, step: str, argument: Any) -> None:
        stack = self.stack
        match step:
            case "EMPTY_LIST":
                stack.append([])
            case "EMPTY_DICT":
                stack.append({})
            case "MARK":
                self._outer.append(stack)
                self.stack = []
            case "TUPLE" | "LIST" | "DICT":
                items = self._since_mark()
                self.stack.append(tuple(items) if step == "TUPLE" else items if step == "LIST" else _pairs(items))
            case "APPEND":
                self._extend([stack.pop()])
            case "APPENDS":
                self._extend(self._since_mark())
            case "SETITEM":
                self._update([stack.pop(-2), stack.pop()])
            case "SETITEMS":
                self._update(self._since_mark())
            case "PUT" | "BINPUT" | "LONG_BINPUT":
                self._memo[argument] = stack[-1]
            case "MEMOIZE":
                self._memo[len(self._memo)] = stack[-1]
            case "GET" | "BINGET" | "LONG_BINGET":
                stack.append(self._memo[argument])
            case "GLOBAL":
                stack.append(_Name(argument.replace(" ", ".")))
            case "STACK_GLOBAL":
                stack.append(_Name(f"{stack.pop(-2)}.{stack.pop()}"))
            case "REDUCE":
                stack.append(_made(stack.pop(-2), stack.pop()))
            case "BUILD":
                _fill(stack[-2], stack.pop())
            case _:
                raise ValueError(f"it holds more than plain data (step {step})")

    def _since_mark(self) -> list[Any]:
        items, self.stack = self.stack, self._outer.pop()
        return items

    def _extend(self, items: list[Any]) -> None:
        target = self.stack[-1]
        if type(target) is not list:
            raise ValueError("it adds to what is not a list")
        target.extend(items)

    def _update(self, items: list[Any]) -> None:
        target = self.stack[-1]
        if type(target) is not dict:
            raise ValueError("it sets an item of what is not a dict")
        target.update(_pairs(items))


def _pairs(items: list[Any]) -> dict[Any, Any]:
    keys, values = items[::2], items[1::2]
    if not all(isinstance(key, str | bytes | int) for key in keys):
        raise ValueError("it has a dict with unusual keys")
    return dict(zip(keys, values, strict=True))


def _made(name: Any, arguments: Any) -> Any:
    """What calling the name would make, for the few names that stand for plain data."""
    match name, arguments:
        case _Name("_codecs.encode"), (str() as text, "latin1"):
            return text.encode("latin1")
        case _Name("collections.OrderedDict"), ():
            return {}
        case _Name("numpy.dtype"), (str() as kind, *_) if re.fullmatch("[iu][1248]", kind):
            return np.dtype(f"<{kind}")
        case _Name("numpy.core.multiarray._reconstruct" | "numpy._core.multiarray._reconstruct"), _:
            return np.empty(0, np.uint8)
        case (
            _Name("numpy.core.numeric._frombuffer" | "numpy._core.numeric._frombuffer"),
            (bytes() | bytearray() as data, np.dtype() as kind, tuple() as shape, ("C" | "F") as order),
        ):
            return np.frombuffer(data, kind).reshape(shape, order=order)
    raise ValueError(f"it holds more than plain data ({getattr(name, 'full', name)!s:.80})")


def _fill(target: Any, state: Any) -> None:
    """Give an array its content; of a kind of number, check that its bytes are in the usual order."""
    match target, state:
        case np.ndarray(), (int(), tuple() as shape, np.dtype() as kind, (bool() | int()) as columns_first, data):
            content = data.encode("latin1") if isinstance(data, str) else bytes(data)
            if math.prod(shape) * kind.itemsize != len(content):
                raise ValueError("it has an array of another size than it says")
            checked: Any = (1, shape, kind, bool(columns_first), content)
            target.__setstate__(checked)
        case np.dtype(), (int(), "<" | "|" | "=", None, None, None, *_):
            pass
        case _:
            raise ValueError("it holds more than plain data (an object's state)")
