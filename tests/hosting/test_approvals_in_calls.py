"""What an application does only once a person has approved of exactly that."""

import asyncio
import re
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import pytest_asyncio
from support import panel_application
from support.rest_client import error_of, plain_http
from support.running_server import running_server

from agentic_backend.application import Application, ApprovalRequired
from agentic_backend.testing import open_application

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[httpx.AsyncClient]:
    settings = {"applications": [{"class_path": panel_application.PATH}]}
    async with running_server(tmp_path_factory.mktemp("server"), settings=settings) as server:
        async with plain_http(base_url=f"{server.address}/apps/boards") as client:
            yield client


async def asked(client: httpx.AsyncClient, words: str, board: str = "b") -> dict[str, Any]:
    approval: dict[str, Any] = error_of(await erased(client, words, board))["approval"]
    return approval


async def erased(client: httpx.AsyncClient, words: str, board: str = "b", **headers: str) -> httpx.Response:
    return await client.post(f"/boards/{board}/erased", json={"words": words}, headers=headers)


async def test_it_is_done_once_they_have_approved_of_what_they_were_shown(client: httpx.AsyncClient) -> None:
    approval = await asked(client, "all of it")
    assert (approval["asked_by"], approval["title"]) == ("boards", "Erase the board")
    assert approval["data"] == {"board": "b", "words": "all of it"}
    done = await erased(client, "all of it", Approval=approval["sha256"])
    assert done.json()["words"] == "erased"


async def test_an_approval_is_of_one_thing(client: httpx.AsyncClient) -> None:
    one = (await asked(client, "a"))["sha256"]
    for other in (await erased(client, "b", Approval=one), await erased(client, "a", "c", Approval=one)):
        assert error_of(other)["code"] == "approval_required"
    two = (await asked(client, "b"))["sha256"]
    assert (await erased(client, "b", Approval=f"{one}, {two}")).status_code == 200


@pytest.mark.parametrize("header", ["", "yes", "0" * 64, "0" * 63, "," * 100])
async def test_what_is_no_approval_approves_of_nothing(client: httpx.AsyncClient, header: str) -> None:
    answer = await erased(client, "a", Approval=header)
    assert error_of(answer)["code"] == "approval_required"


async def test_an_approval_is_of_its_own_request_on_a_connection(client: httpx.AsyncClient) -> None:
    approval = (await asked(client, "a"))["sha256"]
    body = b'{"words": "a"}'
    head = f"POST /apps/boards/boards/b/erased HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
    requests = [f"Approval: {approval}\r\n\r\n", "Connection: close\r\n\r\n"]
    reader, writer = await asyncio.open_connection("127.0.0.1", client.base_url.port)
    # The second one before the first one is answered.
    writer.writelines((head + more).encode() + body for more in requests)
    answers = (await reader.read()).decode()
    writer.close()
    assert re.findall(r"HTTP/1.1 (\d+)", answers) == ["200", "409"]


async def test_it_is_in_the_description_of_the_call(client: httpx.AsyncClient) -> None:
    document = (await client.get("/openapi.json")).json()
    described = document["paths"]["/apps/boards/boards/{board}/erased"]["post"]
    assert [one["name"] for one in described["parameters"] if one["in"] == "header"] == ["Approval"]
    assert "approval_required" in str(document["components"]["responses"])


class Asking(Application):
    """Asks for approvals outside of any call."""

    id = "asking"
    title = "Asking"
    version = "1"


WRONG: dict[str, tuple[Any, Any]] = {
    "no title": (" ", {}),
    "a long title": ("a" * 501, {}),
    "no text": (5, {}),
    "no data": ("a", {"b": object()}),
    "large data": ("a", {"b": "c" * 70_000}),
    "numbers that nobody has": ("a", {"b": 2**70}),
    "half a character": ("a", {"b": "\ud800"}),
}


async def test_what_can_not_be_shown_can_not_be_asked() -> None:
    async with open_application(Asking) as opened:
        for title, data in WRONG.values():
            with pytest.raises(ValueError, match=r"require_approval|expected a title"):
                opened.application.require_approval(title, data)
        with pytest.raises(ApprovalRequired):
            opened.application.require_approval("a", {"b": 1})
