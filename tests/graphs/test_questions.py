"""Questions of any graph: they arrive whole, and are answered with any JSON value, as often as a graph asks."""

import json
import re
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from graphs.deciding import answer, decide, entries, frame, on, only, requests, said, waiting
from graphs.questions import TRANSFER, Booking
from support.approval_agents import calls
from support.chat_client import ChatClient, Event, chat
from support.rest_client import rest
from support.running_server import RunningServer, running_server

ONCE = (
    "transfer",
    "plain_text",
    "booking",
    "stay",
    "plain_schema",
    "odd",
    "large",
    "numbers",
    "truths",
    "named",
    "unnamed",
    "huge",
    "lost",
    "elsewhere",
    "no_schema",
    "no_type",
    "doubling",
    "no_form",
    "no_data",
    "within_itself",
)
OFTEN = ("thrice", "until_valid", "parallel", "many", "asking_tool", "question_then_batch")
AGENTS = entries("questions", *ONCE, *OFTEN)


async def test_a_question_arrives_with_all_that_its_graph_gave(server: RunningServer, client: ChatClient) -> None:
    event = await waiting(client, "transfer")
    request = only(event)
    assert request["question"] == "Shall I go on?"
    assert request["value"] == TRANSFER
    async with rest(server) as http:
        stored = (await http.get(f"/exchanges/{event['exchange_id']}")).json()["pending"]
    assert stored == event["payload"]
    assert said(client, await answer(client, event, True)) == "bool true"


@pytest.mark.parametrize("value", [None, False, True, 0, -1.5, "", "left", [], [1, [None]], {}, {"a": {"b": 0}}])
async def test_any_json_value_is_an_answer(client: ChatClient, value: Any) -> None:
    final = await answer(client, await waiting(client, "plain_text"), value)
    kind, _, told = said(client, final).partition(" ")
    assert (kind, told) == (type(value).__name__, json.dumps(value))


@pytest.mark.parametrize(
    ("agent_id", "ids", "value", "told"),
    [
        ("numbers", None, 2, "int 2"),
        ("truths", None, False, "bool false"),
        ("named", ["a", "b"], "b", 'str "b"'),
        ("unnamed", None, {"colour": "red"}, 'dict {"colour": "red"}'),
    ],
)
async def test_whatever_a_graph_offers_can_be_chosen(
    client: ChatClient, agent_id: str, ids: list[str] | None, value: Any, told: str
) -> None:
    event = await waiting(client, agent_id)
    choices = only(event).get("choices")
    assert ids == (choices and [choice["id"] for choice in choices])
    assert said(client, await answer(client, event, value)) == told


async def test_a_number_that_was_not_offered_is_refused(client: ChatClient) -> None:
    refusal = await answer(client, await waiting(client, "numbers"), 4)
    assert (refusal["code"], refusal["refused"]) == ("bad_frame", "human_resume")


async def test_a_schema_that_is_too_large_to_be_shown_ends_the_exchange(client: ChatClient) -> None:
    error = await waiting(client, "huge")
    assert (error["code"], error["retryable"]) == ("limit_reached", False)
    assert "64 KiB" in error["content"]


@pytest.mark.parametrize(
    ("agent_id", "why"),
    [
        ("lost", "the reference '#/$defs/Lost' leads nowhere"),
        ("elsewhere", "the reference 'https://example.org/schema' leads"),
        ("no_schema", "a part of it is no JSON Schema"),
        ("no_type", "'type' is no type of JSON Schema"),
        ("doubling", "its schema is too large, with what its references stand for"),
    ],
)
async def test_a_schema_by_which_no_answer_can_be_checked_ends_the_exchange(
    client: ChatClient, caplog: pytest.LogCaptureFixture, agent_id: str, why: str
) -> None:
    error = await blaming_the_agent(client, agent_id)
    assert f"The agent asks a person with an unusable schema: {why}" in error["detail"]["text"]
    assert "exchange failed" in caplog.messages


@pytest.mark.parametrize("agent_id", ["no_form", "no_data"])
async def test_so_does_a_type_that_has_no_schema(client: ChatClient, agent_id: str) -> None:
    error = await blaming_the_agent(client, agent_id)
    assert error["detail"]["type"].startswith("pydantic.errors.")


async def blaming_the_agent(client: ChatClient, agent_id: str) -> Event:
    error = await waiting(client, agent_id)
    assert (error["code"], error["retryable"]) == ("agent_unavailable", False)
    assert "its author's schema of the answer is unusable" in error["content"]
    assert re.search(r"graphs/questions\.py:\d+ in ask$", error["detail"]["where"])
    return error


async def test_a_schema_within_itself_is_followed_to_any_depth(client: ChatClient) -> None:
    event = await waiting(client, "within_itself")
    wrong = {"to": "Rome", "via": {"to": "Bern", "via": {"to": 7}}}
    refused = await answer(client, event, wrong)
    assert refused["code"] == "bad_frame" and "via.via.to" in refused["content"]
    assert said(client, await answer(client, event, {"to": "Rome"})) == 'dict {"to": "Rome"}'


async def test_what_is_no_json_is_shown_in_its_json_form(client: ChatClient) -> None:
    assert only(await waiting(client, "odd"))["value"] == {
        "trip": {"to": "Rome", "days": "P2D", "with_": ["Ann", "Bob"]},
        "seat": {"row": 3, "window": False},
        "when": "2026-05-01",
        "ticket": "/wA=",
        "code": "abc",
        "asked": {
            "content": "to Rome",
            "additional_kwargs": {},
            "response_metadata": {},
            "type": "human",
            "name": None,
            "id": "m1",
        },
        "big": str(2**63),
        "none": None,
        "float": "NaN",
        "3": True,
    }


async def test_a_value_that_is_too_large_is_cut_and_says_so(client: ChatClient) -> None:
    event = await waiting(client, "large")
    request = only(event)
    assert request["question"] == "All of it?"
    value = request["value"]
    assert value.startswith('{"question":"All of it?","text":"ää')
    assert len(value.encode()) <= 64 * 1024
    left_out = int(value.rsplit("[cut: ", 1)[1].removesuffix(" more bytes left out]"))
    shown = value.rsplit("\n[cut: ", 1)[0]
    assert len(shown.encode()) + left_out == 200_000 + len('{"question":"All of it?","text":""}')
    assert said(client, await answer(client, event, "yes")) == 'str "yes"'


BOOKED = {"city": "Rome", "when": "2026-05-01", "seats": [{"row": 3, "window": True}]}


@pytest.mark.parametrize(
    ("agent_id", "bad", "place", "good", "heard"),
    [
        ("booking", {**BOOKED, "seats": [{"row": "x"}]}, "seats.0.row", BOOKED, "Booking"),
        ("booking", "Rome", "", BOOKED, "Booking"),
        ("stay", {"nights": 2}, "hotel is missing", {"nights": 2, "hotel": "Ritz"}, "dict"),
        ("plain_schema", 0, "minimum", 3, "int"),
        ("plain_schema", None, "integer", 3, "int"),
    ],
)
async def test_an_answer_is_checked_against_the_schema_that_is_shown(
    server: RunningServer, client: ChatClient, agent_id: str, bad: Any, place: str, good: Any, heard: str
) -> None:
    event = await waiting(client, agent_id)
    request = only(event)
    if agent_id == "booking":
        assert request["response_schema"] == Booking.model_json_schema()
    refused = await answer(client, event, bad)
    assert (refused["code"], refused["refused"]) == ("bad_frame", "human_resume")
    assert refused["content"].startswith(f"payload.answers.{request['interrupt_id']}") and place in refused["content"]
    async with rest(server) as http:
        view = (await http.get(f"/exchanges/{event['exchange_id']}")).json()
    assert (view["status"], view.get("decisions")) == ("awaiting_human", None)
    assert said(client, await answer(client, event, good)).startswith(heard)


async def test_an_answer_that_only_the_graphs_own_type_refuses_is_asked_for_again(client: ChatClient) -> None:
    """No JSON Schema says what a validator of pydantic checks."""
    event = await waiting(client, "booking")
    again = await answer(client, event, {**BOOKED, "when": "2027-04-01"})
    request = only(again)
    assert again["payload"]["title"] == "The answer was not accepted: when: no train runs on the first of April"
    assert request["interrupt_id"] != only(event)["interrupt_id"]
    assert request["response_schema"] == only(event)["response_schema"]
    told = said(client, await answer(client, again, BOOKED))
    assert Booking.model_validate_json(told.partition(" ")[2]).when == date(2026, 5, 1)


async def play(directory: Path, agent_id: str, message: str, *rounds: list[Any]) -> tuple[ChatClient, Event]:
    """Answer the questions of each round, every round on a server of its own."""
    async with running_server(directory, agents=AGENTS) as server, chat(server.address) as client:
        event = await waiting(client, agent_id, message)
    for answers in rounds:
        async with running_server(directory, agents=AGENTS) as server, chat(server.address) as client:
            event = await answer(client, event, *answers)
    return client, event


def final_of(played: tuple[ChatClient, Event]) -> str:
    _, final = played
    assert (final["type"], final.get("status")) == ("final", "ok"), final
    [answered] = [one for one in final["messages"] if one["role"] == "assistant" and one["channel"] == "final"]
    return str(answered["parts"][0]["text"])


async def test_a_node_asks_three_times_each_time_on_another_server(tmp_path: Path) -> None:
    assert final_of(await play(tmp_path, "thrice", "go", ["a"], ["b"], ["c"])) == "a b c"


async def test_a_node_asks_until_the_answer_is_valid(tmp_path: Path) -> None:
    assert final_of(await play(tmp_path, "until_valid", "go", ["x"], [None], [-1], [0])) == "0 after 3"


async def test_parallel_nodes_each_ask_twice(tmp_path: Path) -> None:
    played = await play(tmp_path, "parallel", "go", ["l1", "r1"], ["l2", "r2"])
    assert final_of(played) == "left: l1, l2; right: r1, r2; silent"


async def test_runs_of_one_node_in_a_subgraph_each_get_their_own_answer(tmp_path: Path) -> None:
    async with running_server(tmp_path, agents=AGENTS) as server, chat(server.address) as client:
        event = await waiting(client, "many")
        numbers = {request["interrupt_id"]: request["value"]["number"] for request in requests(event)}
        assert sorted(numbers.values()) == [1, 2, 3]
        # One after the other, in another order.
        for interrupt_id in sorted(numbers, key=lambda one: -numbers[one]):
            event = await decide(client, event, **{interrupt_id: f"n{numbers[interrupt_id]}"})
    async with running_server(tmp_path, agents=AGENTS) as server, chat(server.address) as client:
        assert only(event)["question"] == "Really?"
        assert final_of((client, await answer(client, event, "yes"))) == "1: n1; 2: n2, yes; 3: n3"


async def test_a_tool_asks_twice(tmp_path: Path) -> None:
    played = await play(tmp_path, "asking_tool", calls(("pay", {"amount": 5})), ["savings"], [True])
    assert final_of(played) == "paid 5 from savings: True"


async def test_tools_that_run_at_once_each_ask_twice(tmp_path: Path) -> None:
    message = calls(("pay", {"amount": 5}), ("pay", {"amount": 7}))
    async with running_server(tmp_path, agents=AGENTS) as server, chat(server.address) as client:
        event = await waiting(client, "asking_tool", message)
        for round_number in (1, 2):
            amounts = [request["value"]["amount"] for request in requests(event)]
            assert sorted(amounts) == [5, 7]
            event = await answer(client, event, *(f"{amount}/{round_number}" for amount in amounts))
        assert said(client, event) == "paid 5 from 5/1: 5/2; paid 7 from 7/1: 7/2"


async def test_a_batch_of_calls_comes_after_a_question(tmp_path: Path) -> None:
    message = calls(("send", {"to": "ann"}), ("send", {"to": "bob"}), ("send", {"to": "cleo"}))
    async with running_server(tmp_path, agents=AGENTS) as server, chat(server.address) as client:
        event = await answer(client, await waiting(client, "question_then_batch", message), "yes")
    ann, bob, cleo = requests(event)
    assert ann["value"] == bob["value"] and ann["args"] == {"to": "ann"}
    assert [one["args"] for one in ann["value"]["action_requests"]] == [{"to": name} for name in ("ann", "bob", "cleo")]
    async with running_server(tmp_path, agents=AGENTS) as server, chat(server.address) as client:
        event = await decide(client, event, on(bob, "edit", args={"to": "zoe"}))
    async with running_server(tmp_path, agents=AGENTS) as server, chat(server.address) as client:
        final = await decide(client, event, on(ann, "approve"), on(cleo, "reject", message="Not Cleo."))
    told = final_of((client, final))
    assert "sent to ann" in told and "sent to zoe" in told and "bob" not in told and "Not Cleo." in told


async def test_of_two_who_answer_at_once_one_counts(server: RunningServer, client: ChatClient) -> None:
    event = await waiting(client, "thrice")
    name = only(event)["interrupt_id"]
    async with chat(server.address) as other:
        for one, said_by in ((client, "a"), (other, "b")):
            await one.send(frame(event, answers={name: said_by}))
        outcomes = [await one.until("awaiting_human", "error") for one in (client, other)]
    assert sorted(outcome["type"] for outcome in outcomes) == ["awaiting_human", "error"]
    [refused] = [outcome for outcome in outcomes if outcome["type"] == "error"]
    assert refused["code"] == "approval_not_found"
