"""How often a turn waits for MongoDB: docs/production.md names the round trips."""

from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph
from support.chat_client import check_exchange, final_text
from support.mongo_commands import Commands
from support.recorded_agents import eventually
from support.sessions import open_sessions

from agentic_backend.agents.agent_flow import CompiledGraph
from agentic_backend.config.topics.limits import LimitsSettings
from agentic_backend.sessions.upkeep import maintenance
from agentic_backend.stores.mongo import MongoStore

NEVER_S = 3600.0
BEFORE_THE_MODEL = [["insert exchanges", "insert messages"], ["findAndModify sessions"]]
END = [["insert messages"], ["findAndModify sessions"]]
BESIDE = [["update kpi_records"], ["update exchanges"]]
"""What no answer waits for."""

Trips = list[list[str]]


def in_order(trips: Trips) -> Trips:
    return [sorted(trip) for trip in trips]


def watching_graph(commands: Commands, seen: list[Trips]) -> CompiledGraph:
    """Notes what had been sent when its model would be called."""

    def answer(state: MessagesState) -> dict[str, Any]:
        seen.append(in_order(commands.trips))
        return {"messages": [AIMessage(f"{len(state['messages'])} messages")]}

    graph = StateGraph(MessagesState)
    graph.add_node("answer", answer)
    graph.add_edge(START, "answer")
    return graph.compile()


async def asked_in(
    mongodb_url: str, tmp_path: Path, limits: LimitsSettings, *, times: int
) -> tuple[list[Trips], Trips, str]:
    """What was sent before the model, at each of so many asks in a session whose agent is cached.

    What was sent for the last one in all, and its answer.
    """
    commands, seen = Commands(), list[Trips]()
    store = await MongoStore.open(mongodb_url, timeout_s=20, event_listeners=[commands])
    agents = {"watching": watching_graph(commands, seen)}
    async with open_sessions(tmp_path, agents, database=store, limits=limits, lease_s=3 * NEVER_S) as sessions:
        session_id = (await sessions.ask("first"))[0]["session_id"]
        for number in range(times):
            await sessions.idle(session_id)
            # A title may still be on its way.
            await eventually(lambda: not sessions.relay._tasks)
            await commands.quiet()
            commands.clear()
            events = await sessions.ask("again", session_id=session_id, client_exchange_id=f"mine {number}")
            check_exchange(events)
        await eventually(lambda: not sessions.relay._tasks)
        await commands.quiet()
        turn = in_order(commands.trips)
    return seen[1:], turn, final_text(events)


@pytest.fixture(autouse=True)
def no_maintenance(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its round trips would come in between."""
    for name in ("_PARTIALS_EVERY_S", "_LOOK_EVERY_S", "_LOOK_AT_DELETIONS_EVERY_S", "COMPARE_CLOCKS_EVERY_S"):
        monkeypatch.setattr(maintenance, name, NEVER_S)


async def test_a_turn_of_a_cached_agent_waits_four_times(mongodb_url: str, tmp_path: Path) -> None:
    seen, turn, answer = await asked_in(mongodb_url, tmp_path, LimitsSettings(), times=2)
    assert turn == [*BEFORE_THE_MODEL, *END, *BESIDE]
    assert seen == [BEFORE_THE_MODEL] * 2
    assert answer == "5 messages", "the agent remembers"


async def test_a_limit_of_what_waits_takes_one_round_trip_more(mongodb_url: str, tmp_path: Path) -> None:
    seen, _, _ = await asked_in(mongodb_url, tmp_path, LimitsSettings(waiting_per_user=5), times=1)
    assert seen == [[["aggregate exchanges"], *BEFORE_THE_MODEL]]
