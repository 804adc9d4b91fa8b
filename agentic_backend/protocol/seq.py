"""seq: an event's place in its exchange, made of an epoch and an offset.

Each owner of an exchange counts its events in an epoch of its own, so that no two owners give the same seq to different
events, and a later owner's are always higher, whatever the one before gave and nobody knows of. The store keeps the
highest place that is known, `last_seq`; whoever claims the exchange raises that to the beginning of the next epoch. The
beginning itself, offset 0, is no owner's event.

The parts are one number: it stays below 2^53, which every reader of JSON holds exactly, and is the id of an entry in
a Redis stream. The first owner's epoch is 0, so that its seqs are 1, 2, 3, …
"""

_OFFSET_BITS = 32

HIGHEST_SEQ = 2**53 - 1


def next_epoch(seq: int) -> int:
    """The beginning of the epoch after that of `seq`: the next owner's first event comes behind it."""
    return (epoch_of(seq) + 1) << _OFFSET_BITS


def epoch_of(seq: int) -> int:
    return seq >> _OFFSET_BITS


def is_beginning(seq: int) -> bool:
    """Whether `seq` is the beginning of an epoch after the first."""
    return seq > 0 and next_epoch(seq - 1) == seq
