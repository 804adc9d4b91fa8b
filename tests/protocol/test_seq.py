"""Epochs and offsets: later owners are above everything that earlier ones gave, within what JSON readers hold."""

import json

from hypothesis import given
from hypothesis import strategies as st

from agentic_backend.protocol.seq import HIGHEST_SEQ, epoch_of, is_beginning, next_epoch

OFFSETS = 2**32
EPOCHS = 2**21
seqs = st.integers(0, (EPOCHS - 1) * OFFSETS - 1)


@given(seqs)
def test_the_next_owner_is_above_all_that_the_one_before_may_have_given(seq: int) -> None:
    beginning = next_epoch(seq)
    last = epoch_of(seq) * OFFSETS + OFFSETS - 1
    assert seq <= last < beginning
    assert epoch_of(beginning) == epoch_of(seq) + 1
    assert is_beginning(beginning) and not is_beginning(beginning + 1) and not is_beginning(last)


@given(seqs)
def test_it_is_a_number_that_javascript_holds(seq: int) -> None:
    assert next_epoch(seq) + 1 <= HIGHEST_SEQ
    assert int(float(next_epoch(seq) + 1)) == next_epoch(seq) + 1
    assert json.loads(json.dumps(seq), parse_int=float) == seq


def test_the_first_owner_begins_with_one() -> None:
    assert epoch_of(1) == 0 and not is_beginning(0) and not is_beginning(1)
