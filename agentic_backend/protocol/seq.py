"""seq: an event's place in its exchange, made of an epoch and an offset.

Each owner of an exchange counts its events in its own epoch. So two owners never give the same seq to different events,
and the seqs of a later owner are always higher, even than those that an earlier owner never reported. The store keeps
the highest known seq, `last_seq`; a claim raises it to the beginning of the next epoch. The beginning itself, offset 0,
is no event.

A seq is one number below 2^53, which every JSON parser reads exactly, and the id of an entry in a Redis stream. The
first owner's epoch is 0, so its seqs are 1, 2, 3, …
"""

_OFFSET_BITS = 32

HIGHEST_SEQ = 2**53 - 1


def next_epoch(seq: int) -> int:
    """The beginning of the epoch after that of `seq`; the next owner's first event follows it."""
    return (epoch_of(seq) + 1) << _OFFSET_BITS


def epoch_of(seq: int) -> int:
    return seq >> _OFFSET_BITS


def is_beginning(seq: int) -> bool:
    """Whether `seq` is the beginning of an epoch after the first."""
    return seq > 0 and next_epoch(seq - 1) == seq
