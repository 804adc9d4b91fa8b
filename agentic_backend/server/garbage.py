"""Garbage: how often Python looks for cycles of objects that nothing uses; each look stops the event loop."""

import gc

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
