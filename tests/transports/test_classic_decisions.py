"""Older clients answer what an exchange waits for, in their own form: as the chat page of Fred 1.5.4 does."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml
from graphs.older_questions import AGENTS, DETAILS, LONG, MANY, OTHER, WITH_DETAILS
from support import acting_agents
from support.approval_agents import ENTRIES, NOTES_VARIABLE, WHY, calls, runs
from support.chat_client import Event, final_text
from support.hostile_modules import entry
from support.older_client import OlderClient, older_client
from support.running_server import RunningServer, running_server
from support.unseen_characters import UNSEEN, code

from agentic_backend.text.normal_form import clean

pytestmark = pytest.mark.asyncio(loop_scope="module")

ANN = {"to": "ann@example.org", "body": "```\nHello", "copies": 1}
FILE = {"path": "/tmp/x"}


@pytest.fixture(autouse=True)
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the tools note what ran."""
    path = tmp_path / "notes"
    monkeypatch.setenv(NOTES_VARIABLE, str(path))
    return path


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningServer]:
    """One for all tests of this file, in which more and more waits."""
    async with running_server(
        tmp_path_factory.mktemp("server"),
        agents=[*ENTRIES, *acting_agents.ENTRIES, *AGENTS],
        settings={"limits": {"waiting_per_user": None}},
    ) as server:
        yield server


async def asked(client: OlderClient, agent_id: str, message: str = "go") -> Event:
    """The `awaiting_human` of an exchange with the agent; its id is the client's."""
    exchange_id = await client.begin(message, agent_id=agent_id)
    event = await client.until("awaiting_human")
    assert event["exchange_id"] == exchange_id
    return event


async def ended(client: OlderClient, event: Event) -> str:
    """The answer of the exchange that waited, all of whose events have the client's id."""
    final = await client.until("final")
    assert final["status"] == "ok", final
    names = [message["exchange_id"] for message in final["messages"]]
    assert {final["exchange_id"], *names} == {event["exchange_id"]}
    assert [message for _, message in client.shown.values()] == final["messages"]
    return final_text([final])


@pytest.mark.parametrize(
    ("agent_id", "how", "given"),
    [
        ("plain", {"choice": "text", "note": "Ann"}, "'Ann'"),
        ("plain", {"choice": "yes"}, "True"),
        ("plain", {"choice": "no"}, "False"),
        ("free_text", {"answer": "no more"}, "'no more'"),
        ("choosing", {"choice": "r"}, "You went r."),
        ("with_notes", {"choice": "bad"}, "'bad'"),
        ("boolean", {"choice": "true"}, "True"),
        ("number", {"answer": "7"}, "7"),
        ("one_of", {"choice": '"blue"'}, "'blue'"),
        ("text", {"answer": "7"}, "'7'"),
        ("optional_boolean", {"choice": "true"}, "True"),
        ("optional_boolean", {"choice": "null"}, "None"),
        ("optional_text", {"answer": "7"}, "'7'"),
        ("optional_one_of", {"choice": '"blue"'}, "'blue'"),
        ("constants", {"choice": "1"}, "1"),
        ("too_many", {"answer": "200"}, "200"),
        ("any_json", {"answer": "NaN"}, "'NaN'"),
        ("any_json", {"answer": "1e999"}, "'1e999'"),
    ],
)
async def test_an_answer_reaches_the_graph(
    server: RunningServer, agent_id: str, how: dict[str, Any], given: str
) -> None:
    async with older_client(server.address) as client:
        event = await asked(client, agent_id)
        await client.answer(event, **how)
        assert await ended(client, event) == given


async def test_a_question_is_shown_with_its_details(server: RunningServer) -> None:
    async with older_client(server.address) as client:
        payload = (await asked(client, "detailed"))["payload"]
    assert payload["question"].startswith(WITH_DETAILS["question"])
    assert "Transfer $500 to `Bob`\\n    right now" in payload["question"]


async def test_nothing_of_a_question_is_left_out(server: RunningServer) -> None:
    async with older_client(server.address) as client:
        assert (await asked(client, "long_text"))["payload"]["question"] == LONG
        question = (await asked(client, "many_details"))["payload"]["question"]
        assert question.endswith("    " + json.dumps(MANY, indent=2).replace("\n", "\n    "))


async def test_what_the_graph_says_of_its_question_is_shown(server: RunningServer) -> None:
    async with older_client(server.address) as client:
        payload = (await asked(client, "with_notes"))["payload"]
    assert (payload["title"], payload["question"]) == ("The draft", "Is it good?")
    assert [choice["id"] for choice in payload["choices"]] == ["good", "bad"]


@pytest.mark.parametrize(
    "agent_id", ["of_call", "of_batch", "of_action", "of_actions", "of_choice", "of_options", "of_checkpoint"]
)
async def test_what_no_other_field_shows_is_shown_with_the_question(server: RunningServer, agent_id: str) -> None:
    async with older_client(server.address) as client:
        question = (await asked(client, agent_id))["payload"]["question"]
    assert DETAILS in question
    assert OTHER["description"] not in question


@pytest.mark.parametrize("agent_id", ["plain_batch", "plain_actions"])
async def test_a_call_is_shown_once(server: RunningServer, agent_id: str) -> None:
    async with older_client(server.address) as client:
        question = (await asked(client, agent_id))["payload"]["question"]
    assert question == 'Pay it?\n\npay:\n\n    {\n      "amount": 5\n    }'


@pytest.mark.parametrize(
    ("agent_id", "told"),
    [
        ("only_edited", "Edit it in a newer client; here it can only be stopped."),
        ("undecidable", "This can't be decided; it can only be stopped."),
    ],
)
async def test_a_call_that_such_a_client_cant_decide_on_says_so(
    server: RunningServer, agent_id: str, told: str
) -> None:
    async with older_client(server.address) as client:
        payload = (await asked(client, agent_id))["payload"]
    assert payload["question"].endswith(told)
    assert "choices" not in payload


@pytest.mark.parametrize(("choice", "ran"), [("approve", True), ("reject", False)])
async def test_a_tool_call_is_shown_whole_and_decided_on(
    server: RunningServer, notes: Path, choice: str, ran: bool
) -> None:
    async with older_client(server.address) as client:
        event = await asked(client, "approving", calls(("send_email", ANN)))
        question = event["payload"]["question"]
        assert question.startswith(WHY)
        assert (
            '    {\n      "to": "ann@example.org",\n      "body": "```\\nHello",\n      "copies": 1\n    }' in question
        )
        assert [one["id"] for one in event["payload"]["choices"]] == ["reject", "approve"]
        await client.answer(event, choice=choice)
        await ended(client, event)
    assert runs(notes) == ([("send_email", ANN)] if ran else [])


async def test_several_requests_are_asked_one_after_the_other(server: RunningServer, notes: Path) -> None:
    async with older_client(server.address) as client:
        event = await asked(client, "approving", calls(("send_email", ANN), ("delete_file", FILE)))
        assert len(event["payload"]["requests"]) == 2
        await client.answer(event, choice="reject")
        second = await client.until("awaiting_human")
        assert "/tmp/x" in second["payload"]["question"]
        await client.answer(second, choice="approve")
        await ended(client, event)
    assert runs(notes) == [("delete_file", FILE)]


async def test_a_second_question_of_an_exchange_is_another(server: RunningServer) -> None:
    async with older_client(server.address) as client:
        event = await asked(client, "twice")
        await client.answer(event, choice="text", note="1")
        second = await client.until("awaiting_human")
        assert second["payload"]["question"] == "The second?"
        await client.answer(second, choice="text", note="2")
        assert await ended(client, event) == "('1', '2')"


async def test_an_answer_may_come_over_another_socket(server: RunningServer) -> None:
    async with older_client(server.address) as client:
        event = await asked(client, "choosing")
    async with older_client(server.address) as client:
        await client.answer(event, choice="l")
        assert await ended(client, event) == "You went l."


@pytest.mark.parametrize(
    ("agent_id", "payload", "given"),
    [
        ("plain", {"answer": "Ann"}, "'Ann'"),
        ("plain", {"answer": {"a": 1}}, "{'a': 1}"),
        ("plain", {"choice_id": "text", "answer": "Ann"}, "'Ann'"),
        ("choosing", {"choice_id": "r"}, "You went r."),
    ],
)
async def test_an_answer_that_names_no_checkpoint_is_about_what_was_asked_last(
    server: RunningServer, agent_id: str, payload: dict[str, Any], given: str
) -> None:
    async with older_client(server.address) as client:
        event = await asked(client, agent_id)
        names = {"session_id": event["session_id"], "exchange_id": event["exchange_id"]}
        await client.send({"type": "human_resume", **names, "payload": payload})
        assert await ended(client, event) == given


@pytest.mark.parametrize(
    ("agent_id", "payload", "field"),
    [
        ("plain", {}, "payload.answer"),
        ("plain", {"choice_id": "text"}, "payload.answer"),
        ("plain", {"choice_id": "text", "answer": "text"}, "payload.answer"),
        ("plain", {"choice_id": "no", "text": "unless Bob agrees"}, "payload.text"),
        ("plain", {"answer": "Ann", "text": 7}, "payload.text"),
        ("plain", {"answer": "Ann", "checkpoint_id": "another:1"}, "payload.checkpoint_id"),
        ("plain", {"answer": "Ann", "checkpoint_id": 7}, "payload.checkpoint_id"),
        ("choosing", {"choice_id": "r", "text": "or not"}, "payload.text"),
        ("choosing", {"choice_id": "straight on"}, "payload.answers."),
        ("number", {"answer": "seven"}, "payload.answers."),
        ("approving", {"answer": "maybe"}, "payload.choice_id"),
        ("approving", {"choice_id": "approve", "text": "but only a copy"}, "payload.text"),
    ],
)
async def test_an_answer_that_is_refused_is_asked_for_again(
    server: RunningServer, notes: Path, agent_id: str, payload: dict[str, Any], field: str
) -> None:
    """Such a client puts a question away as soon as it is answered."""
    async with older_client(server.address) as client:
        event = await asked(client, agent_id, calls(("send_email", ANN)))
        names = {"session_id": event["session_id"], "exchange_id": event["exchange_id"]}
        await client.send({"type": "human_resume", **names, "payload": payload})
        refusal = await client.receive()
        assert (refusal["code"], refusal["exchange_id"]) == ("bad_frame", event["exchange_id"])
        assert refusal["content"].startswith(field)
        assert await client.receive() == event
        assert runs(notes) == []


async def test_without_a_checkpoint_another_socket_can_not_tell_what_is_answered(server: RunningServer) -> None:
    async with older_client(server.address) as client:
        event = await asked(client, "plain")
    async with older_client(server.address) as client:
        names = {"session_id": event["session_id"], "exchange_id": event["exchange_id"]}
        await client.send({"type": "human_resume", **names, "payload": {"answer": "Ann"}})
        refusal = await client.receive()
        assert refusal["code"] == "bad_frame" and refusal["content"].startswith("payload.checkpoint_id")


async def test_decisions_in_the_newer_form_are_understood_too(server: RunningServer) -> None:
    async with older_client(server.address) as client:
        event = await asked(client, "plain")
        names = {"session_id": event["session_id"], "exchange_id": event["exchange_id"]}
        answers = {event["payload"]["requests"][0]["interrupt_id"]: "Ann"}
        await client.send({"type": "human_resume", **names, "payload": {"answers": answers}})
        assert await ended(client, event) == "'Ann'"


async def test_a_call_is_shown_with_all_that_nobody_sees(server: RunningServer, notes: Path) -> None:
    # The graph's border cleans the others.
    unseen = "".join(one for one in UNSEEN.values() if clean(one) == one)
    action = {"action": f"pay{unseen}", "args": {f"to{unseen}": unseen}}
    async with older_client(server.address) as client:
        event = await asked(client, "acting", json.dumps(action))
        question = event["payload"]["question"]
        name, _, args = question.lstrip().partition(":\n\n")
        assert name.rpartition("\n")[2] == f"pay{''.join(map(code, unseen))}"
        assert args.isascii() and json.loads(args) == action["args"]
        await client.answer(event, choice="approve")
        await ended(client, event)
    assert notes.read_bytes().decode() == f"{action['action']} {json.dumps(action['args'])}\n"


async def test_an_answer_with_an_integer_beyond_64_bits_is_refused_and_the_question_waits_on(
    server: RunningServer,
) -> None:
    async with older_client(server.address) as client:
        event = await asked(client, "number")
        await client.answer(event, answer=str(2**64 + 1))
        assert (await client.until("error"))["code"] == "bad_frame"


async def test_words_that_a_module_blocks_are_asked_for_again(tmp_path: Path) -> None:
    file = tmp_path / "modules.yaml"
    file.write_text(yaml.safe_dump({"modules": [entry(settings={"before": "block_word"})]}))
    settings = {"modules": {"file": str(file)}}
    async with running_server(tmp_path, agents=AGENTS, settings=settings) as server:
        async with older_client(server.address) as client:
            event = await asked(client, "plain")
            names = {"session_id": event["session_id"], "exchange_id": event["exchange_id"]}
            await client.send({"type": "human_resume", **names, "payload": {"answer": "my secret"}})
            refusal = await client.receive()
            assert (refusal["code"], refusal["content"]) == ("blocked", "That is not said here.")
            assert await client.receive() == event
            await client.send({"type": "human_resume", **names, "payload": {"answer": "Ann"}})
            assert await ended(client, event) == "'Ann'"
