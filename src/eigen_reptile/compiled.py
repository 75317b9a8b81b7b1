"""Functions that torch.compile makes faster, where there is a compiler."""

import logging
import threading
from collections.abc import Callable
from typing import Any, Generic, ParamSpec, TypeVar

import torch

log = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")


# On a CPU what calls the compiled loops is compiled too: in Python that takes as long as small loops themselves, and
# holds up all other threads.
OPTIONS = {"cpp_wrapper": True}
ONE_THREAD = OPTIONS | {"cpp.threads": 1}
"""For tasks that have a thread each."""
# It says of the eigenvectors that it calls them by a detour, which costs nothing that could be measured.
logging.getLogger("torch._inductor.ir").setLevel(logging.ERROR)


def compiled(function: Callable[P, T], **how: Any) -> Callable[P, T]:
    """torch.compile of a function as if it were the first of its kind.

    The compiler counts how often it has compiled the same code, and gives up after a few; but the same code with
    another method or network, as in the next cell of a recipe, is another function.
    """

    def anew(*args: P.args, **kwargs: P.kwargs) -> T:
        return function(*args, **kwargs)

    anew.__code__ = anew.__code__.replace()
    found: Callable[P, T] = torch.compile(anew, **how)
    return found


class Compiled(Generic[P, T]):
    """A function that its first call compiles; where that fails, and is not required, another that does the same."""

    def __init__(self, compiled: Callable[P, T], plain: Callable[P, T], required: bool) -> None:
        self._chosen, self._plain = compiled, plain
        self.required = required
        self._tried = False
        self._first = threading.Lock()

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T:
        if not self._tried:
            with self._first:  # or each of several threads would compile it
                if not self._tried:
                    return self._try(*args, **kwargs)
        return self._chosen(*args, **kwargs)

    def _try(self, *args: P.args, **kwargs: P.kwargs) -> T:
        log.info("compiling, which takes up to a minute the first time")
        try:
            found = self._chosen(*args, **kwargs)
        except Exception as error:  # whatever a missing or unfit compiler raises
            if self.required:
                raise
            log.warning("torch.compile does not work here (%s): going on without", type(error).__name__)
            self._chosen = self._plain
            found = self._plain(*args, **kwargs)
        self._tried = True
        return found
