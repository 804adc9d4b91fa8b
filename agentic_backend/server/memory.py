"""The memory of the process: large blocks go back to the system once they are free, and garbage is looked for less."""

import ctypes
import gc
from contextlib import suppress

# malloc.h
_M_MMAP_THRESHOLD = -3
_LARGE = 512 * 1024


# How often Python looks for cycles of objects that nothing uses; each look stops the event loop.
#
# Objects by which their number has to grow until the youngest are looked through, and the further generations, each so
# many looks later. Reference counts free nearly all objects of an exchange: some 700 are left, most of them kept for
# its followers. The many exchanges at a time have to end within a generation, or each look visits them all again.
_YOUNGEST, _MIDDLE, _OLDEST = 20_000, 5, 2


def collect_rarely() -> None:
    """Exclude all objects so far from the looks, such as those of the imported modules, which stay, and look rarely.

    Cycles such as those of evicted agents are still collected after 360,000 objects.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNGEST, _MIDDLE, _OLDEST)


def give_back_large_blocks() -> None:
    """Make the C library give large blocks, such as those of long texts, back to the system once they are free.

    By itself glibc keeps blocks of up to 32 MiB in heaps once one of that size was freed; between what is in use, they
    stay with the process. Other libraries know no such setting.
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, _LARGE)
