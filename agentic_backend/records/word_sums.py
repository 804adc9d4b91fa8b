"""The scores of records by their words, added up by numpy: of all records at once, one word after the other."""

from array import array
from collections.abc import Collection, Iterable

import numpy as np


def highest_sums(
    terms: Iterable[tuple[float, "array[int]"]],
    norms: "array[float]",
    gone: Collection[int],
    limit: int,
    least: float,
    *,
    count_bits: int,
) -> dict[int, float]:
    """The scores by slot: the highest `limit`, those that are as high as the last of these, and none below `least`.

    They are the same numbers as one by one. `terms` are the weights of words and their postings, in whose numbers the
    last `count_bits` tell how often a word comes in a slot.
    """
    scores, by_slot = np.zeros(len(norms)), np.array(norms)
    for weight, numbers in terms:
        # Copied, as what numpy looks into can't grow meanwhile.
        postings = np.array(numbers, np.uint32)
        slots, counts = postings >> count_bits, (postings & (1 << count_bits) - 1).astype(np.float64)
        scores[slots] += weight * counts / (counts + by_slot[slots])
    scores[np.fromiter(gone, np.intp, len(gone))] = 0.0
    if len(scores) > limit:
        least = max(least, float(np.partition(scores, len(scores) - limit)[len(scores) - limit]))
    high = np.flatnonzero((scores >= least) & (scores > 0.0))
    return dict(zip(high.tolist(), scores[high].tolist(), strict=True))
