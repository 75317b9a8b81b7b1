"""Running out of memory, as an error that can be reported in one line."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from eigen_reptile.errors import RunError

CONTAINER_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


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
    reasons = r"allocate memory|out of memory|(size|storage|numel).*overflow"
    return isinstance(error, MemoryError) or bool(re.search(reasons, str(error), re.IGNORECASE))


def check_memory(size: int, what: str, advice: str) -> None:
    """RunError if this process may use less memory than `size` bytes, the use of which could kill it."""
    available = available_memory()
    if available is not None and size > available:
        raise RunError(
            f"not enough memory for {what}: it needs {size / 2**30:,.1f} GiB of {available / 2**30:,.1f} GiB; {advice}"
        )


def available_memory() -> int | None:
    """Bytes that this process may use in all: of the machine, its container and its own limit. None if unknown."""
    limits = []
    with suppress(AttributeError, OSError, ValueError):  # not a POSIX system
        limits.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    for file in CONTAINER_LIMITS:
        with suppress(OSError, ValueError):  # it is missing, or says "max"
            limits.append(int(Path(file).read_text()))
    with suppress(ImportError):
        import resource  # not on Windows

        limits += [soft for soft, _ in [resource.getrlimit(resource.RLIMIT_AS)] if soft != resource.RLIM_INFINITY]
    return min(limits, default=None)
