"""Extract plain data from a pickle without executing it.

A pickle is a program for a small stack machine that can import and call anything. Here its opcodes are only parsed, one
by one, and interpreted as far as they build dicts, lists, strings, numbers and integer arrays; the file is rejected at
any other opcode. Nothing is ever imported by name: the few globals that arrays need are recognised by their spelling.
"""

import io
import math
import re
import struct
from itertools import islice
from pickletools import genops
from typing import Any, NamedTuple, final

import numpy as np

MAX_OPCODES = 2_000_000
"""The official files need a tenth of it; an opcode can take up to a hundred bytes of memory."""

_VALUES = {
    "INT", "LONG", "LONG1", "LONG4", "BININT", "BININT1", "BININT2", "FLOAT", "BINFLOAT",
    "STRING", "BINSTRING", "SHORT_BINSTRING", "UNICODE", "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8",
    "SHORT_BINBYTES", "BINBYTES", "BINBYTES8", "BYTEARRAY8",
}  # fmt: skip
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False, "EMPTY_TUPLE": ()}
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


class _Global(NamedTuple):
    """A reference to a Python object by its name; it is never resolved."""

    full_name: str


def safe_unpickle(file: io.BytesIO | io.BufferedReader) -> Any:
    """The object in the file; ValueError if the file is damaged or contains more than plain data."""
    interpreter = _Interpreter()
    try:
        for opcode, argument, _ in islice(genops(file), MAX_OPCODES):
            if opcode.name == "STOP":
                return interpreter.stack.pop()
            interpreter.execute(opcode.name, argument)
    except (ArithmeticError, LookupError, MemoryError, RuntimeError, TypeError, struct.error, OSError) as error:
        raise ValueError(f"it is damaged ({error})") from error
    raise ValueError(f"it has more than {MAX_OPCODES} opcodes")


@final
class _Interpreter:
    """Executes one opcode after the other; the objects under construction are on the stack."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self._outer_stacks: list[list[Any]] = []
        self._memo: dict[int, Any] = {}

    def execute(self, opcode: str, argument: Any) -> None:
        if opcode in _VALUES:
            self.stack.append(argument)
        elif opcode in _CONSTANTS:
            self.stack.append(_CONSTANTS[opcode])
        elif opcode in _TUPLES:
            count = _TUPLES[opcode]
            self.stack[-count:] = [tuple(self.stack[-count:])]
        elif opcode not in ("PROTO", "FRAME"):
            self._execute_builder(opcode, argument)

    def _execute_builder(self, opcode: str, argument: Any) -> None:
        stack = self.stack
        match opcode:
            case "EMPTY_LIST":
                stack.append([])
            case "EMPTY_DICT":
                stack.append({})
            case "MARK":
                self._outer_stacks.append(stack)
                self.stack = []
            case "TUPLE" | "LIST" | "DICT":
                items = self._pop_to_mark()
                self.stack.append(tuple(items) if opcode == "TUPLE" else items if opcode == "LIST" else _to_dict(items))
            case "APPEND":
                self._extend([stack.pop()])
            case "APPENDS":
                self._extend(self._pop_to_mark())
            case "SETITEM":
                self._update([stack.pop(-2), stack.pop()])
            case "SETITEMS":
                self._update(self._pop_to_mark())
            case "PUT" | "BINPUT" | "LONG_BINPUT":
                self._memo[argument] = stack[-1]
            case "MEMOIZE":
                self._memo[len(self._memo)] = stack[-1]
            case "GET" | "BINGET" | "LONG_BINGET":
                stack.append(self._memo[argument])
            case "GLOBAL":
                stack.append(_Global(argument.replace(" ", ".")))
            case "STACK_GLOBAL":
                stack.append(_Global(f"{stack.pop(-2)}.{stack.pop()}"))
            case "REDUCE":
                stack.append(_call_known_global(stack.pop(-2), stack.pop()))
            case "BUILD":
                _set_state(stack[-2], stack.pop())
            case _:
                raise ValueError(f"it contains more than plain data (opcode {opcode})")

    def _pop_to_mark(self) -> list[Any]:
        items, self.stack = self.stack, self._outer_stacks.pop()
        return items

    def _extend(self, items: list[Any]) -> None:
        target = self.stack[-1]
        if type(target) is not list:
            raise ValueError("it appends to an object that is not a list")
        target.extend(items)

    def _update(self, items: list[Any]) -> None:
        target = self.stack[-1]
        if type(target) is not dict:
            raise ValueError("it sets an item of an object that is not a dict")
        target.update(_to_dict(items))


def _to_dict(items: list[Any]) -> dict[Any, Any]:
    keys, values = items[::2], items[1::2]
    if not all(isinstance(key, str | bytes | int) for key in keys):
        raise ValueError("it contains a dict whose keys are not strings, bytes or integers")
    return dict(zip(keys, values, strict=True))


def _call_known_global(name: Any, arguments: Any) -> Any:
    """The result of calling a global, for the few globals that produce plain data."""
    match name, arguments:
        case _Global("_codecs.encode"), (str() as text, "latin1"):
            return text.encode("latin1")
        case _Global("collections.OrderedDict"), ():
            return {}
        case _Global("numpy.dtype"), (str() as kind, *_) if re.fullmatch("[iu][1248]", kind):
            return np.dtype(f"<{kind}")
        case _Global("numpy.core.multiarray._reconstruct" | "numpy._core.multiarray._reconstruct"), _:
            return np.empty(0, np.uint8)
        case (
            _Global("numpy.core.numeric._frombuffer" | "numpy._core.numeric._frombuffer"),
            (bytes() | bytearray() as data, np.dtype() as kind, tuple() as shape, ("C" | "F") as order),
        ):
            return np.frombuffer(data, kind).reshape(shape, order=order)
    called = name.full_name if isinstance(name, _Global) else name
    raise ValueError(f"it contains more than plain data ({called!s:.80})")


def _set_state(target: Any, state: Any) -> None:
    """Fill an array with its content; for a dtype, only check that its byte order is little-endian."""
    match target, state:
        case np.ndarray(), (int(), tuple() as shape, np.dtype() as kind, (bool() | int()) as fortran_order, data):
            content = data.encode("latin1") if isinstance(data, str) else bytes(data)
            if math.prod(shape) * kind.itemsize != len(content):
                raise ValueError("it contains an array whose data does not match its shape")
            checked: Any = (1, shape, kind, bool(fortran_order), content)
            target.__setstate__(checked)
        case np.dtype(), (int(), "<" | "|" | "=", None, None, None, *_):
            pass
        case _:
            raise ValueError("it contains more than plain data (an object's state)")
