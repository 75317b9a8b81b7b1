"""Running out of memory, as an error that can be reported in one line."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

from eigen_reptile.errors import RunError


@contextmanager
def out_of_memory_as_run_error() -> Iterator[None]:
    """Turn the errors with which numpy and torch report a lack of memory into a RunError."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not _is_out_of_memory(error):
            raise
        size = re.search(r"allocate ([\d.]+ \w+)", str(error))
        wanted = f" for {size[1]}" if size else ""
        raise RunError(
            f"not enough memory{wanted}: use a smaller network, smaller tasks or a smaller `meta.batch`"
        ) from error


def _is_out_of_memory(error: Exception) -> bool:
    # On a CPU, torch raises a plain RuntimeError; a size that overflows is larger than any memory.
    return isinstance(error, MemoryError) or bool(re.search("allocate memory|out of memory|overflow", str(error)))


def check_memory(size: int, what: str) -> None:
    """RunError if this machine has less memory than `size` bytes, the use of which could kill the process."""
    try:
        available = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return  # not a POSIX system
    if size > available:
        raise RunError(
            f"not enough memory for {what}: it needs {size / 2**30:,.1f} GiB of {available / 2**30:,.1f} GiB; "
            "use a smaller network"
        )
