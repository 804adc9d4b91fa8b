"""Today's server answers the clients of every recorded version as it did then; what is new does not disturb them."""

import json
from collections.abc import AsyncIterator, Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from compatibility.replaying import Changed, replay
from compatibility.scenarios import SCENARIOS, refused
from compatibility.served import served
from compatibility.transcripts import FOLDER, Json, Masks, Names, chat_events, joined
from support.running_server import RunningServer
from support.schema_checks import on_channel, problems

TRANSCRIPTS = {f"{path.parent.name}/{path.stem}": path for path in sorted(FOLDER.glob("*/*.json"))}
LATEST = max(path.parent.name for path in TRANSCRIPTS.values())
DESCRIBED = {
    ("chat", "send"): on_channel("chat", "send"),
    ("chat", "receive"): on_channel("chat", "receive"),
    ("classic", "send"): on_channel("classic", "send"),
    ("classic", "receive"): on_channel("classic", "receive"),
}


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[RunningServer]:
    async with served(tmp_path) as server:
        yield server


def transcript_of(name: str) -> Json:
    transcript: Json = json.loads(TRANSCRIPTS[name].read_text())
    return transcript


@pytest.mark.parametrize("name", TRANSCRIPTS)
async def test_the_server_answers_as_it_did_and_as_the_documents_say(server: RunningServer, name: str) -> None:
    said = await replay(transcript_of(name), server.address, TRANSCRIPTS[name].stem)
    if TRANSCRIPTS[name].stem == refused.__name__:
        said = [each for each in said if each.action == "send"]
    found = [problems(DESCRIBED[channel, action], message) for channel, action, message in said]
    assert found == [[]] * len(said)


def test_every_scenario_is_recorded_and_every_event_is_in_one() -> None:
    assert {path.stem for path in TRANSCRIPTS.values() if path.parent.name == LATEST} == SCENARIOS.keys()
    transcripts = [transcript_of(name) for name in TRANSCRIPTS]
    said = {step["event"]["type"] for each in transcripts for step in each["steps"] if "event" in step}
    assert said == chat_events()


def received(transcript: Json, event_type: str) -> Json:
    event: Json = next(
        step["event"] for step in transcript["steps"] if "event" in step and step["event"]["type"] == event_type
    )
    return event


def with_another_status(transcript: Json) -> None:
    received(transcript, "final")["status"] = "stopped"


def with_a_field_that_is_gone(transcript: Json) -> None:
    received(transcript, "final")["gone"] = None


def with_another_type_of_a_field(transcript: Json) -> None:
    received(transcript, "final")["messages"][0]["rank"] = "0"


def with_another_text(transcript: Json) -> None:
    received(transcript, "delta")["text"] += "!"


def with_one_message_more(transcript: Json) -> None:
    messages = received(transcript, "final")["messages"]
    messages.append(messages[-1])


def with_another_exchange_at_the_end(transcript: Json) -> None:
    received(transcript, "final")["exchange_id"] = "<session_1>"


def with_an_event_that_does_not_come(transcript: Json) -> None:
    started = received(transcript, "started")
    place = next(at for at, step in enumerate(transcript["steps"]) if step.get("event") is started)
    transcript["steps"].insert(place + 1, {"receive": "first", "event": started})


@pytest.mark.parametrize(
    "mutate",
    [
        with_another_status,
        with_a_field_that_is_gone,
        with_another_type_of_a_field,
        with_another_text,
        with_one_message_more,
        with_another_exchange_at_the_end,
        with_an_event_that_does_not_come,
    ],
)
async def test_a_server_that_has_changed_is_found_out(server: RunningServer, mutate: Callable[[Json], None]) -> None:
    transcript = transcript_of(f"{LATEST}/streamed_text")
    mutate(transcript)
    with pytest.raises(Changed):
        await replay(transcript, server.address, "streamed_text")


async def test_another_answer_of_a_call_is_found_out(server: RunningServer) -> None:
    transcript = transcript_of(f"{LATEST}/sessions_and_messages")
    for step in transcript["steps"]:
        step["status"] = 200 if step["status"] == 201 else step["status"]
    with pytest.raises(Changed, match="expected 200, not 201"):
        await replay(transcript, server.address, "sessions_and_messages")


async def test_events_and_fields_that_a_client_does_not_know_do_not_disturb_it(server: RunningServer) -> None:
    transcript = transcript_of(f"{LATEST}/streamed_text")
    transcript["events"] = [each for each in transcript["events"] if each != "delta"]
    transcript["steps"] = [step for step in transcript["steps"] if step.get("event", {}).get("type") != "delta"]
    for step in transcript["steps"]:
        step.get("event", {}).pop("seq", None)
    await replay(transcript, server.address, "streamed_text")


@pytest.mark.parametrize(
    ("expected", "actual", "fits"),
    [
        ({"a": 1}, {"a": 1, "b": 2}, True),
        ({"a": 1}, {"b": 2}, False),
        ({"a": 1}, {"a": True}, False),
        ({"a": None}, {"a": "text"}, False),
        ([1], [1, 2], False),
        ("<number>", 3, True),
        ("<number>", "3", False),
        ("<time>", "2026-11-23T09:30:00.000000Z", True),
        ("<time>", "yesterday", False),
        ("<text>", "", False),
        (["<session_1>", "<session_1>"], ["s", "s"], True),
        (["<session_1>", "<session_1>"], ["s", "t"], False),
        (["<session_1>", "call:<session_1>:1"], ["s", "call:s:1"], True),
        (["<session_1>", {"<session_1>": 1}], ["s", {"s": 1}], True),
    ],
)
def test_what_is_new_fits_and_what_is_missing_or_another_does_not(expected: Any, actual: Any, fits: bool) -> None:
    assert (Names().differences(expected, actual) == []) is fits


def test_ids_and_times_of_the_server_become_placeholders_and_a_clients_own_ids_stay() -> None:
    masks = Masks()
    masks.keep("client-exchange-1")
    event = {"session_id": "0123456789abcdef", "exchange_id": "client-exchange-1", "seq": 7, "of": ["0123456789abcdef"]}
    masked = {"session_id": "<session_1>", "exchange_id": "client-exchange-1", "seq": "<number>", "of": ["<session_1>"]}
    assert masks.of(event, said_by_server=True) == masked
    assert masks.of({"session_id": "0123456789abcdef", "after_seq": 7}) == {"session_id": "<session_1>", "after_seq": 7}


def test_text_is_one_piece_however_it_was_cut() -> None:
    def delta(block: int, text: str) -> Json:
        return {"type": "delta", "exchange_id": "e", "block": block, "text": text}

    cut = [delta(0, "a"), delta(0, "b"), delta(1, "c"), {"type": "final"}, delta(1, "d")]
    assert joined(deepcopy(cut)) == [delta(0, "ab"), delta(1, "c"), {"type": "final"}, delta(1, "d")]
