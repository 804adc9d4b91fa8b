"""Branches in every store: they share what their ancestors have below them, whichever database is beneath it."""

import random
from datetime import timedelta
from itertools import pairwise

from agentic_backend.stores.base import STATES_KEPT, Store
from agentic_backend.stores.lineage import spans_of
from agentic_backend.stores.protocol.message_search import MessageSearch
from agentic_backend.stores.protocol.trail import SummaryRecord, TrailQuery
from agentic_backend.stores.records import MessageRecord, SessionRecord
from agentic_backend.stores.tables import EXCHANGES, MESSAGES, SESSIONS, session_tables
from tests.stores.samples import (
    EPOCH,
    a_branch,
    a_pause,
    a_session,
    an_end,
    an_exchange,
    answer,
    begin,
    fork,
    new_id,
    question,
    run_exchanges,
)
from tests.stores.trail_samples import one_of_each

DEEP = 40
"""Less than a lineage may have: FerretDB takes long for each."""

Place = tuple[str | None, int]
"""The session that has a row, and its rank."""


async def talked(store: Store, exchanges: int = 2, **fields: object) -> SessionRecord:
    """A session with some exchanges of two messages each."""
    session = a_session(**fields)  # type: ignore[arg-type]
    await store.create_session(session)
    await run_exchanges(store, session, exchanges)
    return await reread(store, session)


async def reread(store: Store, session: SessionRecord) -> SessionRecord:
    found = await store.get_session(session.id)
    assert found is not None
    return found


def places(messages: list[MessageRecord]) -> list[Place]:
    return [(message.session_id, message.rank) for message in messages]


async def transcript(store: Store, session_id: str) -> list[Place]:
    return places(await store.messages_after(session_id, -1, 1_000))


async def own_rows(store: Store, session_id: str) -> dict[str, int]:
    """How many rows there are of each kind that belongs to this session itself."""
    return {table.name: len(await store.page(table, None, 1_000, session_id=session_id)) for table in session_tables()}


async def test_a_branch_shares_what_is_below_it_and_copies_no_row(store: Store) -> None:
    root = await talked(store, 3)
    branch = await fork(store, root.id, 4)
    assert await reread(store, branch) == branch
    assert (branch.next_rank, branch.message_count, branch.turn_count) == (4, 4, 2)
    assert not any((await own_rows(store, branch.id)).values())
    assert await transcript(store, branch.id) == [(root.id, rank) for rank in range(4)]
    [exchange_id] = await run_exchanges(store, branch, 1)
    await run_exchanges(store, root, 1)
    assert (await own_rows(store, branch.id))[MESSAGES.name] == 2
    assert await transcript(store, branch.id) == [
        *((root.id, rank) for rank in range(4)),
        (branch.id, 4),
        (branch.id, 5),
    ]
    assert await transcript(store, root.id) == [(root.id, rank) for rank in range(8)]
    assert [message.exchange_id for message in await store.last_exchanges(branch.id, 1)] == [exchange_id] * 2
    assert (await reread(store, branch)).turn_count == 3


async def a_family(store: Store, steps: int) -> tuple[dict[str, list[Place]], dict[str, list[int]]]:
    """A family that has grown at random: the rows of each session, and the first ranks of its exchanges."""
    chance = random.Random(7)
    first = await talked(store, 1)
    rows: dict[str, list[Place]] = {first.id: [(first.id, 0), (first.id, 1)]}
    starts: dict[str, list[int]] = {first.id: [0]}
    for _ in range(steps):
        session_id = chance.choice(list(rows))
        if chance.random() < 0.5:
            at = chance.choice([*starts[session_id], len(rows[session_id])])
            branch = await fork(store, session_id, at)
            rows[branch.id] = rows[session_id][:at]
            starts[branch.id] = [rank for rank in starts[session_id] if rank < at]
            session_id = branch.id
        session = await store.get_session(session_id)
        assert session is not None
        starts[session_id].append(session.next_rank)
        await store.append(await begin(store, session), [answer()] * chance.randint(0, 2), an_end())
        after = (await reread(store, session)).next_rank
        rows[session_id] += [(session_id, rank) for rank in range(session.next_rank, after)]
    assert len(rows) > steps / 4
    return rows, starts


async def test_messages_are_read_by_rank_in_branches_of_branches(store: Store) -> None:
    """Against a plain list of rows for each session."""
    rows, starts = await a_family(store, 16)
    for session_id, expected in rows.items():
        session = await store.get_session(session_id)
        assert session is not None and session.next_rank == session.message_count == len(expected)
        assert session.turn_count == len(starts[session_id])
        assert [rank for _, rank in expected] == list(range(len(expected)))
        for after in (-1, *range(len(expected) + 1)):
            for limit in (0, 1, 3, 100):
                found = await store.messages_after(session_id, after, limit)
                assert places(found) == expected[after + 1 :][:limit]
        assert places(await store.messages_after(session_id, -1, 100, max_bytes=1_000_000)) == expected
        for count in range(len(starts[session_id]) + 2):
            begun = starts[session_id][-count:] if count else []
            asked_for = expected[begun[0] :] if begun else []
            assert places(await store.last_exchanges(session_id, count)) == asked_for
            assert places(await store.last_exchanges(session_id, count, max_bytes=1_000_000)) == asked_for


async def test_exchanges_are_found_by_rank_in_branches_of_branches(store: Store) -> None:
    rows, starts = await a_family(store, 16)
    for session_id, expected in rows.items():
        session, begins = await store.get_session(session_id), starts[session_id]
        assert session is not None
        for rank in range(len(expected) + 2):
            assert await store.count_asked(session_id, rank) == sum(start < rank for start in begins)
            exchange = await store.exchange_at(session, rank)
            found = None if exchange is None else (exchange.session_id, exchange.first_rank)
            assert found == (expected[rank] if rank in begins else None)
            listed = [start for start in begins if start >= max(each for each in begins if each <= rank)]
            for limit in (1, 2, 100):
                page = await store.exchanges_from(session_id, rank, limit, 1_000_000)
                told = [(one.session_id, one.first_rank) for one in page.exchanges]
                assert told == [expected[start] for start in listed[:limit]]
                assert page.next_rank == (listed[limit] if limit < len(listed) else None)


async def test_a_page_of_bytes_goes_on_in_the_next_session_of_a_lineage(store: Store) -> None:
    root = await talked(store, 3)
    branch = await fork(store, root.id, 4)
    await run_exchanges(store, branch, 2)
    found: list[Place] = []
    while page := await store.messages_after(branch.id, len(found) - 1, 100, max_bytes=1):
        assert len(page) == 1
        found += places(page)
    assert found == await transcript(store, branch.id) and len(found) == 8
    sizes = set()
    for max_bytes in range(0, 1_000, 50):
        last = places(await store.last_exchanges(branch.id, 10, max_bytes=max_bytes))
        assert last == found[8 - len(last) :]
        sizes.add(len(last))
    assert sizes == {0, 2, 4, 6, 8}, "whole exchanges only"


async def test_a_lineage_may_be_long(store: Store) -> None:
    session = await talked(store, 1)
    chain = [session.id]
    for _ in range(DEEP):
        session = await fork(store, session.id, session.next_rank)
        await run_exchanges(store, session, 1)
        session = await reread(store, session)
        chain.append(session.id)
    assert [span.session_id for span in spans_of(session)] == chain
    expected = [(session_id, rank) for place, session_id in enumerate(chain) for rank in (2 * place, 2 * place + 1)]
    assert await transcript(store, session.id) == expected
    assert places(await store.last_exchanges(session.id, 3)) == expected[-6:]
    assert places(await store.messages_after(session.id, 41, 5)) == expected[42:47]
    assert await store.count_asked(session.id, session.next_rank) == DEEP + 1
    assert [one.id for one in await store.family(chain[0])] == chain
    await store.delete_session(chain[1])
    assert [one.id for one in await store.family(chain[0])] == chain[:1]
    assert [len(await store.page(table, None, 1_000)) for table in (SESSIONS, EXCHANGES, MESSAGES)] == [1, 1, 2]


async def test_regenerating_again_and_again_makes_no_lineage_longer(store: Store) -> None:
    root = await talked(store, 2)
    session = root
    for _ in range(5):
        session = await fork(store, session.id, 2)
        await run_exchanges(store, session, 1)
        session = await reread(store, session)
        assert session.parent is not None and (session.parent.session_id, session.parent.rank) == (root.id, 2)
        assert session.lineage == [session.parent]
    early = await fork(store, session.id, 0)
    assert early.parent is not None and (early.parent.session_id, early.parent.rank) == (root.id, 0)
    await run_exchanges(store, early, 1)
    assert await transcript(store, early.id) == [(early.id, 0), (early.id, 1)]


async def test_what_runs_in_a_parent_is_not_in_its_branch(store: Store) -> None:
    root = await talked(store, 1)
    fence = await begin(store, root)
    branch = await fork(store, root.id, 2)
    assert branch.active_exchange_id is None
    assert await transcript(store, branch.id) == [(root.id, 0), (root.id, 1)]
    assert len(await store.last_exchanges(branch.id, 5)) == 2
    own = await begin(store, branch)
    assert [one.id for one in await store.running_exchanges()] and own.next_rank == fence.next_rank
    await store.append(own, [answer()], an_end())
    await store.append(fence, [answer()], an_end())
    assert len(await store.last_exchanges(branch.id, 5)) == 4 == len(await store.last_exchanges(root.id, 5))


async def test_a_branch_starts_from_the_state_below_it(store: Store) -> None:
    session = a_session()
    await store.create_session(session)
    for state in (b"one", None, b"three"):
        await store.append(await begin(store, session), [answer()], an_end(session_state=state))
    for rank, state in ((0, None), (2, b"one"), (4, b"one"), (6, b"three")):
        branch = await fork(store, session.id, rank)
        assert await store.session_state(branch.id) == await store.session_state(branch.id, rank) == state
        assert await store.session_state((await fork(store, branch.id, rank)).id) == state


async def test_the_state_of_a_branch_is_its_own(store: Store) -> None:
    """The parent may forget its states, as it goes on or by a reset."""
    session = a_session()
    await store.create_session(session)
    await store.append(await begin(store, session), [answer()], an_end(session_state=b"shared"))
    branch = await fork(store, session.id, 2)
    for number in range(STATES_KEPT):
        await store.append(await begin(store, session), [], an_end(session_state=str(number).encode()))
    assert await store.session_state(session.id, 2) is None
    assert await store.session_state((await fork(store, session.id, 2)).id) is None, "too long ago"
    await store.reset_state(session.id)
    assert await store.session_state(branch.id) == b"shared"
    written = await store.append(await begin(store, branch), [answer()], an_end(session_state=b"own"))
    assert await store.session_state(branch.id) == b"own"
    assert await store.session_state(branch.id, 2) == b"shared"
    assert written.session.reset_rank is None
    await store.reset_state(branch.id)
    assert await store.session_state(branch.id) is None


async def test_what_a_reset_has_taken_is_not_taken_over(store: Store) -> None:
    session = a_session()
    await store.create_session(session)
    await store.append(await begin(store, session), [answer()], an_end(session_state=b"before"))
    branch = await fork(store, session.id, 2)
    await store.reset_state(branch.id)
    again = await fork(store, branch.id, 2, reset_rank=2)
    assert await store.session_state(again.id) is None
    assert await store.session_state((await fork(store, session.id, 2)).id) == b"before"


async def test_a_branch_is_stored_with_its_summary(store: Store) -> None:
    root = await talked(store, 1)
    summary = next(one for one in one_of_each(root.id) if isinstance(one, SummaryRecord))
    branch = a_branch(root, 2, summary_id=summary.id)
    own = SummaryRecord(**{name: getattr(summary, name) for name in summary.__slots__} | {"session_id": branch.id})
    forked = await store.fork_session(branch, own)
    assert forked is not None and forked.summary_id == own.id
    page = await store.trail(TrailQuery(SummaryRecord, {"session_id": branch.id}))
    assert page.records == [own]


async def test_of_a_session_that_is_gone_nothing_is_forked(store: Store) -> None:
    root = await talked(store, 1)
    branch = a_branch(root, 2)
    await store.delete_session(root.id)
    assert await store.fork_session(branch, None) is None
    assert await store.get_session(branch.id) is None
    assert not any((await own_rows(store, branch.id)).values())
    assert await store.family(root.id) == []


async def test_a_deletion_takes_all_that_descends_and_nothing_else(store: Store) -> None:
    """A root with the branches `left` and `right`; of `left` come `twig` and `late`, and `leaf` of `twig`."""
    root = await talked(store, 2)
    left = await fork(store, root.id, 2)
    await run_exchanges(store, left, 2)
    right = await fork(store, root.id, 2)
    await run_exchanges(store, right, 1)
    twig = await fork(store, left.id, 4)
    await run_exchanges(store, twig, 1)
    leaf = await fork(store, twig.id, 6)
    late = await fork(store, left.id, 6)
    other = await talked(store, 1)
    for each in (root, left, right, twig, leaf, late):
        await store.add_trail(one_of_each(each.id))
    await store.set_waiting(await begin(store, late), a_pause())
    kept = {each.id: await transcript(store, each.id) for each in (root, left, right, late, other)}

    assert set(await store.delete_session(twig.id)) == {twig.id, leaf.id}
    assert await store.delete_session(twig.id) == []
    for gone in (twig, leaf):
        assert await store.get_session(gone.id) is None
        assert not any((await own_rows(store, gone.id)).values())
        assert await transcript(store, gone.id) == []
    assert {session_id: await transcript(store, session_id) for session_id in kept} == kept

    await store.delete_session(left.id)
    assert [one.id for one in await store.family(root.id)] == [root.id, right.id]
    assert {one: await transcript(store, one) for one in (root.id, right.id)} == {
        one: kept[one] for one in (root.id, right.id)
    }
    assert await store.count_waiting("ann") == 0

    await store.delete_session(root.id)
    assert await store.family(root.id) == []
    for table in (SESSIONS, EXCHANGES, MESSAGES):
        rows = await store.page(table, None, 100)
        assert {getattr(row, "session_id", None) or getattr(row, "id") for row in rows} == {other.id}, table.name  # noqa: B009


async def test_a_family_is_idle_when_all_of_it_is(store: Store) -> None:
    old = await talked(store, 1)
    young = await talked(store, 1)
    before = (await reread(store, young)).updated_at + timedelta(days=1)
    after = before + timedelta(minutes=1)
    for root, at in ((old, EPOCH), (young, after)):
        await fork(store, root.id, 2, updated_at=EPOCH)
        await fork(store, root.id, 2, updated_at=at)
    running = await talked(store, 1)
    await begin(store, await fork(store, running.id, 2))
    assert [one.id for one in await store.idle_families(before, 10)] == [old.id]
    assert [one.id for one in await store.idle_families(before, 1)] == [old.id]
    await store.delete_session(running.id)
    assert [one.id for one in await store.idle_families(after + timedelta(minutes=1), 10)] == [old.id, young.id]
    assert [one.id for one in await store.idle_families(after + timedelta(minutes=1), 1)] == [old.id]


async def test_a_hit_belongs_to_the_session_that_has_the_row(store: Store) -> None:
    session = a_session()
    exchange = an_exchange(session)
    begun = await store.begin_exchange(exchange, question("shared words"), session)
    branch = await fork(store, session.id, 1)
    found = await store.find_messages(MessageSearch("ann", ["shared"]))
    assert places(found) == [(session.id, 0)] and begun.session.next_rank == 1
    for own in (session, branch):
        assert await store.find_messages(MessageSearch("ann", ["shared"], not_session=own.id)) == []
    assert len(await store.find_messages(MessageSearch("ann", ["shared"], not_session=new_id()))) == 1


async def test_ranks_have_no_gap_and_no_repeat_where_branches_go_on_by_turns(store: Store) -> None:
    root = await talked(store, 1)
    branches = [root, await fork(store, root.id, 2), await fork(store, root.id, 2)]
    for _ in range(2):
        for session in branches:
            await run_exchanges(store, session, 1)
    for session in branches:
        ranks = [rank for _, rank in await transcript(store, session.id)]
        assert ranks[0] == 0 and all(later == earlier + 1 for earlier, later in pairwise(ranks)) and len(ranks) == 6
