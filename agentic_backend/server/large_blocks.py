"""Large blocks of memory, such as long texts, which the process gives back to the system once they are free."""

import ctypes
from contextlib import suppress

# malloc.h
_M_MMAP_THRESHOLD = -3
_LARGE = 512 * 1024


def give_back_large_blocks() -> None:
    """Make the C library do so.

    By itself glibc keeps blocks of up to 32 MiB in heaps once one of that size was freed; between what is in use, they
    stay with the process. Other libraries know no such setting.
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, _LARGE)
