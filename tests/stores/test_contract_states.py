"""What every store keeps of the states that a session's exchanges leave, whichever database is beneath it."""

from agentic_backend.stores.base import STATES_KEPT, Store
from tests.stores.samples import a_session, an_end, answer, begin


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
