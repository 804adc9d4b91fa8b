"""What every store keeps of the states that a session's exchanges leave, whichever database is beneath it."""

import pytest

from agentic_backend.errors import SessionBusy
from agentic_backend.protocol.messages import ExchangeStatus
from agentic_backend.stores.base import STATES_KEPT, Store
from tests.stores.samples import a_checkpoint, a_pause, a_session, an_end, answer, begin, new_id


async def test_an_end_without_a_state_leaves_the_one_before(store: Store) -> None:
    session = a_session()
    await store.create_session(session)
    for state, expected in ((None, None), (b"one", b"one"), (None, b"one"), (b"", b""), (b"two", b"two")):
        await store.append(await begin(store, session), [], an_end(session_state=state))
        assert await store.session_state(session.id) == expected


async def test_each_exchange_leaves_its_own_state(store: Store) -> None:
    session = a_session()
    await store.create_session(session)
    after: list[tuple[int, bytes | None]] = [(0, None)]
    for state in (None, b"one", b"two", None, b"three"):
        written = await store.append(await begin(store, session), [answer(), answer()], an_end(session_state=state))
        after.append((written.session.next_rank, after[-1][1] if state is None else state))
    for rank, left in after:
        assert await store.session_state(session.id, rank) == left
        assert await store.session_state(session.id, rank + 2) == left, "an exchange that has not ended has left none"
    assert await store.session_state(session.id) == b"three"


async def test_the_last_states_of_a_session_are_kept(store: Store) -> None:
    session = a_session()
    await store.create_session(session)
    ranks: list[int] = []
    for number in range(STATES_KEPT + 2):
        written = await store.append(await begin(store, session), [], an_end(session_state=str(number).encode()))
        ranks.append(written.session.next_rank)
    left = [await store.session_state(session.id, rank) for rank in ranks]
    assert left == [None, None, *(str(number).encode() for number in range(2, STATES_KEPT + 2))]


async def test_a_reset_deletes_all_states_and_what_an_interrupted_exchange_could_go_on_from(store: Store) -> None:
    session = a_session()
    await store.create_session(session)
    await store.append(await begin(store, session), [], an_end(session_state=b"one"))
    interrupted = await begin(store, session)
    end = an_end(status=ExchangeStatus.INTERRUPTED, session_state=b"two")
    before = (await store.append(interrupted, [answer()], end, a_checkpoint())).session
    assert await store.checkpoint(interrupted.exchange_id) is not None
    for _ in range(2):
        reset = await store.reset_state(session.id)
        assert reset is not None and reset == await store.get_session(session.id)
        assert reset.reset_rank == reset.next_rank == before.next_rank and reset.updated_at == before.updated_at
        assert [await store.session_state(session.id, rank) for rank in (None, 1, before.next_rank)] == [None] * 3
        assert await store.checkpoint(interrupted.exchange_id) is None
        assert len(await store.messages_after(session.id, -1, 10)) == before.next_rank
    written = await store.append(await begin(store, session), [], an_end(session_state=b"three"))
    assert await store.session_state(session.id) == b"three"
    assert written.session.reset_rank == before.next_rank
    assert await store.session_state(session.id, before.next_rank) is None


async def test_no_state_is_reset_while_an_exchange_runs_or_waits(store: Store) -> None:
    session = a_session()
    await store.create_session(session)
    await store.append(await begin(store, session), [], an_end(session_state=b"one"))
    fence = await begin(store, session)
    with pytest.raises(SessionBusy):
        await store.reset_state(session.id)
    await store.set_waiting(fence, a_pause())
    with pytest.raises(SessionBusy):
        await store.reset_state(session.id)
    assert await store.session_state(session.id) == b"one"


async def test_of_a_session_that_is_not_there_no_state_is_reset(store: Store) -> None:
    assert await store.reset_state(new_id()) is None
