"""Extract plain data from a pickle without executing it.

A pickle is a program for a small stack machine that can import and call anything. Here its opcodes are only parsed, one
by one, and interpreted as far as they build dicts, lists, strings, numbers and integer arrays; the file is rejected at
any other opcode. Nothing is ever imported by name: the few globals that arrays need are recognised by their spelling.

A small program can also ask for endless work, so everything has a limit: the number of opcodes, the bytes of text and
arrays, the size of integers and the depth of containers. Containers cannot contain themselves.
"""

import io
import math
import re
import struct
from collections.abc import Callable
from pickletools import opcodes
from typing import Any, NamedTuple, final

import numpy as np

from eigen_reptile.data.io.pickle_reader import TEXT_LENGTHS, PickleReader

MAX_OPCODES = 1_000_000
"""The official files need a quarter of it; an opcode can take up to two hundred bytes of memory."""
MAX_BITS = 64
"""Limit for integers."""
MAX_DEPTH = 10
"""Limit for containers within containers."""
MAX_NAME = 200
"""Limit for the name of a global."""
ARRAY_BYTES = 1024
"""Bytes that an array is taken to need in addition to its data."""

_OPCODES = {opcode.code: opcode for opcode in opcodes}
_INTEGERS = {"INT", "LONG", "LONG1", "LONG4", "BININT", "BININT1", "BININT2"}
_VALUES = {
    "FLOAT", "BINFLOAT", "STRING", "SHORT_BINSTRING", "UNICODE", "SHORT_BINBYTES", "BINBYTES", "BINBYTES8",
    "BYTEARRAY8",
}  # fmt: skip
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False, "EMPTY_TUPLE": ()}
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


class _Global(NamedTuple):
    """A reference to a Python object by its name; it is never resolved."""

    full_name: str


def safe_unpickle(file: io.BytesIO | io.BufferedReader) -> Any:
    """The object in the file; ValueError if the file is damaged or contains more than plain data."""
    try:
        reader = PickleReader(file)
        interpreter = _Interpreter(reader)
        for _ in range(MAX_OPCODES):
            opcode = _OPCODES.get(reader.read(1).decode("latin1"))
            if opcode is None:
                raise ValueError("it contains an unknown opcode")
            if opcode.name == "STOP":
                return interpreter.stack.pop()
            if opcode.name in TEXT_LENGTHS:
                interpreter.stack.append(reader.read_text(opcode.name))
            else:
                read: Callable[[Any], Any] = opcode.arg.reader if opcode.arg else _read_nothing
                interpreter.execute(opcode.name, read(reader))
    except (ArithmeticError, LookupError, MemoryError, RuntimeError, TypeError, struct.error, OSError) as error:
        raise ValueError(f"it is damaged ({error!s:.80})") from error
    except ValueError as error:
        raise ValueError(f"{error!s:.200}") from error  # that of an opcode's argument quotes all of it
    raise ValueError(f"it has more than {MAX_OPCODES} opcodes")


def _read_nothing(reader: PickleReader) -> None:
    """An opcode without an argument."""


@final
class _Interpreter:
    """Executes one opcode after the other; the objects under construction are on the stack."""

    def __init__(self, reader: PickleReader) -> None:
        self.stack: list[Any] = []
        self._reader = reader
        self._outer_stacks: list[list[Any]] = []
        self._memo: dict[int, Any] = {}
        self._depths: dict[int, int] = {}
        """By the id of every container on the stack or in the memo. Ids can be used again, but then anew from here."""
        self._contained: set[int] = set()
        """Ids of the containers within others. They are complete, so none can be put into itself."""

    def execute(self, opcode: str, argument: Any) -> None:
        if opcode in _INTEGERS:
            self.stack.append(_checked_integer(argument))
        elif opcode in _VALUES:
            self.stack.append(argument)
        elif opcode in _CONSTANTS:
            self.stack.append(_CONSTANTS[opcode])
        elif opcode in _TUPLES:
            count = _TUPLES[opcode]
            self.stack[-count:] = [self._container(tuple(self.stack[-count:]))]
        elif opcode not in ("PROTO", "FRAME"):
            self._execute_builder(opcode, argument)

    def _execute_builder(self, opcode: str, argument: Any) -> None:
        stack = self.stack
        match opcode:
            case "EMPTY_LIST":
                stack.append(self._container([]))
            case "EMPTY_DICT":
                stack.append(self._container({}))
            case "MARK":
                self._outer_stacks.append(stack)
                self.stack = []
            case "TUPLE" | "LIST" | "DICT":
                items = self._pop_to_mark()
                made = tuple(items) if opcode == "TUPLE" else items if opcode == "LIST" else _to_dict(items)
                self.stack.append(self._container(made))
            case "APPEND":
                self._extend([stack.pop()])
            case "APPENDS":
                self._extend(self._pop_to_mark())
            case "SETITEM":
                self._update([stack.pop(-2), stack.pop()])
            case "SETITEMS":
                self._update(self._pop_to_mark())
            case "PUT" | "BINPUT" | "LONG_BINPUT":
                self._memo[_checked_integer(argument)] = stack[-1]
            case "MEMOIZE":
                self._memo[len(self._memo)] = stack[-1]
            case "GET" | "BINGET" | "LONG_BINGET":
                stack.append(self._memo[_checked_integer(argument)])
            case "GLOBAL":
                stack.append(_to_global(*argument.split(" ", 1)))
            case "STACK_GLOBAL":
                stack.append(_to_global(stack.pop(-2), stack.pop()))
            case "REDUCE":
                stack.append(self._call_known_global(stack.pop(-2), stack.pop()))
            case "BUILD":
                self._set_state(stack[-2], stack.pop())
            case _:
                raise ValueError(f"it contains more than plain data (opcode {opcode})")

    def _pop_to_mark(self) -> list[Any]:
        items, self.stack = self.stack, self._outer_stacks.pop()
        return items

    def _container(self, made: Any) -> Any:
        """A new list, tuple or dict, whose items are from now on parts of it."""
        self._depths[id(made)] = 1
        self._contained.discard(id(made))
        self._put_into(made, made.values() if type(made) is dict else made)
        return made

    def _put_into(self, container: Any, items: Any) -> None:
        if id(container) in self._contained:
            raise ValueError("it changes a container within another")
        for item in items:
            if type(item) in (list, tuple, dict):
                # The constant empty tuple is the only container that has not been entered.
                depth = 1 + self._depths.get(id(item), 1)
                if depth > MAX_DEPTH or item is container:
                    raise ValueError(f"it contains containers within containers, more than {MAX_DEPTH} levels deep")
                self._depths[id(container)] = max(self._depths[id(container)], depth)
                self._contained.add(id(item))

    def _extend(self, items: list[Any]) -> None:
        target = self.stack[-1]
        if type(target) is not list:
            raise ValueError("it appends to an object that is not a list")
        self._put_into(target, items)
        target.extend(items)

    def _update(self, items: list[Any]) -> None:
        target = self.stack[-1]
        if type(target) is not dict:
            raise ValueError("it sets an item of an object that is not a dict")
        added = _to_dict(items)
        self._put_into(target, added.values())
        target.update(added)

    def _call_known_global(self, name: Any, arguments: Any) -> Any:
        """The result of calling a global, for the few globals that produce plain data."""
        match name, arguments:
            case _Global("_codecs.encode"), (str() as text, "latin1"):
                self._reader.charge(len(text))
                return text.encode("latin1")
            case _Global("collections.OrderedDict"), ():
                return self._container({})
            case _Global("numpy.dtype"), (str() as kind, *_) if re.fullmatch("[iu][1248]", kind):
                return np.dtype(f"<{kind}")
            case _Global("numpy.core.multiarray._reconstruct" | "numpy._core.multiarray._reconstruct"), _:
                self._reader.charge(ARRAY_BYTES)
                return np.empty(0, np.uint8)
            case (
                _Global("numpy.core.numeric._frombuffer" | "numpy._core.numeric._frombuffer"),
                (bytes() | bytearray() as data, np.dtype() as kind, tuple() as shape, ("C" | "F") as order),
            ):
                self._reader.charge(ARRAY_BYTES)
                _check_shape(shape, kind, len(data))
                return np.frombuffer(data, kind).reshape(shape, order=order)
        called = name.full_name if isinstance(name, _Global) else f"a {type(name).__name__} that is called"
        raise ValueError(f"it contains more than plain data ({called:.80})")

    def _set_state(self, target: Any, state: Any) -> None:
        """Fill an array with its content; for a dtype, only check that its byte order is little-endian."""
        match target, state:
            case (
                np.ndarray(),
                (int(), tuple() as shape, np.dtype() as kind, bool() | int() as fortran_order, bytes() | str() as data),
            ):
                self._reader.charge(ARRAY_BYTES + isinstance(data, str) * len(data))
                content = data.encode("latin1") if isinstance(data, str) else data
                _check_shape(shape, kind, len(content))
                checked: Any = (1, shape, kind, bool(fortran_order), content)
                target.__setstate__(checked)
            case np.dtype(), (int(), "<" | "|" | "=", None, None, None, *_):
                pass
            case _:
                raise ValueError("it contains more than plain data (an object's state)")


def _checked_integer(value: Any) -> Any:
    """The integer, or the bool that protocol 0 writes as one; ValueError if it is large, for it may be used often."""
    if value.bit_length() > MAX_BITS:
        raise ValueError(f"it contains an integer of more than {MAX_BITS} bits")
    return value


def _to_dict(items: list[Any]) -> dict[Any, Any]:
    keys, values = items[::2], items[1::2]
    # Large integers can be made to collide; those of 64 bits hardly can.
    if not all(isinstance(key, str | bytes | int) for key in keys):
        raise ValueError("it contains a dict whose keys are not strings, bytes or integers")
    return dict(zip(keys, values, strict=True))


def _to_global(module: Any, name: Any) -> _Global:
    if not (isinstance(module, str) and isinstance(name, str) and len(module) + len(name) <= MAX_NAME):
        raise ValueError("it contains more than plain data (a global without a proper name)")
    return _Global(f"{module}.{name}")


def _check_shape(shape: tuple[Any, ...], kind: np.dtype[Any], length: int) -> None:
    """ValueError unless an array of this shape has so many bytes."""
    if len(shape) > 8 or not all(type(size) is int and size >= 0 for size in shape):
        raise ValueError("it contains an array whose shape is not made of a few whole numbers")
    if math.prod(shape) * kind.itemsize != length:
        raise ValueError("it contains an array whose data does not match its shape")
