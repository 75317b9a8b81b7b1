"""Process-wide settings without which training on a CPU takes up to twice as long."""

import ctypes

import torch


def configure_process() -> None:
    """Flush denormal numbers to zero, and let the C library keep freed memory.

    The squared gradients of Adam are often denormal, and arithmetic on denormal numbers is many times slower. Without
    the memory settings glibc returns the buffers of each iteration to the kernel and requests them again, page by page.
    """
    torch.set_flush_denormal(True)
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return  # not glibc
    trim_threshold, top_pad, mmap_threshold = -1, -2, -3
    mallopt(trim_threshold, 2**31 - 1)
    mallopt(mmap_threshold, 2**30)
    mallopt(top_pad, 2**26)  # the size of a thread's heap, so that empty heaps are kept too
