"""Checks of types and shapes that are cheap in loops.

A checked call takes about a tenth of a millisecond, and decorating a function inside a function some milliseconds. If
a function is called thousands of times, as in the inner loop, that is a third of the time of a test. So each test
checks the first calls of every function and a sample of those that follow.
"""

import functools
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import is_dataclass
from types import CodeType, FunctionType
from typing import Any

import jaxtyping

FIRST = 3
"""As many calls of each function are checked in each test."""
EVERY = 100
"""Of all later calls, one in so many is checked."""

_jaxtyped = jaxtyping.jaxtyped
_calls: Counter[CodeType] = Counter()


def begin_test() -> None:
    """Forget which calls were checked."""
    _calls.clear()


def _is_due(code: CodeType) -> bool:
    _calls[code] = number = _calls[code] + 1
    return number <= FIRST or number % EVERY == 0


def checked_at_first(function: Any = None, *, typechecker: Callable[..., Any]) -> Any:
    """In place of `jaxtyping.jaxtyped`, with the arguments that the import hook uses."""
    if function is None:
        return functools.partial(checked_at_first, typechecker=typechecker)
    if isinstance(function, type):
        if is_dataclass(function) and "__init__" in vars(function):
            checked = checked_at_first(vars(function)["__init__"], typechecker=typechecker)
            function.__init__ = checked  # type: ignore[method-assign]
        return function
    assert isinstance(function, FunctionType)
    code = function.__code__
    if "<locals>" in function.__qualname__:  # decorated again whenever the function around it is called
        return _jaxtyped(function, typechecker=typechecker) if _is_due(code) else function
    checked = None

    @functools.wraps(function)
    def checked_if_due(*args: Any, **kwargs: Any) -> Any:
        nonlocal checked
        if not _is_due(code):
            return function(*args, **kwargs)
        if checked is None:  # most functions are not called by most tests
            checked = _jaxtyped(function, typechecker=typechecker)
        return checked(*args, **kwargs)

    return checked_if_due


@contextmanager
def hooked(package: str) -> Iterator[None]:
    """What is imported from this package is checked by beartype."""
    # For good, because functions inside of functions are decorated when they are called.
    jaxtyping.jaxtyped = checked_at_first  # type: ignore[assignment]
    with jaxtyping.install_import_hook(package, "beartype.beartype"):
        yield
