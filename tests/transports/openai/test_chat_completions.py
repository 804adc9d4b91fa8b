"""Chat completions, as OpenAI's own client and LangChain's get them."""

import asyncio
import base64
import json
import sqlite3
import threading
from contextlib import closing, suppress
from typing import Any

import httpx
import openai
import pytest
from langchain_openai import ChatOpenAI
from openai import AsyncOpenAI
from openai.lib.streaming.chat import ContentDeltaEvent
from pydantic import BaseModel, SecretStr
from support.chat_client import PATIENCE_S
from support.rest_client import messages_of, rest
from support.running_server import RunningServer
from transports.openai.conftest import client_of

from agentic_backend.transports import whole_answer
from agentic_backend.transports.openai.told import EncodedFile
from agentic_backend.transports.rest import rest_calls
from agentic_backend.transports.rest.rest_input import body_in

pytestmark = pytest.mark.asyncio(loop_scope="module")

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
IMAGE = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{base64.b64encode(PNG).decode()}"}}
FILE = {"type": "file", "file": {"filename": "plan.txt", "file_data": base64.b64encode(b"We meet at noon.").decode()}}


class Sum(BaseModel):
    of: list[int]
    is_: int


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


async def told(client: AsyncOpenAI, model: str, *messages: Any, **options: Any) -> str:
    """The text of the answer."""
    completion = await client.chat.completions.create(model=model, messages=messages, **options)
    [choice] = completion.choices
    assert choice.finish_reason == "stop"
    return choice.message.content or ""


async def test_the_models_are_the_agents_of_the_caller(server: RunningServer) -> None:
    async with client_of(server, "models") as client, rest(server, "dev:models") as http:
        own = [agent["id"] for agent in (await http.get("/agents")).json()["agents"]]
        assert [model.id async for model in client.models.list()] == own
        assert (await client.models.retrieve("echo")).owned_by == "agentic-backend"
        with pytest.raises(openai.NotFoundError):
            await client.models.retrieve("disabled")


async def test_an_answer_is_the_same_whole_and_streamed(server: RunningServer) -> None:
    """The tool that the agent calls is the server's affair."""
    async with client_of(server, "whole") as client:
        asked = {"model": "assistant", "messages": [user("What is 12*34?")]}
        whole = await client.chat.completions.create(**asked)
        async with client.chat.completions.stream(**asked, stream_options={"include_usage": True}) as stream:
            deltas = [event.delta async for event in stream if isinstance(event, ContentDeltaEvent)]
            streamed = await stream.get_final_completion()
    assert whole.choices[0].message.content == streamed.choices[0].message.content == "".join(deltas) == "12*34 = 408."
    assert whole.choices[0].message.tool_calls is None and streamed.choices[0].message.tool_calls is None
    assert whole.usage is not None and streamed.usage is not None
    assert whole.usage.total_tokens == streamed.usage.total_tokens > 0


async def test_a_request_brings_its_conversation_and_leaves_nothing(server: RunningServer) -> None:
    async with client_of(server, "stateless") as client, rest(server, "dev:stateless") as http:
        past = [{"role": "system", "content": "Be kind."}, user("I am Ann"), {"role": "assistant", "content": "Hello"}]
        answer = await told(client, "seeing", *past, user("Who am I?"))
        assert (await http.get("/sessions")).json()["sessions"] == []
    assert answer.startswith("I am Ann | Hello | Who am I?\n") and answer.endswith("\n\nBe kind.")


@pytest.mark.parametrize("conversation", [None, "files"])
async def test_images_and_files_go_with_a_message(server: RunningServer, conversation: str | None) -> None:
    options = {} if conversation is None else {"metadata": {"conversation_id": conversation}}
    async with client_of(server, "files") as client:
        answer = await told(client, "seeing", user([{"type": "text", "text": "Look"}, IMAGE, FILE]), **options)
        assert (
            "Look" in answer and "<image/png 96>" in answer and "'plan.txt'" in answer and "We meet at noon." in answer
        )
        again = [user([IMAGE]), {"role": "assistant", "content": "A dot"}] if conversation is None else []
        later = await told(client, "seeing", *again, user("What colour?"), **options)
    assert "<image/png 96>" in later and later.endswith("What colour?")


async def test_a_named_conversation_is_kept_and_goes_on_elsewhere(server: RunningServer) -> None:
    named = {"extra_headers": {"X-Conversation-Id": "my chat"}}
    async with client_of(server, "named") as client, rest(server, "dev:named") as http:
        await told(client, "seeing", user("I am Ann"), **named)
        answer = await told(client, "seeing", user("of another client"), {"role": "assistant"}, user("Who?"), **named)
        [session] = (await http.get("/sessions")).json()["sessions"]
        stored = await messages_of(http, session["id"])
        same = await told(client, "echo", user("hello"), metadata={"conversation_id": session["id"]})
    assert answer.startswith("I am Ann | ") and answer.endswith(" | Who?") and "another" not in answer
    assert len(stored) == 4 and same == "echo: hello"
    async with client_of(server, "mallory") as client, rest(server, "dev:mallory") as http:
        for name in ("my chat", session["id"]):
            await told(client, "echo", user("hello"), metadata={"conversation_id": name})
        others = (await http.get("/sessions")).json()["sessions"]
    assert len(others) == 2 and session["id"] not in {each["id"] for each in others}


async def test_asks_that_open_a_conversation_at_once_do_not_double_it(server: RunningServer) -> None:
    async with client_of(server, "twice") as client, rest(server, "dev:twice") as http:
        asks = [told(client, "echo", user("hello"), metadata={"conversation_id": "one"}) for _ in range(8)]
        outcomes = await asyncio.gather(*asks, return_exceptions=True)
        assert {type(each) for each in outcomes} <= {str, openai.ConflictError} and "echo: hello" in outcomes
        assert len((await http.get("/sessions")).json()["sessions"]) == 1


async def test_an_ask_that_is_sent_again_begins_nothing(server: RunningServer) -> None:
    async with client_of(server, "again") as client, rest(server, "dev:again") as http:
        named = {"metadata": {"conversation_id": "one"}, "extra_headers": {"Idempotency-Key": "first"}}
        first, second = [await told(client, "echo", user("hello"), **named) for _ in range(2)]
        [session] = (await http.get("/sessions")).json()["sessions"]
        assert first == second == "echo: hello" and session["message_count"] == 2


async def test_a_large_body_is_read_beside_the_other_clients(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_in: list[int] = []

    def noted(data: bytes, model: Any) -> Any:
        read_in.append(threading.get_ident())
        return body_in(data, model)

    monkeypatch.setattr(rest_calls, "body_in", noted)
    async with client_of(server, "large") as client:
        await told(client, "echo", user("x" * 300_000), {"role": "assistant", "content": "a"}, user("hello"))
    assert len(read_in) == 1 and threading.get_ident() not in read_in


@pytest.mark.parametrize("conversation", [None, "files"])
async def test_no_file_of_too_many_is_looked_at(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch, conversation: str | None
) -> None:
    looked_at: list[str] = []
    monkeypatch.setattr(EncodedFile, "decoded", lambda file, most: looked_at.append(file.data))
    options = {} if conversation is None else {"metadata": {"conversation_id": conversation}}
    async with client_of(server, "many-files") as client:
        with pytest.raises(openai.BadRequestError):
            await told(client, "echo", user([FILE] * 11), **options)
    assert looked_at == []


async def test_the_files_of_an_ask_that_is_sent_again_are_not_kept_twice(server: RunningServer) -> None:
    async with client_of(server, "files-again") as client:
        named = {"metadata": {"conversation_id": "one"}, "extra_headers": {"Idempotency-Key": "with a file"}}
        for _ in range(2):
            await told(client, "echo", user([{"type": "text", "text": "Look"}, FILE]), **named)
    with closing(sqlite3.connect(server.data / "chat.sqlite3")) as database:
        kept = database.execute("SELECT count(*) FROM attachments WHERE user_id = 'files-again'").fetchone()
    assert kept == (1,)


async def test_an_answer_follows_the_format_that_is_asked_for(server: RunningServer) -> None:
    async with client_of(server, "format") as client:
        asked: dict[str, Any] = {"model": "saying", "response_format": Sum}
        right = await client.chat.completions.parse(messages=[user('{"of": [1, 2], "is_": 3}')], **asked)
        assert right.choices[0].message.parsed == Sum(of=[1, 2], is_=3)
        async with client.chat.completions.stream(messages=[user('{"of": [], "is_": 0}')], **asked) as stream:
            assert (await stream.get_final_completion()).choices[0].message.parsed == Sum(of=[], is_=0)
        for wrong in ('{"of": 1, "is_": 3}', "three", "[]"):
            with pytest.raises(openai.UnprocessableEntityError) as refused:
                await client.chat.completions.parse(messages=[user(wrong)], **asked)
            assert refused.value.code == "answer_invalid"
        fenced = {"model": "seeing", "response_format": {"type": "json_object"}}
        with pytest.raises(openai.APIError, match="it is no JSON"):
            async for _ in await client.chat.completions.create(messages=[user("hello")], stream=True, **fenced):
                pass


def image(url: str) -> list[dict[str, Any]]:
    return [user([{"type": "image_url", "image_url": {"url": url}}])]


BAD = (openai.BadRequestError, "bad_frame")
LATE = [{"role": "tool", "tool_call_id": "call_1", "content": "approve"}]
REFUSED: list[tuple[dict[str, Any], type[openai.APIStatusError], str, str | None]] = [
    ({"model": "nobody"}, openai.NotFoundError, "agent_not_found", None),
    ({"model": None}, *BAD, "model"),
    ({"messages": []}, *BAD, "messages"),
    ({"messages": [{"role": "assistant", "content": "hi"}]}, *BAD, "messages"),
    ({"messages": [user("")]}, *BAD, "messages"),
    ({"messages": [user([{"type": "input_audio"}])]}, *BAD, "messages.0.content.0"),
    ({"n": 2}, *BAD, "n"),
    ({"tool_choice": "required"}, *BAD, "tool_choice"),
    ({"messages": [user("x" * 300_000)]}, openai.APIStatusError, "message_too_large", "messages"),
    ({"messages": image("https://a.example/x.png")}, *BAD, "messages.0.content.0.image_url"),
    ({"messages": image("data:image/png;base64,&&")}, *BAD, "messages"),
    ({"messages": image("data:image/png;base64,iVBORw==")}, *BAD, "messages"),
    ({"messages": LATE}, openai.ConflictError, "approval_not_found", None),
]


@pytest.mark.parametrize(("change", "kind", "code", "param"), REFUSED)
async def test_what_is_refused_names_its_parameter(
    server: RunningServer, change: dict[str, Any], kind: type[openai.APIStatusError], code: str, param: str | None
) -> None:
    async with client_of(server, "refused") as client:
        with pytest.raises(kind) as refused:
            await client.chat.completions.create(**{"model": "echo", "messages": [user("hello")], **change})
    assert (refused.value.code, refused.value.param) == (code, param)
    assert isinstance(refused.value.body, dict) and refused.value.body["message"]


async def test_a_failure_is_an_error_whole_and_streamed(server: RunningServer) -> None:
    async with client_of(server, "failing") as client:
        asked = {"model": "raising", "messages": [user("hello")]}
        with pytest.raises(openai.InternalServerError) as whole:
            await client.chat.completions.create(**asked)
        with pytest.raises(openai.APIError) as streamed:
            async for _ in await client.chat.completions.create(**asked, stream=True):
                pass
    assert whole.value.code == streamed.value.code == "internal"
    assert "secret" not in str(whole.value) + str(streamed.value)


async def test_a_failure_in_a_conversation_is_not_asked_again(server: RunningServer) -> None:
    """The client would send it twice more, as its status is that of a server's error."""
    async with client_of(server, "once", max_retries=2) as client, rest(server, "dev:once") as http:
        with pytest.raises(openai.InternalServerError):
            named = {"metadata": {"conversation_id": "one"}}
            await client.chat.completions.create(model="raising", messages=[user("hello")], **named)
        [session] = (await http.get("/sessions")).json()["sessions"]
        asked = [each for each in await messages_of(http, session["id"]) if each["role"] == "user"]
    assert len(asked) == 1


async def test_who_is_not_signed_in_is_told_in_this_form(server: RunningServer) -> None:
    async with client_of(server, "x", api_key="nonsense") as client:
        with pytest.raises(openai.AuthenticationError) as refused:
            await client.models.list()
    assert refused.value.code == "unauthenticated"


@pytest.mark.parametrize("stream", [False, True])
async def test_an_answer_that_is_stopped_elsewhere_is_not_whole(server: RunningServer, stream: bool) -> None:
    user_id = f"stopped-{stream}"
    async with client_of(server, user_id) as client, rest(server, f"dev:{user_id}") as http:
        asked = {"model": "assistant", "messages": [user("hang after 5 tokens")]}
        named = {"metadata": {"conversation_id": "stopped"}}
        completing = asyncio.ensure_future(client.chat.completions.create(**asked, **named, stream=stream))
        await http.post(f"/sessions/{await running(http)}/cancel")
        answer = await completing
        reasons = [chunk.choices[0].finish_reason async for chunk in answer] if stream else []
        assert (reasons[-1] if stream else answer.choices[0].finish_reason) == "length"


async def test_a_client_that_leaves_a_whole_answer_stops_it(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may only have ended its side: so it is waited a while before."""
    monkeypatch.setattr(whole_answer, "LISTENS_S", 0.1)
    async with client_of(server, "leaving") as client, rest(server, "dev:leaving") as http:
        named = {"metadata": {"conversation_id": "left"}}
        asking = asyncio.ensure_future(told(client, "assistant", user("hang after 5 tokens"), **named))
        session_id = await running(http)
        asking.cancel()
        await client.close()
        async with asyncio.timeout(PATIENCE_S):
            while (await http.get(f"/sessions/{session_id}")).json().get("active_exchange_id") is not None:
                await asyncio.sleep(0.05)
        [_, *_, last] = await messages_of(http, session_id)
    assert last["metadata"]["finish_reason"] == "cancelled"


async def test_who_only_ended_its_side_gets_nothing_if_that_takes_too_long(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(whole_answer, "LISTENS_S", 0.1)
    body = json.dumps({"model": "assistant", "messages": [user("hang after 5 tokens")]}).encode()
    host, port = server.address.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    headers = f"Host: {host}:{port}\r\nAuthorization: Bearer dev:half\r\nContent-Length: {len(body)}\r\n\r\n"
    writer.write(f"POST /v1/chat/completions HTTP/1.1\r\n{headers}".encode() + body)
    writer.write_eof()
    async with asyncio.timeout(PATIENCE_S):
        with suppress(ConnectionResetError):
            assert b" 500 " not in await reader.read()
    writer.close()


async def running(http: httpx.AsyncClient) -> str:
    """The id of the user's only session, once an exchange runs in it."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            sessions = (await http.get("/sessions")).json()["sessions"]
            if sessions and sessions[0].get("status") == "running":
                return str(sessions[0]["id"])
            await asyncio.sleep(0.02)


async def test_calls_of_tools_of_others_in_the_past_say_nothing(server: RunningServer) -> None:
    called = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
    past = [user("Weather?"), {"role": "assistant", "content": None, "tool_calls": [called]}]
    past += [{"role": "tool", "tool_call_id": "call_1", "content": "sunny"}, {"role": "assistant", "content": "Sunny"}]
    async with client_of(server, "others") as client:
        assert await told(client, "seeing", *past, user("and now?")) == "Weather? | Sunny | and now?"


async def test_langchain_asks_an_agent_as_a_model(server: RunningServer) -> None:
    model = ChatOpenAI(base_url=f"{server.address}/v1", api_key=SecretStr("dev:lang"), model="assistant", timeout=60)
    answer = await model.ainvoke("What is 12*34?")
    streamed = [chunk async for chunk in model.astream([("system", "Be short."), ("user", "What is 12*34?")])]
    assert answer.text == "".join(chunk.text for chunk in streamed) == "12*34 = 408."
    assert answer.usage_metadata is not None and answer.usage_metadata["total_tokens"] > 0
    saying = ChatOpenAI(base_url=f"{server.address}/v1", api_key=SecretStr("dev:lang"), model="saying", timeout=60)
    parsed = await saying.with_structured_output(Sum).ainvoke('{"of": [4], "is_": 4}')
    assert parsed == Sum(of=[4], is_=4)
    responses = ChatOpenAI(
        base_url=f"{server.address}/v1", api_key=SecretStr("dev:lang"), model="assistant", use_responses_api=True
    )
    assert (await responses.ainvoke("What is 12*34?")).text == "12*34 = 408."


async def test_a_body_with_a_file_may_be_larger_than_others(server: RunningServer) -> None:
    """Of the largest file that may be attached; beyond it the body is not read."""
    text = base64.b64encode(b"a" * 3_000_000).decode()
    body = {"model": "echo", "messages": [user([{"type": "file", "file": {"filename": "a.txt", "file_data": text}}])]}
    async with httpx.AsyncClient(headers={"Authorization": "Bearer dev:large"}, timeout=PATIENCE_S) as http:
        url = f"{server.address}/v1/chat/completions"
        read = await http.post(url, json=body)
        assert (read.status_code, read.json()["error"]["code"]) == (400, "bad_frame"), "it has too many characters"
        too_large = await http.post(url, content=json.dumps({"model": "x" * 20_000_000}))
    assert (too_large.status_code, too_large.json()["error"]["code"]) == (413, "message_too_large")
