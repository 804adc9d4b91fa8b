"""Branches: what their agents start from, who may fork, and what goes with a session that is deleted."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.chat_client import check_exchange, final_text
from support.compacting import Given, activities, asked, begun, compacted, compacting, summaries, summariser, turns
from support.held_agents import Hold, held_graph
from support.noting_agent import noting_graph
from support.recorded_agents import echoing_graph, metric
from support.session_fixtures import Serve
from support.sessions import USER, WHOLE_HISTORY, Sessions, events_of, open_sessions, until

from agentic_backend.auth.user import User
from agentic_backend.config.topics.limits import LimitsSettings
from agentic_backend.errors import (
    BadFrame,
    LimitReached,
    RateLimited,
    SessionBusy,
    SessionNotFound,
)
from agentic_backend.protocol.messages import SessionState
from agentic_backend.sessions import branches
from agentic_backend.sessions.users.attachments import Attachments
from agentic_backend.stores.base import STATES_KEPT
from agentic_backend.stores.records import SessionRecord
from agentic_backend.stores.tables import MESSAGES, SESSIONS

NOTING = {"noting": noting_graph(), "other": noting_graph("other ")}


async def say(sessions: Sessions, message: str, session_id: str | None = None, **fields: Any) -> tuple[str, str]:
    """The answer to `message`, and the session's id."""
    events = await sessions.ask(message, session_id=session_id, **fields)
    check_exchange(events)
    return final_text(events), events[0]["session_id"]


async def fork(sessions: Sessions, session_id: str | None, rank: int) -> SessionRecord:
    return await sessions.branches.fork(USER, session_id or "", rank)


@pytest.mark.parametrize("cache_size", [1, 8])
async def test_the_agents_of_a_branch_start_from_where_it_begins(serve: Serve, cache_size: int) -> None:
    async with serve(NOTING, cache_size=cache_size) as sessions:
        _, root = await say(sessions, "note this")
        await say(sessions, "note that", root)
        await say(sessions, "note theirs", root, agent_id="other")
        for rank, expected in ((0, "1 None new"), (2, "2 this note this|new"), (4, "3 that note this|note that|new")):
            branch = await fork(sessions, root, rank)
            assert (await say(sessions, "new", branch.id))[0] == expected
            assert (await say(sessions, "more", branch.id))[0].endswith("new|more")
        late = await fork(sessions, root, 6)
        answer, _ = await say(sessions, "b", late.id, agent_id="other")
        assert answer == "other 2 theirs note this|note that|note theirs|b"
        twig = await fork(sessions, late.id, 6)
        assert (await say(sessions, "c", twig.id))[0] == "3 that note this|note that|note theirs|c"
        assert (await say(sessions, "d", root))[0] == "3 that note this|note that|note theirs|d", "it is as it was"


async def test_a_branch_of_a_branch_goes_on_after_a_restart(tmp_path: Path) -> None:
    async with open_sessions(tmp_path, NOTING) as sessions:
        _, root = await say(sessions, "note this")
        branch = await fork(sessions, root, 2)
        await say(sessions, "note that", branch.id)
        twig = await fork(sessions, branch.id, 4)
    async with open_sessions(tmp_path, NOTING) as sessions:
        assert (await say(sessions, "a", twig.id))[0] == "3 that note this|note that|a"
        assert (await say(sessions, "b", branch.id))[0] == "3 that note this|note that|b"
        assert (await say(sessions, "c", root))[0] == "2 this note this|c"


async def test_where_no_state_is_kept_any_more_the_messages_serve(tmp_path: Path) -> None:
    async with open_sessions(tmp_path, NOTING, profiles=WHOLE_HISTORY) as sessions:
        _, root = await say(sessions, "note this")
        for _ in range(STATES_KEPT + 1):
            await say(sessions, "a", root)
        branch = await fork(sessions, root, 2)
        assert (await say(sessions, "b", branch.id))[0] == "1 None note this|b"


async def test_what_a_reset_has_taken_stays_taken_in_branches(serve: Serve) -> None:
    async with serve(NOTING) as sessions:
        _, root = await say(sessions, "note this")
        await say(sessions, "a", root)
        before = await fork(sessions, root, 2)
        await sessions.service.reset_state(USER, root)
        await say(sessions, "b", root)
        for rank, expected in ((2, "1 None new"), (4, "1 None new"), (6, "2 None b|new")):
            branch = await fork(sessions, root, rank)
            assert branch.reset_rank == min(4, rank)
            assert (await say(sessions, "new", branch.id))[0] == expected
        assert (await say(sessions, "c", before.id))[0] == "2 this note this|c", "the reset was the root's"


async def test_a_branch_begins_with_the_summary_that_held_there(tmp_path: Path) -> None:
    given = Given()
    async with compacting(tmp_path, summariser("first", "second", "third"), given) as sessions:
        root = await begun(sessions, 5)
        first = await compacted(sessions, root)
        await asked(sessions, root, "q5", "q6", "q7")
        second = await compacted(sessions, root, not_to=first.summary_id)
        early, middle, late = [await fork(sessions, root, rank) for rank in (4, 12, second.next_rank)]
        assert early.summary_id is None
        await asked(sessions, early.id, "new")
        assert given.last == turns(0, 1)
        for branch, text in ((middle, "first"), (late, "second")):
            [own] = await summaries(sessions, branch.id)
            assert (own.id, own.text) == (branch.summary_id, text)
        await sessions.service.reset_state(USER, root)
        events = await asked(sessions, middle.id, "new")
        assert "first" in given.last[0] and given.last[1:] == turns(3, 5) and activities(events) == []


async def test_no_summary_is_taken_of_what_an_ancestor_was_told_later(tmp_path: Path) -> None:
    """The first answer of a branch is asked for anew, whose parent was compacted before the branch went on."""
    given = Given()
    async with compacting(tmp_path, summariser("of the root", "of the branch"), given) as sessions:
        root = await begun(sessions, 5)
        await compacted(sessions, root)
        branch = await fork(sessions, root, 4)
        await asked(sessions, branch.id, "n2", "n3", "n4")
        await compacted(sessions, branch.id)
        again = await fork(sessions, branch.id, 4)
        assert (again.summary_id, await summaries(sessions, again.id)) == (None, [])
        await asked(sessions, again.id, "new")
        assert given.last == turns(0, 1)


async def test_a_fork_is_a_session_of_its_own_that_keeps_what_holds_for_both(serve: Serve) -> None:
    async with serve({"echo": echoing_graph()}) as sessions:
        _, root_id = await say(sessions, "hi", chat_profile="default")
        await say(sessions, "again", root_id)
        root = await sessions.session(root_id)
        branch = await fork(sessions, root_id, 2)
        kept = await sessions.session(branch.id)
        # Either may have got its name meanwhile.
        assert branch == replace(kept, title=branch.title, unnamed=branch.unnamed)
        assert (branch.root_id, branch.parent) == (root_id, branch.lineage[-1])
        assert (branch.title.lower(), branch.agent_id) == (root.title.lower(), root.agent_id)
        assert branch.chat_profile == root.chat_profile
        assert (branch.next_rank, branch.message_count, branch.turn_count) == (2, 2, 1)
        assert branch.created_at >= root.updated_at and branch.updated_at == branch.created_at
        assert metric(sessions.kpi, "chat_sessions_created_total", agent_id="echo") == 2
        assert [one.id for one in await sessions.branches.family(USER, branch.id)] == [root_id, branch.id]


async def test_a_fork_needs_a_place_where_an_exchange_begins(sessions: Sessions) -> None:
    _, session_id = await say(sessions, "hi", agent_id="echo")
    for rank in (1, 3, 2**53):
        with pytest.raises(BadFrame, match=r"^rank: "):
            await fork(sessions, session_id, rank)
    branch = await fork(sessions, session_id, 2)
    with pytest.raises(BadFrame, match=r"^rank: "):
        await fork(sessions, branch.id, 1)
    for other_user, rank in ((User("bob", ""), 0), (User("bob", ""), 1)):
        with pytest.raises(SessionNotFound):
            await sessions.branches.fork(other_user, session_id, rank)
        with pytest.raises(SessionNotFound):
            await sessions.branches.family(other_user, session_id)


async def test_while_an_exchange_runs_only_earlier_places_are_forked(sessions: Sessions, hold: Hold) -> None:
    _, session_id = await say(sessions, "hi", agent_id="echo")
    running = await sessions.begin("wait", session_id=session_id, agent_id="held")
    await until(running, "delta")
    for rank in (2, (await sessions.session(session_id)).next_rank):
        with pytest.raises(SessionBusy):
            await fork(sessions, session_id, rank)
    branch = await fork(sessions, session_id, 0)
    assert (await say(sessions, "meanwhile", branch.id, agent_id="echo"))[0] == "echo: meanwhile"
    hold.released.set()
    assert (await events_of(running))[-1]["status"] == "ok"


async def test_a_completed_session_goes_on_in_a_branch(sessions: Sessions) -> None:
    _, session_id = await say(sessions, "hi", agent_id="echo")
    await sessions.service.complete(USER, session_id)
    branch = await fork(sessions, session_id, 2)
    assert branch.state is SessionState.ACTIVE and branch.ended_at is None
    assert (await say(sessions, "more", branch.id, agent_id="echo"))[0] == "echo: more"
    assert (await sessions.session(session_id)).state is SessionState.COMPLETED


async def test_an_interrupted_exchange_stays_with_the_session_that_began_it(tmp_path: Path) -> None:
    hold = Hold()
    async with open_sessions(tmp_path, {"held": held_graph(hold)}, grace_s=0) as sessions:
        running = await sessions.begin("wait")
        await until(running, "delta")
        session_id = running.session_id
    async with open_sessions(tmp_path, {"held": held_graph(hold), "echo": echoing_graph()}) as sessions:
        session = await sessions.session(session_id)
        branch = await fork(sessions, session_id, session.next_rank)
        await say(sessions, "on", branch.id, agent_id="echo")
        assert (await sessions.record(running.exchange_id)).session_id == session_id
        assert [row["rank"] for row in await sessions.stored(branch.id)] == list(range(session.next_rank + 2))


async def test_families_lineages_and_empty_branches_are_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(branches, "LARGEST_FAMILY", 4)
    monkeypatch.setattr(branches, "LONGEST", 2)
    limits = LimitsSettings(empty_sessions_per_user=2)
    async with open_sessions(tmp_path, {"echo": echoing_graph()}, limits=limits) as sessions:
        _, root = await say(sessions, "hi")
        session_id = root
        for _ in range(2):
            session_id = (await fork(sessions, session_id, (await sessions.session(session_id)).next_rank)).id
            await say(sessions, "hi", session_id)
        with pytest.raises(LimitReached, match="2 sessions"):
            await fork(sessions, session_id, (await sessions.session(session_id)).next_rank)
        await fork(sessions, root, 2)
        with pytest.raises(LimitReached, match="3 branches"):
            await fork(sessions, root, 2)
        _, other = await say(sessions, "hi")
        await fork(sessions, other, 2)
        await sessions.service.open(USER, None, None, None)
        with pytest.raises(RateLimited):
            await fork(sessions, other, 2)


async def test_what_runs_in_branches_stops_before_all_is_deleted(sessions: Sessions) -> None:
    _, root = await say(sessions, "hi", agent_id="echo")
    branch = await fork(sessions, root, 2)
    running = await sessions.begin("wait", session_id=branch.id, agent_id="held")
    await until(running, "delta")
    await sessions.service.delete(USER, root)
    assert (await events_of(running))[-1]["status"] == "stopped"
    for table in (SESSIONS, MESSAGES):
        assert await sessions.store.real.page(table, None, 10) == []
    with pytest.raises(SessionNotFound):
        await sessions.service.get(USER, branch.id)


async def test_a_branch_that_is_forked_during_a_deletion_is_told_as_gone(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serve({"echo": echoing_graph()}) as sessions:
        _, root = await say(sessions, "hello")
        late: list[SessionRecord] = []

        async def forks_first(attachments: Attachments, session_id: str) -> None:
            late.append(await fork(sessions, root, 2))

        told: list[str] = []
        monkeypatch.setattr(Attachments, "remove_of_session", forks_first)
        monkeypatch.setattr(
            sessions.relay, "on_list_changed", lambda user_id, session_id, ended: told.append(session_id)
        )
        await sessions.service.delete(USER, root)
        assert set(told[-2:]) == {root, late[0].id}
        assert await sessions.store.real.family(root) == []


async def test_the_deletion_of_a_branch_leaves_its_parents_whole(sessions: Sessions) -> None:
    _, root = await say(sessions, "hi", agent_id="echo")
    branch = await fork(sessions, root, 2)
    await say(sessions, "more", branch.id, agent_id="echo")
    twig = await fork(sessions, branch.id, 4)
    before = await sessions.stored(root)
    await sessions.service.delete(USER, branch.id)
    assert await sessions.stored(root) == before
    assert [one.id for one in await sessions.branches.family(USER, root)] == [root]
    with pytest.raises(SessionNotFound):
        await sessions.service.get(USER, twig.id)


async def test_the_export_has_each_row_once(tmp_path: Path) -> None:
    async with open_sessions(tmp_path, {"echo": echoing_graph()}) as sessions:
        _, root = await say(sessions, "hi")
        branch = await fork(sessions, root, 2)
        await say(sessions, "more", branch.id)
        lines = [json.loads(line) async for line in sessions.user_export.lines(USER.id, for_admin=True)]
        rows = [line["row"] for line in lines if line.get("table") == MESSAGES.name]
        assert sorted((row["session_id"] == root, row["rank"]) for row in rows) == [
            (False, 2),
            (False, 3),
            (True, 0),
            (True, 1),
        ]


async def test_a_users_deletion_takes_families_along(sessions: Sessions) -> None:
    _, root = await say(sessions, "hi", agent_id="echo")
    branch = await fork(sessions, root, 2)
    await say(sessions, "more", branch.id, agent_id="echo")
    await fork(sessions, branch.id, 4)
    await sessions.user_deletions.delete(USER.id)
    for table in (SESSIONS, MESSAGES):
        assert await sessions.store.real.page(table, None, 10) == []


async def test_two_forks_at_once_are_two_branches(sessions: Sessions) -> None:
    _, root = await say(sessions, "hi", agent_id="echo")
    forked = await asyncio.gather(*(fork(sessions, root, 0) for _ in range(4)))
    answers = await asyncio.gather(*(say(sessions, one.id, one.id, agent_id="echo") for one in forked))
    assert [answer for answer, _ in answers] == [f"echo: {one.id}" for one in forked]
    assert len({one.id for one in forked}) == 4
