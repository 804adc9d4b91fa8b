"""Pins, the archive, and the statuses of what is active, on every store."""

from dataclasses import replace
from typing import Any

import pytest

from agentic_backend.errors import SessionBusy
from agentic_backend.protocol.messages import ExchangeStatus, Parent
from agentic_backend.stores.base import SessionChange, SessionQuery, Store
from agentic_backend.stores.records import SessionRecord
from tests.stores.samples import a_pause, a_session, an_end, answer, begin, new_id


async def listed(store: Store, user_id: str, **query: Any) -> list[str]:
    return [session.id for session in (await store.list_sessions(SessionQuery(user_id, **query))).sessions]


def a_branch(parent: SessionRecord, root: SessionRecord, **fields: Any) -> SessionRecord:
    return a_session(parent.user_id, parent=Parent(session_id=parent.id, rank=0), root_id=root.id, **fields)


async def test_a_mark_is_no_activity_and_changes_nothing_else(store: Store) -> None:
    session = a_session(new_id())
    await store.create_session(session)
    for change, marks in (
        (SessionChange(pinned=True), {"pinned": True}),
        (SessionChange(archived=True), {"pinned": True, "archived": True}),
        (SessionChange(pinned=False, title="New"), {"archived": True, "title": "New", "unnamed": False}),
        (SessionChange(archived=False), {"title": "New", "unnamed": False}),
    ):
        expected = replace(session, **marks)
        assert await store.change_session(session.id, change) == [expected]
        assert await store.get_session(session.id) == expected


async def test_the_whole_family_is_changed_and_nobody_else(store: Store) -> None:
    user = new_id()
    root, other = a_session(user, minute=1), a_session(user, minute=2)
    branch = a_branch(root, root, minute=3)
    twig = a_branch(branch, root, minute=4)
    for session in (root, other, branch, twig):
        await store.create_session(session)
    changed = await store.change_session(branch.id, SessionChange(archived=True))
    assert changed[0] == replace(branch, archived=True)
    assert {each.id for each in changed} == {root.id, branch.id, twig.id}
    assert await listed(store, user, archived=True) == [twig.id, branch.id, root.id]
    assert await listed(store, user, archived=False) == [other.id]


async def test_a_name_is_that_of_all_in_the_family_that_have_none(store: Store) -> None:
    user = new_id()
    root, other = a_session(user, unnamed=True), a_session(user, unnamed=True)
    branch, twig = a_branch(root, root, unnamed=True), a_branch(root, root, title="Mine", unnamed=False)
    for session in (root, other, branch, twig):
        await store.create_session(session)
    named = await store.name_session(branch.id, "Weather")
    assert named[0] == replace(branch, title="Weather", unnamed=False)
    assert {each.id for each in named} == {root.id, branch.id}
    assert await store.name_session(root.id, "Late") == await store.name_session(twig.id, "Late") == []
    titles = {each.id: each.title for each in (await store.list_sessions(SessionQuery(user))).sessions}
    assert titles == {root.id: "Weather", branch.id: "Weather", twig.id: "Mine", other.id: other.title}


async def test_a_list_has_what_is_marked_or_what_is_not(store: Store) -> None:
    user = new_id()
    plain, pinned, archived = (a_session(user, minute=minute) for minute in (3, 2, 1))
    for session in (plain, pinned, archived):
        await store.create_session(session)
    await store.change_session(pinned.id, SessionChange(pinned=True))
    await store.change_session(archived.id, SessionChange(archived=True))
    await store.change_session((await made(store, new_id())).id, SessionChange(pinned=True, archived=True))
    assert await listed(store, user) == [plain.id, pinned.id, archived.id]
    assert await listed(store, user, pinned=True) == [pinned.id]
    assert await listed(store, user, pinned=False) == [plain.id, archived.id]
    assert await listed(store, user, archived=True) == [archived.id]
    assert await listed(store, user, archived=False) == [plain.id, pinned.id]
    assert await listed(store, user, archived=False, pinned=False, text="") == [plain.id]
    first = await store.list_sessions(SessionQuery(user, archived=False, limit=1))
    assert await listed(store, user, archived=False, cursor=first.next_cursor) == [pinned.id]


async def made(store: Store, user_id: str) -> SessionRecord:
    session = a_session(user_id)
    await store.create_session(session)
    return session


async def test_a_change_keeps_what_an_exchange_writes_at_the_same_time(store: Store) -> None:
    session = await made(store, new_id())
    fence = await begin(store, session)
    await store.change_session(session.id, SessionChange(pinned=True))
    written = await store.append(fence, [answer()], an_end())
    assert (written.session.pinned, written.session.next_rank) == (True, 2)


async def test_an_ask_takes_the_session_and_its_family_out_of_the_archive(store: Store) -> None:
    user = new_id()
    root = a_session(user)
    branch, other = a_branch(root, root), a_session(user)
    for session in (root, branch, other):
        await store.create_session(session)
        await store.change_session(session.id, SessionChange(archived=True, pinned=True))
    fence = await begin(store, branch)
    assert await listed(store, user, archived=True) == [other.id]
    assert set(await listed(store, user, archived=False, pinned=True)) == {root.id, branch.id}
    # Who archives it while it runs means it.
    await store.change_session(branch.id, SessionChange(archived=True))
    assert (await store.append(fence, [answer()], an_end())).session.archived
    await begin(store, branch, first_rank=0)
    assert await listed(store, user, archived=True) == [other.id]


async def test_a_refused_ask_leaves_the_archive_as_it_is(store: Store) -> None:
    user = new_id()
    session = a_session(user)
    await store.create_session(session)
    await begin(store, session)
    await store.change_session(session.id, SessionChange(archived=True))
    with pytest.raises(SessionBusy):
        await begin(store, session)
    assert await listed(store, user, archived=True) == [session.id]


async def test_statuses_tell_what_runs_waits_and_has_ended(store: Store) -> None:
    runs, waits, ended = [await begin(store, await made(store, new_id())) for _ in range(3)]
    await store.set_waiting(waits, a_pause())
    await store.append(ended, [answer()], an_end())
    ids = [fence.exchange_id for fence in (runs, waits, ended)]
    statuses = [ExchangeStatus.RUNNING, ExchangeStatus.AWAITING_HUMAN, ExchangeStatus.OK]
    assert await store.statuses([*ids, new_id()]) == dict(zip(ids, statuses, strict=True))
    assert await store.statuses([]) == {}
