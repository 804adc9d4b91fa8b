"""Tools: several at once, one whose result is the end, and custom events on the way."""

from collections.abc import Iterator

import pytest
from graphs.parallel_tools import slow_may_end
from graphs.talk import activities, ask, stop_at, told
from support.chat_client import chat, check_exchange, final_text
from support.phrase_model import RECITE
from support.running_server import RunningServer

ALL = 'call slow(word="a") and call failing(word="b") and call fast(word="c")'


@pytest.fixture
def held_slow_tool() -> Iterator[None]:
    slow_may_end.clear()
    yield
    slow_may_end.set()


@pytest.mark.usefixtures("held_slow_tool")
async def test_tools_that_run_at_once_each_give_their_result_as_it_comes(server: RunningServer) -> None:
    async with chat(server.address) as client:
        await client.send({"message": ALL, "agent_id": "parallel-tools"})
        for _ in ("failing", "fast"):
            while not _is(await client.until("stream"), "tool_result"):
                continue
        slow_may_end.set()
        await client.until("final")
    events = [event for event in client.events if "seq" in event]
    check_exchange(events)
    assert events[-1]["status"] == "ok"
    observation, calls, *results, (channel, _) = told(events)
    assert observation == ("observation", "Let me look that up with `slow`, `failing` and `fast`.")
    assert calls == ("tool_call", "slow, failing, fast")
    assert [kind for kind, _ in results] == ["tool_result"] * 3
    assert results[-1] == ("tool_result", "slow a"), "the slow one comes last"
    assert channel == "final"
    parts = [message["parts"][0] for message in events[-1]["messages"] if message["channel"] == "tool_result"]
    assert {part["content"]: part["ok"] for part in parts if part["ok"]} == {"fast c": True, "slow a": True}
    assert [part["ok"] for part in parts].count(False) == 1


async def test_results_are_restored_in_the_order_of_their_calls(server: RunningServer) -> None:
    session_id = (await ask(server.address, ALL, agent_id="parallel-tools"))[0]["session_id"]
    recited = final_text(await ask(server.address, RECITE, session_id=session_id)).splitlines()
    assert recited[1].endswith("[slow(word='a')] [failing(word='b')] [fast(word='c')]")
    assert [line.partition(":")[0] for line in recited[2:5]] == ["tool slow", "tool failing", "tool fast"]


async def test_a_stop_while_tools_run_leaves_a_conversation_that_can_go_on(server: RunningServer) -> None:
    final = await stop_at(server.address, "tool_result", 'call fast(word="a") and call wait()', "parallel-tools")
    assert [message["channel"] for message in final["messages"]].count("tool_result") == 2
    recited = final_text(await ask(server.address, RECITE, session_id=final["session_id"])).splitlines()
    assert recited[2:] == ["tool fast: fast a", "tool wait: Stopped before it gave a result."]


async def test_a_graph_that_ends_on_a_tool_result_has_it_as_its_final(server: RunningServer) -> None:
    events = await ask(server.address, 'call tell(word="amen")', agent_id="ends-on-tool")
    assert told(events) == [
        ("tool_call", "tell"),
        ("tool_result", "The last word is amen"),
        ("final", "The last word is amen"),
    ]
    recited = final_text(await ask(server.address, RECITE, session_id=events[0]["session_id"]))
    assert recited.endswith("tool tell: The last word is amen"), "the graph left no message of its own"


async def test_custom_events_are_progress(server: RunningServer) -> None:
    events = await ask(server.address, "call load(rows=3)", agent_id="custom-events")
    rows = [{"row": row, "of": 3} for row in range(3)]
    assert activities(events, "progress") == [{"value": "beginning"}, *rows]
    places = [place for place, event in enumerate(events) if event.get("kind") == "progress"]
    call, result = (
        next(place for place, event in enumerate(events) if _is(event, channel))
        for channel in ("tool_call", "tool_result")
    )
    assert places[0] < call < places[1] and places[-1] < result, "they come while it happens"


def _is(event: dict[str, object], channel: str) -> bool:
    message = event.get("message")
    return event["type"] == "stream" and isinstance(message, dict) and message["channel"] == channel
