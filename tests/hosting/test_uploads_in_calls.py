"""Calls of applications that take a file."""

from collections.abc import AsyncIterator, Sequence
from typing import Any, BinaryIO

import httpx
import pytest_asyncio
from openapi_spec_validator import validate
from pytest import mark, raises
from support.rest_client import error_of

from agentic_backend.agents.code.class_path import ClassPathError
from agentic_backend.application import Application, ApplicationUnavailable, Call, Forbidden, Frame, Upload, User, Value
from agentic_backend.hosting.declared_calls import declared_calls
from agentic_backend.testing import open_application

pytestmark = mark.asyncio(loop_scope="module")

_taken: list[BinaryIO] = []


class Taken(Value):
    """What came."""

    name: str
    content: str
    by: str


class Takes(Application):
    """Takes files."""

    id = "takes"
    title = "Takes"
    version = "1"

    def calls(self) -> Sequence[Call]:
        return [Call("POST", "/files/{place}", self.take_file, errors=[Forbidden])]

    async def take_file(self, user: User, upload: Upload, place: str) -> Taken:
        """Take a file."""
        _taken.append(upload.file)
        if place == "nowhere":
            raise Forbidden("Nowhere.")
        return Taken(name=upload.name, content=upload.file.read().decode(), by=f"{user.id} {place}")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client() -> AsyncIterator[httpx.AsyncClient]:
    async with open_application(Takes) as opened, opened.client("ann") as client:
        yield client


async def test_a_handler_is_given_the_file(client: httpx.AsyncClient) -> None:
    answer = await client.post("/files/shelf", files={"file": ("notes.md", b"# Notes")})
    assert answer.json() == {"name": "notes.md", "content": "# Notes", "by": "ann shelf"}


async def test_it_is_closed_whatever_becomes_of_the_call(client: httpx.AsyncClient) -> None:
    refused = await client.post("/files/nowhere", files={"file": ("a", b"b")})
    assert error_of(refused)["code"] == "forbidden"
    with raises(ValueError, match="closed"):
        _taken[-1].read()


async def test_what_is_no_file_or_too_large_is_refused(client: httpx.AsyncClient) -> None:
    before = len(_taken)
    codes = [error_of(await client.post("/files/shelf", **sent))["code"] for sent in WRONG]
    assert codes == ["bad_frame", "bad_frame", "bad_frame", "message_too_large"]
    assert len(_taken) == before


WRONG: list[dict[str, Any]] = [
    {},
    {"json": {"file": "a"}},
    {"files": {"picture": ("a", b"b")}},
    {"files": {"file": ("a", bytes(10_485_761))}},
]


async def test_it_is_in_the_description(client: httpx.AsyncClient) -> None:
    document = (await client.get("/openapi.json")).json()
    validate(document)
    body = document["paths"]["/apps/takes/files/{place}"]["post"]["requestBody"]
    assert "file" in body["content"]["multipart/form-data"]["schema"]["properties"]


async def test_another_application_can_not_send_one() -> None:
    async with open_application(Takes) as opened:
        with raises(TypeError, match="file"):
            user = User("ann", "Ann")
            await opened.application.call("takes", "take_file", user, parts={"place": "shelf"})
        with raises(ApplicationUnavailable):
            await opened.application.call("takers", "take_file", user)


class Given(Frame):
    """A body."""


class Odd:
    async def both(self, user: User, body: Given, upload: Upload) -> None:
        """Both."""

    async def other(self, user: User, upload: str) -> None:
        """Another type."""


@mark.parametrize("name", ["both", "other"])
async def test_odd_declarations_are_refused(name: str) -> None:
    with raises(ClassPathError, match="upload"):
        declared_calls("odd", [Call("POST", "/odd", getattr(Odd(), name))])
