"""What providers send: arguments that are still arriving are read in a time that grows with their length."""

import json

import httpx2
import pytest
from langchain_core.messages import AIMessageChunk
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.utils.json import parse_partial_json
from support.cpu_time import cpu_s

from agentic_backend.agents.models.provider_responses import bounded_clients, partial_json, read_in_linear_time

WHOLE = json.dumps({"text": "a" * 300, "list": [1, 2.5, None, True, {"deep": "b\n"}], "last": "ö" * 20})


@pytest.mark.parametrize("length", range(307, len(WHOLE) + 1, 7))
def test_what_has_arrived_is_read_as_langchain_reads_it(length: int) -> None:
    read, expected = partial_json(WHOLE[:length]), parse_partial_json(WHOLE[:length])
    # A value that is cut within itself may be left out by one of them.
    assert {key: value for key, value in read.items() if key in expected}["text"] == expected["text"]
    assert read.keys() <= expected.keys() | {"list", "last"}


def test_all_that_has_arrived_is_read() -> None:
    assert partial_json(WHOLE) == json.loads(WHOLE)


@pytest.mark.parametrize("text", ["x" * 300, "[" * 100_000, '{"a": ' * 300 + "x"])
def test_what_is_no_json_is_refused(text: str) -> None:
    with pytest.raises(json.JSONDecodeError):
        partial_json(text)


@pytest.mark.parametrize(
    ("body", "forbidden"),
    [
        (json.dumps({"error": {"code": "insufficient_quota"}}), "false"),
        (json.dumps({"error": {"code": "insufficient_quota"}, "more": "x" * 70_000}), None),
        ("[" * 60_000, None),
        ("[" * 200_000, None),
        ("no JSON", None),
    ],
    ids=["quota", "large", "deep", "deep and large", "text"],
)
def test_a_refusal_is_read_for_its_cause_whatever_it_holds(body: str, forbidden: str | None) -> None:
    response = httpx2.Response(429, content=body, request=httpx2.Request("POST", "https://host/v1"))
    for hook in bounded_clients()["http_client"].event_hooks["response"]:
        hook(response)
    assert response.headers.get("x-should-retry") == forbidden


def test_a_long_piece_of_arguments_takes_a_moment() -> None:
    """LangChain's own reader needs some ten minutes for it."""
    read_in_linear_time()
    some, ten_times_as_much = (min(_reading_s(length) for _ in range(3)) for length in (30_000, 300_000))
    assert ten_times_as_much < 40 * some


def _reading_s(length: int) -> float:
    """The seconds of CPU time that it takes to read a piece of so many characters."""

    def read() -> None:
        chunk = AIMessageChunk("", tool_call_chunks=[tool_call_chunk(name="note", args="x" * length, id="c", index=0)])
        assert chunk.invalid_tool_calls[0]["id"] == "c"

    return cpu_s(read)
