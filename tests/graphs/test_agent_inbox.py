"""Agent Inbox's forms: shown as calls and questions, and resumed with what such graphs expect."""

import json
from pathlib import Path
from typing import Any

import pytest
from graphs.deciding import answer, decide, entries, on, only, requests, said, waiting
from graphs.inbox import ANN, BOB, WHO
from support.chat_client import ChatClient, chat
from support.running_server import running_server

AGENTS = entries("inbox", "one_in_a_list", "alone", "question", "several", "anything", "strict", "notice")


async def test_an_action_is_shown_as_a_call_with_its_description(client: ChatClient) -> None:
    event = await waiting(client, "one_in_a_list")
    request = only(event)
    assert (request["name"], request["args"]) == ("send_email", {"to": "ann", "copies": 1})
    assert request["question"] == "# Send it?\n\nTo **Ann**."
    assert request["allowed"] == ["approve", "reject", "edit"]
    assert request["value"] == [ANN]
    mismatch = await decide(client, event, on({**request, "args_sha256": "0" * 64}, "approve"))
    assert mismatch["code"] == "approval_mismatch"


ACCEPTED = {"type": "accept", "args": ANN["action_request"]}


@pytest.mark.parametrize(
    ("action", "fields", "response"),
    [
        ("approve", {}, ACCEPTED),
        ("edit", {"args": {"to": "zoe"}}, {"type": "edit", "args": {"action": "send_email", "args": {"to": "zoe"}}}),
        ("reject", {"message": "Not Ann."}, {"type": "response", "args": "Not Ann."}),
        ("reject", {}, {"type": "ignore", "args": None}),
    ],
)
@pytest.mark.parametrize("agent_id", ["one_in_a_list", "alone"])
async def test_each_decision_becomes_the_response_that_the_graph_expects(
    client: ChatClient, agent_id: str, action: str, fields: dict[str, Any], response: dict[str, Any]
) -> None:
    event = await waiting(client, agent_id)
    heard = json.loads(said(client, await decide(client, event, on(only(event), action, **fields))))
    assert heard == ([response] if agent_id == "one_in_a_list" else response)


@pytest.mark.parametrize(
    ("given", "response"),
    [("A friend.", {"type": "response", "args": "A friend."}), (None, {"type": "ignore", "args": None})],
)
async def test_what_can_only_be_answered_is_a_question(
    client: ChatClient, given: Any, response: dict[str, Any]
) -> None:
    event = await waiting(client, "question")
    request = only(event)
    assert (request["question"], request["allowed"], request["value"]) == ("Please answer.", ["answer"], [WHO])
    refused = await answer(client, event, {"to": "nobody"})
    assert refused["code"] == "bad_frame"
    assert json.loads(said(client, await answer(client, event, given))) == [response]


async def test_several_actions_in_one_list_are_decided_one_by_one_also_on_another_server(tmp_path: Path) -> None:
    async with running_server(tmp_path, agents=AGENTS) as server, chat(server.address) as client:
        event = await waiting(client, "several")
        ann, bob, who, cleo = requests(event)
        assert bob["allowed"] == ["approve", "reject"]
        assert len({one["interrupt_id"] for one in (ann, bob, who, cleo)}) == 4
        event = await decide(client, event, on(bob, "approve"), **{cleo["interrupt_id"]: "second"})
        assert [one["interrupt_id"] for one in requests(event)] == [ann["interrupt_id"], who["interrupt_id"]]
    async with running_server(tmp_path, agents=AGENTS) as server, chat(server.address) as client:
        final = await decide(client, event, on(ann, "edit", args={}), **{who["interrupt_id"]: "first"})
    [told] = [one for one in final["messages"] if one["role"] == "assistant"]
    assert json.loads(told["parts"][0]["text"]) == [
        {"type": "edit", "args": {"action": "send_email", "args": {}}},
        {"type": "accept", "args": BOB["action_request"]},
        {"type": "response", "args": "first"},
        {"type": "response", "args": "second"},
    ]


async def test_only_what_the_config_allows_can_be_decided(client: ChatClient) -> None:
    event = await waiting(client, "strict")
    request = only(event)
    assert request["allowed"] == ["approve", "reject"]
    refused = await decide(client, event, on(request, "edit", args={"amount": 9}))
    assert refused["code"] == "bad_frame" and refused["content"].startswith("payload.decisions.0.action")
    heard = said(client, await decide(client, event, on(request, "reject")))
    assert json.loads(heard) == [{"type": "response", "args": "Rejected."}]
    assert only(await waiting(client, "anything"))["allowed"] == ["approve", "reject", "edit"]


async def test_a_notice_can_be_dismissed(client: ChatClient) -> None:
    event = await waiting(client, "notice")
    assert only(event)["allowed"] == ["reject"]
    heard = said(client, await decide(client, event, on(only(event), "reject")))
    assert json.loads(heard) == [{"type": "ignore", "args": None}]


async def test_what_nobody_decides_in_time_is_ignored(tmp_path: Path) -> None:
    settings = {"limits": {"human_timeout_s": 0.5}}
    async with running_server(tmp_path, agents=AGENTS, settings=settings) as server, chat(server.address) as client:
        await waiting(client, "one_in_a_list")
        assert json.loads(said(client, await client.until("final"))) == [{"type": "ignore", "args": None}]
        await waiting(client, "strict")
        heard = json.loads(said(client, await client.until("final")))
        assert heard == [{"type": "response", "args": "Nobody decided in time."}]
        await waiting(client, "question")
        assert (await client.until("final"))["status"] == "stopped"
