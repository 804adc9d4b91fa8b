"""Titles that wait: how many are asked for at once, whose turn it is, and what a full queue drops."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from support.held_agents import Hold, held_graph
from support.recorded_agents import eventually
from support.sessions import Sessions, events_of
from support.titled_sessions import answered, is_titled, title_model, titled_sessions

from agentic_backend.auth.user import User
from agentic_backend.sessions.asking import titles


@asynccontextmanager
async def calling_models(sessions: Sessions, hold: Hold, count: int) -> AsyncIterator[None]:
    """So many model calls run in the block."""
    logs = [await sessions.begin("hello", agent_id="held", user=User(id=f"held {n}", name="")) for n in range(count)]
    await eventually(lambda: hold.held == count)
    yield
    hold.released.set()
    for log in logs:
        await events_of(log)


async def answered_of(sessions: Sessions, user_id: str, message: str) -> str | None:
    log = await sessions.begin(message, user=User(id=user_id, name=""))
    await events_of(log)
    return log.session_id


async def test_one_title_is_asked_for_where_few_models_run(tmp_path: Path) -> None:
    model = title_model()
    model.go_on.clear()
    async with titled_sessions(tmp_path, model) as sessions:
        ids = [await answered(sessions, f"hello {number}") for number in range(3)]
        await asyncio.sleep(0.05)
        assert [prompt[-1].text for prompt in model.journal.prompts] == ["hello 0"]
        model.go_on.set()
        for session_id in ids:
            await is_titled(sessions, session_id, "A good name")
        assert [prompt[-1].text for prompt in model.journal.prompts] == ["hello 0", "hello 1", "hello 2"]


async def test_no_more_titles_are_asked_for_than_a_tenth_of_the_running_model_calls(tmp_path: Path) -> None:
    model, hold = title_model(), Hold()
    model.go_on.clear()
    async with titled_sessions(tmp_path, model, agents={"held": held_graph(hold)}) as sessions:
        async with calling_models(sessions, hold, 49):
            for number in range(4):
                await answered_of(sessions, "one", f"one {number}")
            await asyncio.sleep(0.05)
            assert len(model.journal.prompts) == 2, "one user's don't take all places"
            for number in range(4):
                await answered_of(sessions, "two", f"two {number}")
            await asyncio.sleep(0.05)
            asked = sorted(prompt[-1].text for prompt in model.journal.prompts)
            assert asked == ["one 0", "one 1", "two 0", "two 1"]
        model.go_on.set()
        await eventually(lambda: len(model.journal.prompts) == 8 + 49)


async def test_a_title_waits_for_the_first_token_of_an_exchange_that_starts(tmp_path: Path) -> None:
    model, hold = title_model(), Hold()
    agents = {"thinking": held_graph(hold, says_first=False)}
    async with titled_sessions(tmp_path, model, agents=agents) as sessions:
        logs = [await sessions.begin("hello", agent_id="thinking", user=User(id="other", name=""))]
        await eventually(lambda: hold.held == 1)
        session_id = await answered(sessions)
        await asyncio.sleep(0.2)
        assert not model.journal.prompts
        hold.released.set()
        await is_titled(sessions, session_id, "A good name")
        await events_of(logs[0])


async def test_users_take_turns(tmp_path: Path) -> None:
    model = title_model()
    model.go_on.clear()
    async with titled_sessions(tmp_path, model) as sessions:
        for number in range(4):
            await answered_of(sessions, "one", f"one {number}")
        last = await answered_of(sessions, "two", "two")
        model.go_on.set()
        async with asyncio.timeout(10):
            while (await sessions.session(last)).title != "A good name":
                await asyncio.sleep(0.01)
        await eventually(lambda: len(model.journal.prompts) == 5)
    order = [prompt[-1].text for prompt in model.journal.prompts]
    assert order.index("two") < order.index("one 2")


async def test_a_full_queue_drops_the_oldest_of_whoever_has_the_most(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(titles, "_WAITING_AT_MOST", 3)
    model = title_model()
    model.go_on.clear()
    async with titled_sessions(tmp_path, model) as sessions:
        modest = [await answered_of(sessions, "two", "two 0"), await answered_of(sessions, "two", "two 1")]
        greedy = [await answered_of(sessions, "one", f"one {number}") for number in range(4)]
        model.go_on.set()
        await eventually(lambda: len(model.journal.prompts) == 4)
        for session_id in (*modest, *greedy[2:]):
            assert session_id is not None
            await is_titled(sessions, session_id, "A good name")
        assert [(await sessions.session(each)).title for each in greedy[:2]] == ["one 0", "one 1"]
        # What was dropped is named after the next exchange.
        await events_of(await sessions.begin("again", session_id=greedy[0], user=User(id="one", name="")))
        assert greedy[0] is not None
        await is_titled(sessions, greedy[0], "A good name")
        exposition = sessions.kpi.exposition("")[0].decode()
        assert 'chat_titles_total{outcome="dropped"} 2.0' in exposition
        assert 'chat_titles_total{outcome="named"} 5.0' in exposition


async def test_a_queue_full_of_users_with_one_session_each_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(titles, "_WAITING_AT_MOST", 3)
    model = title_model()
    model.go_on.clear()
    async with titled_sessions(tmp_path, model) as sessions:
        ids = [await answered_of(sessions, f"user {number}", f"hello {number}") for number in range(8)]
        model.go_on.set()
        for session_id in (ids[0], *ids[5:]):
            assert session_id is not None
            await is_titled(sessions, session_id, "A good name")
        last = await answered_of(sessions, "another", "hello")
        assert last is not None
        await is_titled(sessions, last, "A good name")
