"""What applications show in forms of their own: custom parts, declared with a schema, with words for everybody else."""

from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from graphs.emitting import MAP
from pydantic import model_serializer
from support.chat_client import chat, check_exchange
from support.rest_client import error_of, messages_of, plain_http, rest
from support.running_server import FAST, RunningServer, running_server
from support.showing_application import AGENT, PATH, SKETCH, Sketch

from agentic_backend.agents.code.class_path import ClassPathError
from agentic_backend.agents.parts import emit_parts
from agentic_backend.application import HookResult, Modifications, PartKind
from agentic_backend.hosting.declared_parts import declared_parts
from agentic_backend.modules.texts import replaced_in, with_texts
from agentic_backend.policy.hooks.hook_checks import InvalidResult, checked, replaced
from agentic_backend.protocol.parts import CustomPart, TextPart, Value, text_of

SETTINGS = {**FAST, "titles": {"enabled": False}, "applications": [{"class_path": PATH}]}
SHOWN = {
    "type": "custom",
    "kind": "showing:sketch",
    "data": {"title": "A boat", "points": [1, 2]},
    "text": "A **boat** of Zorblax's.",
}

CUSTOM = CustomPart(kind="showing:sketch", data={"title": "my secret"}, text="my secret boat")


@pytest.fixture
async def server(tmp_path: Path) -> Any:
    async with running_server(tmp_path, agents=[AGENT], settings=SETTINGS) as server:
        yield server


async def painted(server: RunningServer, how: str) -> list[dict[str, Any]]:
    """The messages of an exchange whose tool paints."""
    async with chat(server.address, token="dev:ann") as client:
        events = await client.ask(f'use the tool paint with {{"how": "{how}"}}', agent_id="painter")
    check_exchange(events)
    assert events[-1]["status"] == "ok"
    messages: list[dict[str, Any]] = events[-1]["messages"]
    return messages


def customs(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [part for message in messages for part in message["parts"] if part["type"] == "custom"]


async def test_what_a_tool_shows_is_seen_stored_and_exported(server: RunningServer) -> None:
    messages = await painted(server, "sketch")
    assert customs(messages) == [SHOWN]
    session_id = messages[0]["session_id"]
    async with rest(server, "dev:ann") as client:
        assert customs(await messages_of(client, session_id)) == [SHOWN]
        document = await client.get(f"/sessions/{session_id}/export", params={"format": "md"})
        assert SHOWN["text"] in document.text


@pytest.mark.parametrize(
    ("how", "told"),
    {
        "undeclared": "LookupError: the application's 'parts' do not have",
        "other": "ValueError: show: showing:sketch needs a Sketch",
        "dict": "ValueError: show: showing:sketch needs a Sketch",
        "class": "LookupError: the application's 'parts' do not have",
        "unchecked": "ValueError: show: showing:sketch can't be shown: ",
        "half": "ValueError: show: showing:sketch can't be shown: ",
        "large": "ValueError: show: 3000",
        "no text": "ValueError: show: showing:sketch needs words that say the same",
        "blank": "ValueError: show: showing:sketch needs words that say the same",
        "deep": "ValueError: show: a custom part is nested deeper than 100",
        "long integer": "ValueError: show: a custom part is nested deeper than 100, or has NaN",
    }.items(),
)
async def test_what_is_not_of_the_form_is_refused_in_words_without_its_values(
    server: RunningServer, how: str, told: str
) -> None:
    messages = await painted(server, how)
    assert customs(messages) == []
    [result] = [part["content"] for message in messages for part in message["parts"] if part["type"] == "tool_result"]
    assert result.startswith(told) and "my secret" not in result


async def test_what_pydantic_makes_of_a_value_is_stored_once_and_as_its_schema_says(server: RunningServer) -> None:
    [part] = customs(await painted(server, "odd"))
    assert part["data"] == {"theValue": None, "cents": 123.45, "doubled": 24690}


async def test_what_is_deep_can_be_read_again(server: RunningServer) -> None:
    messages = await painted(server, "deepest")
    async with rest(server, "dev:ann") as client:
        assert customs(await messages_of(client, messages[0]["session_id"])) == customs(messages) != []
        assert (await client.get("/me/export")).status_code == 200


async def test_outside_of_a_run_nothing_can_be_shown(server: RunningServer) -> None:
    async with plain_http(base_url=f"{server.address}/apps/showing") as client:
        assert error_of(await client.get("/outside"))["code"] == "application_unavailable"


async def test_its_document_has_the_schema(server: RunningServer) -> None:
    async with plain_http(base_url=f"{server.address}/apps/showing") as client:
        document = (await client.get("/openapi.json")).json()
    required = {
        kind: document["components"]["schemas"][schema["$ref"].removeprefix("#/components/schemas/")]["required"]
        for kind, schema in document["x-parts"].items()
    }
    assert required == {"showing:sketch": ["title", "points"], "showing:odd": ["theValue", "cents", "doubled"]}


def test_nor_can_a_map_be_shown_that_could_not_be_read_again() -> None:
    deep: Any = reduce(lambda inner, _: [inner], range(150), [])
    for value in (deep, 2**70):
        with pytest.raises(ValueError, match="a geo part is nested deeper"):
            emit_parts(MAP | {"style": {"a": value}})


def test_no_graph_shows_the_part_of_an_application() -> None:
    with pytest.raises(ValueError, match="which only the server adds"):
        emit_parts(SHOWN)


class AsText(Value):
    """Becomes a text."""

    @model_serializer
    def text(self) -> str:
        return "text"


def test_no_module_puts_one_into_a_message() -> None:
    with pytest.raises(InvalidResult, match="none that a person can send"):
        checked(HookResult(modifications=Modifications(message=[CUSTOM])))


@pytest.mark.parametrize(
    ("kinds", "told"),
    [
        (SKETCH, "a list of at most 50"),
        ([SKETCH, PartKind("sketch", Sketch)], "another kind of part has this name"),
        ([PartKind("Sketch", Sketch)], "a name has lower-case letters"),
        ([PartKind(7, Sketch)], "a name has lower-case letters"),  # type: ignore[arg-type]
        ([PartKind("sketch", dict)], "a subclass of Value"),  # type: ignore[type-var]
        ([PartKind("sketch", AsText)], "has to become a JSON object"),
        ([PartKind("sketch", "Sketch")], "a subclass of Value"),  # type: ignore[arg-type]
    ],
)
def test_an_odd_declaration_is_refused(kinds: Any, told: str) -> None:
    with pytest.raises(ClassPathError, match=told):
        declared_parts(kinds)


async def test_of_a_part_whose_words_are_changed_the_words_are_left() -> None:
    """What is to be hidden may be in its data too."""
    beside = TextPart(text="beside")
    hidden = [TextPart(text="my *** boat"), beside]
    assert await with_texts([CUSTOM, beside], lambda text: text.replace("secret", "***")) == hidden
    assert replaced_in([CUSTOM, beside], [(3, 9, "***")]) == hidden
    assert replaced([CUSTOM, beside], "other words") == [TextPart(text="other words")]
    assert await with_texts([CUSTOM, beside], str) == replaced_in([CUSTOM, beside], []) == [CUSTOM, beside]
    begin = len(text_of([CUSTOM])) + 1
    assert replaced_in([CUSTOM, beside], [(begin, begin + 6, "behind")]) == [CUSTOM, TextPart(text="behind")]
