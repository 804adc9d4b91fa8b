"""Responses, as OpenAI's own client gets them."""

import asyncio
import base64
from typing import Any

import openai
import pytest
from pydantic import BaseModel
from support.rest_client import rest
from support.running_server import RunningServer
from transports.openai.conftest import client_of
from transports.openai.test_chat_completions import PNG, running

pytestmark = pytest.mark.asyncio(loop_scope="module")


class Sum(BaseModel):
    of: list[int]
    is_: int


async def test_a_response_is_the_same_whole_streamed_and_fetched(server: RunningServer) -> None:
    async with client_of(server, "whole") as client:
        whole = await client.responses.create(model="assistant", input="What is 12*34?")
        async with client.responses.stream(model="assistant", input="What is 12*34?") as stream:
            events = [event async for event in stream]
            streamed = await stream.get_final_response()
        fetched = await client.responses.retrieve(whole.id)
    assert whole.output_text == streamed.output_text == fetched.output_text == "12*34 = 408."
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == "12*34 = 408."
    assert whole.usage is not None and whole.usage == fetched.usage and whole.store is True


async def test_a_response_goes_on_from_another_and_branches_from_an_earlier_one(server: RunningServer) -> None:
    async with client_of(server, "chain") as client, rest(server, "dev:chain") as http:
        first = await client.responses.create(model="seeing", input="I am Ann")
        second = await client.responses.create(model="seeing", input="one", previous_response_id=first.id)
        third = await client.responses.create(model="seeing", input="two", previous_response_id=second.id)
        branch = await client.responses.create(model="seeing", input="other", previous_response_id=first.id)
        sessions = (await http.get("/sessions")).json()["sessions"]
    assert third.output_text.endswith(" | two") and " | one | " in third.output_text
    assert branch.output_text.endswith(" | other") and "one" not in branch.output_text
    assert first.conversation == second.conversation == third.conversation != branch.conversation
    assert len(sessions) == 2


async def test_what_is_not_to_be_stored_leaves_nothing(server: RunningServer) -> None:
    past: list[Any] = [{"role": "user", "content": "I am Ann"}, {"role": "assistant", "content": "Hello"}]
    async with client_of(server, "nothing") as client, rest(server, "dev:nothing") as http:
        one = await client.responses.create(model="seeing", input="hello", store=False)
        whole = await client.responses.create(model="seeing", input=[*past, {"role": "user", "content": "Who?"}])
        assert one.store is False and whole.store is False
        assert (await http.get("/sessions")).json()["sessions"] == []
        assert whole.output_text == "I am Ann | Hello | Who?"
        with pytest.raises(openai.NotFoundError):
            await client.responses.retrieve(one.id)
        with pytest.raises(openai.NotFoundError):
            await client.responses.create(model="seeing", input="and?", previous_response_id=one.id)


async def test_a_response_of_another_user_does_not_exist(server: RunningServer) -> None:
    async with client_of(server, "ann") as ann, client_of(server, "eve") as eve:
        hers = await ann.responses.create(model="echo", input="hello")
        for call in (
            eve.responses.retrieve(hers.id),
            eve.responses.cancel(hers.id),
            eve.responses.create(model="echo", input="and?", previous_response_id=hers.id),
            eve.responses.retrieve("resp_nobody"),
        ):
            with pytest.raises(openai.NotFoundError) as refused:
                await call
            assert refused.value.code == "exchange_not_found"


async def test_instructions_images_and_files_go_with_a_response(server: RunningServer) -> None:
    image = f"data:image/png;base64,{base64.b64encode(PNG).decode()}"
    content: list[Any] = [
        {"type": "input_text", "text": "Look"},
        {"type": "input_image", "image_url": image, "detail": "auto"},
        {"type": "input_file", "filename": "plan.txt", "file_data": base64.b64encode(b"At noon.").decode()},
    ]
    async with client_of(server, "given") as client:
        for store in (True, False):
            response = await client.responses.create(
                model="seeing", input=[{"role": "user", "content": content}], instructions="Be short.", store=store
            )
            said = response.output_text
            assert "<image/png 96>" in said and "At noon." in said and "Be short." in said
            assert response.instructions == "Be short."


async def test_a_response_follows_its_format(server: RunningServer) -> None:
    async with client_of(server, "format") as client:
        right = await client.responses.parse(model="saying", input='{"of": [1], "is_": 1}', text_format=Sum)
        assert right.output_parsed == Sum(of=[1], is_=1)
        with pytest.raises(openai.UnprocessableEntityError):
            await client.responses.parse(model="saying", input='{"of": 1}', text_format=Sum)


async def test_a_failed_response_says_so(server: RunningServer) -> None:
    async with client_of(server, "failing") as client:
        with pytest.raises(openai.InternalServerError):
            await client.responses.create(model="raising", input="hello")
        async with client.responses.stream(model="raising", input="hello") as stream:
            [*_, last] = [event async for event in stream]
    assert last.type == "response.failed" and last.response.error is not None
    assert "secret" not in last.response.error.message


async def test_a_cancelled_response_is_incomplete(server: RunningServer) -> None:
    async with client_of(server, "cancel") as client, rest(server, "dev:cancel") as http:
        asking = asyncio.ensure_future(client.responses.create(model="assistant", input="hang after 5 tokens"))
        session = (await http.get(f"/sessions/{await running(http)}")).json()
        running_id = f"resp_{session['active_exchange_id']}"
        assert (await client.responses.retrieve(running_id)).status == "in_progress"
        await client.responses.cancel(running_id)
        answer = await asking
        assert (answer.id, answer.status) == (running_id, "incomplete")
        assert answer.incomplete_details is not None


def deep(levels: int) -> dict[str, Any]:
    return {"items": deep(levels - 1)} if levels else {}


REFUSED = [
    ({"background": True}, "background"),
    ({"tool_choice": {"type": "function", "name": "mine"}}, "tool_choice"),
    ({"conversation": "a", "previous_response_id": "resp_b"}, "conversation"),
    ({"input": []}, "input"),
    ({"text": {"format": {"type": "json_schema", "name": "deep", "schema": deep(150)}}}, "text.format.schema"),
    ({"input": [{"role": "user", "content": [{"type": "input_audio"}]}]}, "input.0.content.0"),
    ({"input": [{"role": "nobody", "content": "x"}]}, "input.0.role"),
]


@pytest.mark.parametrize(("change", "param"), REFUSED)
async def test_what_is_refused_names_its_parameter(server: RunningServer, change: dict[str, Any], param: str) -> None:
    async with client_of(server, "refused") as client:
        with pytest.raises(openai.BadRequestError) as refused:
            await client.responses.create(**{"model": "echo", "input": "hello", **change})
    assert refused.value.param == param


LATE: list[Any] = [{"type": "function_call_output", "call_id": "call_1", "output": "approve"}]


@pytest.mark.parametrize("change", [{"model": "nobody"}, {"input": LATE}])
async def test_a_refused_response_leaves_no_branch(server: RunningServer, change: dict[str, Any]) -> None:
    user = f"branches-{next(iter(change))}"
    async with client_of(server, user) as client, rest(server, f"dev:{user}") as http:
        first = await client.responses.create(model="echo", input="one")
        await client.responses.create(model="echo", input="two", previous_response_id=first.id)
        again: dict[str, Any] = {"model": "echo", "input": "three", "previous_response_id": first.id}
        with pytest.raises(openai.APIStatusError):
            await client.responses.create(**{**again, **change})
        assert len((await http.get("/sessions")).json()["sessions"]) == 1
        named = {"extra_headers": {"Idempotency-Key": "third"}}
        third, same = [await client.responses.create(**again, **named) for _ in range(2)]
        assert third.id == same.id
        assert len((await http.get("/sessions")).json()["sessions"]) == 2


async def test_items_of_other_servers_are_passed_over(server: RunningServer) -> None:
    others: list[Any] = [
        {"type": "reasoning", "id": "rs_1", "summary": [], "content": [], "role": "thinker"},
        {"type": "computer_call_output", "call_id": "c", "output": {"type": "computer_screenshot"}},
        {"type": "mcp_call", "id": "mcp_1", "name": "find", "output": 7},
    ]
    async with client_of(server, "others") as client:
        input_ = [{"role": "user", "content": "one"}, *others, {"role": "user", "content": "two"}]
        response = await client.responses.create(model="echo", input=input_)
    assert response.output_text.startswith("echo: one\n\ntwo")
