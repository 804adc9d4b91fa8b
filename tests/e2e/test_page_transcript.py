"""The page's reducer, run in the browser: whatever the order of arrival, nothing is shown twice and nothing is lost."""

import json
from random import Random
from typing import Any

import pytest
import pytest_asyncio
from support.chat_page import ChatPage
from support.exchange_events import Event, ExchangeEvents, Message, Step, deliveries, text_part
from support.further_cases import LONG

pytestmark = [pytest.mark.chromium, pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def page(shared_page: ChatPage) -> ChatPage:
    """Of all tests: they run the page's modules, and leave the page as it is."""
    return shared_page


RUNS = 300 if LONG else 100

RUN = """async (text) => {
  const runs = JSON.parse(text);
  const transcripts = await import("/static/client/transcript.js");
  const { newTranscript, applyEvent, asked, stored, refused, missingAfter } = transcripts;
  const { timeline } = await import("/static/timeline.js");
  const frozen = (value) => {
    const fresh = value && typeof value === "object" && !Object.isFrozen(value);
    if (fresh) Object.values(Object.freeze(value)).forEach(frozen);
    return value;
  };
  const item = ({ kind, key, parts = [], streaming = false, call = null }) =>
    ({ kind, key, text: parts.map(({ text }) => text).join(""), streaming, call: call?.call_id });
  const apply = (transcript, step) => {
    if (step.asked) return asked(transcript, step.asked, step.text);
    if (step.refused) return refused(transcript, step.refused);
    if (step.listed) return transcripts.summarised(transcript, step.listed);
    if (step.stored) return stored(transcript, step.stored);
    return applyEvent(transcript, step.event);
  };
  const touched = ({ event }, { id }) => event?.exchange_id === id || id.startsWith("ask:");
  const states = runs.map((steps) => {
    let transcript = frozen(newTranscript());
    return steps.map((step) => {
      const before = transcript;
      transcript = frozen(apply(before, frozen(step)));
      return {
        same: before === transcript,
        untouched: before.exchanges.every(
          (old) => !step.event || touched(step, old) || transcript.exchanges.includes(old),
        ),
        missingAfter: missingAfter(transcript),
        exchanges: transcript.exchanges.map((exchange) => ({
          id: exchange.id,
          key: exchange.key,
          status: exchange.status,
          ranks: exchange.messages.map(({ rank }) => rank),
          items: timeline(exchange).map(item),
        })),
      };
    });
  });
  return JSON.stringify(states);
}"""

State = dict[str, Any]


async def states_after(page: ChatPage, runs: list[list[Step]]) -> list[list[State]]:
    """What the reader would see after each step of each run."""
    # As one text each way: Playwright takes its time over every single value.
    states: list[list[State]] = json.loads(await page.tab.evaluate(RUN, json.dumps(runs)))
    return states


async def final_state(page: ChatPage, *steps: Step) -> State:
    [states] = await states_after(page, [list(steps)])
    return states[-1]


def conversation(seed: int) -> tuple[list[ExchangeEvents], list[Step]]:
    """Two exchanges, and one way in which a client may hear of them; old events of the first come amid the second."""
    random = Random(seed)
    first = ExchangeEvents(random, "first", 0, client_exchange_id="mine")
    second = ExchangeEvents(random, "second", first.next_rank)
    steps = [{"asked": "mine", "text": first.messages[0]["parts"][0]["text"]}, *deliveries(first)]
    for step in deliveries(second):
        steps.append(step)
        if random.random() < 0.1:
            steps.append({"event": random.choice(first.events), "ignored": True})
    return [first, second], steps


async def test_no_order_of_arrival_doubles_or_loses_anything(page: ChatPage) -> None:
    conversations = [conversation(seed) for seed in range(RUNS)]
    runs = await states_after(page, [steps for _, steps in conversations])
    for seed, ((logs, steps), states) in enumerate(zip(conversations, runs, strict=True)):
        try:
            check_run(logs, steps, states)
        except AssertionError as error:
            error.add_note(f"seed {seed}")
            raise


def check_run(logs: list[ExchangeEvents], steps: list[Step], states: list[State]) -> None:
    messages = {message["rank"]: message for log in logs for message in log.messages}
    known: set[int] = set()
    for step, state in zip(steps, states, strict=True):
        ranks = [rank for exchange in state["exchanges"] for rank in exchange["ranks"]]
        assert ranks == sorted(set(ranks)), "one message a rank, in order"
        # A reset may have set out before the read of the store that came in ahead of it.
        assert known <= set(ranks) or is_reset(step), "no message goes away"
        known = set(ranks)
        assert state["untouched"], "an event changes its own exchange only"
        assert state["same"] or not step.get("ignored"), "what is old changes nothing"
        assert state["missingAfter"] is None
        ids = [exchange["id"] for exchange in state["exchanges"]]
        assert len(ids) == len(set(ids))
        for exchange in state["exchanges"]:
            check_shown(exchange, messages)
    check_end(logs, states[-1])


def is_reset(step: Step) -> bool:
    return "event" in step and step["event"]["type"] == "reset"


def check_shown(exchange: State, messages: dict[int, Message]) -> None:
    keys = [item["key"] for item in exchange["items"]]
    assert len(keys) == len(set(keys))
    shown = [item for item in exchange["items"] if item["text"][:1].isdigit()]
    ranks = [int(item["text"].split(".")[0]) for item in shown]
    assert ranks == sorted(set(ranks)), "texts are in order, and none is there twice"
    for rank, item in zip(ranks, shown, strict=True):
        text = messages[rank]["parts"][0]["text"]
        assert text.startswith(item["text"]) if item["streaming"] else text == item["text"]


def check_end(logs: list[ExchangeEvents], state: State) -> None:
    assert [exchange["id"] for exchange in state["exchanges"]] == [log.exchange_id for log in logs]
    assert state["exchanges"][0]["key"] == "ask:mine", "what the reader sees of an ask stays the same element"
    for log, exchange in zip(logs, state["exchanges"], strict=True):
        assert exchange["status"] == log.events[-1]["status"]
        assert exchange["ranks"] == [message["rank"] for message in log.messages]
        parts = [part for message in log.messages for part in message["parts"] if message["channel"] != "error"]
        texts = [item["text"] for item in exchange["items"] if item["kind"] != "error" and item["text"]]
        assert texts == [part["text"] for part in parts if part["type"] == "text"]
        calls = [item["call"] for item in exchange["items"] if item["kind"] == "tool"]
        assert calls == [part["call_id"] for part in parts if part["type"] == "tool_call"]


def started(seq: int = 1, **fields: Any) -> Step:
    return {"event": {"type": "started", "session_id": "s", "exchange_id": "e", "seq": seq, "agent_id": "a", **fields}}


def message(rank: int, role: str = "user", exchange_id: str = "e") -> Message:
    parts = [text_part("says", rank)]
    return {"exchange_id": exchange_id, "rank": rank, "role": role, "channel": "final", "parts": parts}


def ended(*messages: Message, seq: int = 9) -> Event:
    return {"type": "final", "session_id": "s", "exchange_id": "e", "seq": seq, "status": "ok", "messages": messages}


async def test_an_ask_that_was_sent_again_may_find_only_its_final(page: ChatPage) -> None:
    question = message(0)
    ask = {"asked": "mine", "text": question["parts"][0]["text"]}
    state = await final_state(page, ask, {"event": ended(question, message(1, "assistant"))})
    [exchange] = state["exchanges"]
    assert (exchange["id"], exchange["key"], exchange["status"]) == ("e", "ask:mine", "ok")
    assert [item["kind"] for item in exchange["items"]] == ["user", "final"]


async def test_a_refused_ask_leaves_nothing_behind(page: ChatPage) -> None:
    state = await final_state(page, {"asked": "mine", "text": "hello"}, {"refused": "mine"})
    assert state["exchanges"] == []


async def test_an_ask_whose_exchange_is_read_from_the_store_is_that_exchange(page: ChatPage) -> None:
    told = {"id": "e", "client_exchange_id": "mine", "agent_id": "a", "status": "ok", "resumable": False}
    listed = {"listed": [{**told, "started_at": "2026-01-01T00:00:00Z", "activities": []}]}
    asks = {"asked": "mine", "text": message(0)["parts"][0]["text"]}
    state = await final_state(page, asks, {"stored": [message(0), message(1, "assistant")]}, listed)
    assert [(exchange["id"], exchange["status"]) for exchange in state["exchanges"]] == [("e", "ok")]


async def test_a_gap_between_ranks_is_noticed(page: ChatPage) -> None:
    first, third = [message(0)], [message(2, exchange_id="later")]
    assert (await final_state(page, {"stored": first}, {"stored": third}))["missingAfter"] == 0
    second = [message(1, "assistant")]
    assert (await final_state(page, {"stored": first}, {"stored": third}, {"stored": second}))["missingAfter"] is None


async def test_a_final_without_its_middle_is_filled_from_the_store(page: ChatPage) -> None:
    rows = [message(0), *(message(rank, "assistant") for rank in range(1, 6))]
    final = {"event": ended(rows[0], *rows[4:])}
    assert (await final_state(page, final))["missingAfter"] == 0
    state = await final_state(page, final, {"stored": rows[1:5]})
    assert state["missingAfter"] is None
    [exchange] = state["exchanges"]
    assert (exchange["ranks"], exchange["status"]) == (list(range(6)), "ok")


async def test_what_the_page_does_not_know_changes_nothing(page: ChatPage) -> None:
    unknown = {"type": "confetti", "session_id": "s", "exchange_id": "e", "seq": 2}
    no_exchange = {"type": "session", "session": {"id": "s"}}
    before = await final_state(page, started())
    assert (await final_state(page, started(), {"event": unknown}))["exchanges"] == before["exchanges"]
    assert (await final_state(page, started(), {"event": no_exchange}))["exchanges"] == before["exchanges"]


async def test_an_exchange_whose_end_was_missed_does_not_run_for_ever(page: ChatPage) -> None:
    text = {"type": "delta", "session_id": "s", "exchange_id": "e", "seq": 2, "block": 0, "channel": "final"}
    idle = {"type": "idle", "session_id": "s", "next_rank": 2}
    state = await final_state(page, started(), {"event": {**text, "text": "half an "}}, {"event": idle})
    [exchange] = state["exchanges"]
    assert exchange["status"] is None and exchange["items"] == []
    assert state["missingAfter"] == -1
