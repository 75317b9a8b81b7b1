"""Compiled functions: torch.compile makes them faster, where there is a working compiler."""

import logging
import threading
from collections.abc import Callable, Hashable
from functools import partial
from typing import Any, Generic, ParamSpec, TypeVar, final

import torch

log = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

# The code around the compiled loops is compiled as well: run by Python it takes as long as small loops themselves, and
# blocks all other threads.
OPTIONS = {"cpp_wrapper": True}
ONE_THREAD = OPTIONS | {"cpp.threads": 1}
"""For tasks that run in a thread each."""


def compile_function(
    function: Callable[P, T],
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    options: dict[str, Any] | None = None,
    backend: str | Callable[..., Any] = "inductor",
) -> Callable[P, T]:
    """torch.compile, but as if the code of the function had never been compiled before.

    The compiler counts how often it has compiled the same code object, and gives up after a few. But the same code with
    another method or network, as in the next cell of a recipe, is another function.

    `fullgraph` is checked by the first call only: torch 2.13 counts the graphs of all threads together, and would now
    and then find none for one of them (https://github.com/pytorch/pytorch/pull/185138). Later calls use the same graph.
    """

    def fresh(*args: P.args, **kwargs: P.kwargs) -> T:
        return function(*args, **kwargs)

    fresh.__code__ = fresh.__code__.replace()
    compile_fresh = partial(torch.compile, fresh, dynamic=dynamic, options=options, backend=backend)
    current, checks = compile_fresh(fullgraph=fullgraph), fullgraph

    def compiled(*args: P.args, **kwargs: P.kwargs) -> T:
        nonlocal current, checks
        result: T = current(*args, **kwargs)
        if checks:
            current, checks = compile_fresh(fullgraph=False), False
        return result

    return compiled


@final
class Compiled(Generic[P, T]):
    """A function compiled by its first call; if that fails and is not required, an uncompiled fallback replaces it."""

    def __init__(self, compiled: Callable[P, T], fallback: Callable[P, T], required: bool) -> None:
        self._function, self._fallback = compiled, fallback
        self._required = required
        self._tried = False
        self._first_call = threading.Lock()

    @property
    def works(self) -> bool | None:
        """Whether it could be compiled; None before the first call."""
        return self._function is not self._fallback if self._tried else None

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T:
        if not self._tried:
            with self._first_call:  # or each of several threads would compile it
                if not self._tried:
                    return self._try(*args, **kwargs)
        return self._function(*args, **kwargs)

    def _try(self, *args: P.args, **kwargs: P.kwargs) -> T:
        log.info("compiling, which takes up to a minute the first time")
        # Torch warns that eigenvectors are computed through Python, which has no measurable cost.
        logging.getLogger("torch._inductor.ir").setLevel(logging.ERROR)
        try:
            result = self._function(*args, **kwargs)
        except Exception as error:  # whatever a missing or unfit compiler raises
            if self._required:
                raise
            log.warning("torch.compile does not work here (%s): continuing without it", type(error).__name__)
            self._function = self._fallback
            result = self._fallback(*args, **kwargs)
        self._tried = True
        return result


@final
class Compiler:
    """Compiles functions of one training, by default for tasks that run in a thread each; every function once, by name.

    A name is any hashable value, such as a text and the loss whose gradient it is.
    """

    def __init__(
        self,
        required: bool,
        fullgraph: bool = True,
        dynamic: bool | None = None,
        options: dict[str, Any] | None = ONE_THREAD,
    ) -> None:
        self._required = required
        self._fullgraph, self._dynamic, self._options = fullgraph, dynamic, options
        self._compiled: dict[Hashable, Compiled[..., Any]] = {}
        self._lock = threading.Lock()

    @property
    def works(self) -> bool | None:
        """Whether all functions that were called could be compiled; None if there were none."""
        tried = [function.works for function in self._compiled.values() if function.works is not None]
        return all(tried) if tried else None

    def find(self, name: Hashable) -> Callable[..., Any] | None:
        """The compiled function of this name, if there is one."""
        return self._compiled.get(name)

    def compiled(self, name: Hashable, function: Callable[P, T], fallback: Callable[P, T]) -> Callable[P, T]:
        """The compiled function of this name; `function` is compiled under it if there is none yet."""
        with self._lock:
            if name not in self._compiled:
                compiled = compile_function(
                    function, fullgraph=self._fullgraph, dynamic=self._dynamic, options=self._options
                )
                self._compiled[name] = Compiled(compiled, fallback, self._required)
            return self._compiled[name]
