"""An operation: what its handler's signature says of it, which errors it may have, and how a call of it is answered."""

import json
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import Response

from agentic_backend.auth.user import User
from agentic_backend.errors import (
    AgenticError,
    AuthUnavailable,
    BadFrame,
    Forbidden,
    Internal,
    MessageTooLarge,
    NotFound,
    SessionBusy,
    StoreUnavailable,
    Unauthenticated,
)
from agentic_backend.kpi import Kpi
from agentic_backend.protocol.frames import Frame
from agentic_backend.protocol.parts import Value
from agentic_backend.transports.rest.operation import Operation, Streamed
from agentic_backend.transports.rest.query_string import Query
from agentic_backend.transports.rest.rest_calls import OperationCall

ALICE = User("alice", "Alice")


class Body(Frame):
    text: str


class Page(Query):
    after: str | None = None


class Answer(Value):
    said: list[str | None]


async def change(user: User, id: str, body: Body, query: Page) -> Answer:
    """Change it.

    And say so.
    """
    return Answer(said=[user.id, id, body.text, query.after])


async def forget(id: str) -> None:
    """Forget it."""


async def fetch(request: Request) -> Response:
    """Fetch it."""
    return Response(request.headers["x-name"], 206)


def request_of(body: bytes = b"", query: str = "", headers: dict[str, str] | None = None, **parts: str) -> Request:
    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body}

    given = [(name.encode(), value.encode()) for name, value in (headers or {}).items()]
    scope = {"type": "http", "method": "POST", "query_string": query.encode(), "headers": given, "path_params": parts}
    return Request(scope, receive)


async def called(operation: Operation, request: Request, user: User | None = ALICE) -> Response:
    return await OperationCall(operation, body_bytes=100, kpi=Kpi())(request, user)


def test_the_signature_and_the_docstring_say_what_an_operation_is() -> None:
    operation = Operation("PATCH", "/things/{id}", change)
    assert (operation.id, operation.description) == ("change", "Change it.\n\nAnd say so.")
    assert (operation.body, operation.query, operation.path_parameters) == (Body, Page, ["id"])
    assert (operation.answer_type, operation.success) == (Answer, 200)
    assert Operation("DELETE", "/things/{id}", forget).success == 204
    assert Operation("POST", "/things/{id}", change, status=201).success == 201
    assert Operation("GET", "/thing", fetch, answer=Streamed("text/plain", str)).answer_type is str


def test_a_parameter_that_is_no_part_of_the_path_is_refused_at_the_start() -> None:
    with pytest.raises(TypeError, match="change: id: neither an input nor a part of the path /things"):
        Operation("PATCH", "/things", change)


def test_a_public_operation_has_no_user() -> None:
    with pytest.raises(TypeError, match="change: a public operation has no user"):
        Operation("PATCH", "/things/{id}", change, public=True)


@pytest.mark.parametrize(
    ("operation", "has", "lacks"),
    [
        (
            Operation("PATCH", "/things/{id}", change, errors=(SessionBusy, BadFrame)),
            {SessionBusy, BadFrame, Forbidden, Internal, Unauthenticated, MessageTooLarge, NotFound, StoreUnavailable},
            set[type[AgenticError]](),
        ),
        (Operation("DELETE", "/things/{id}", forget), {NotFound, Unauthenticated}, {MessageTooLarge, SessionBusy}),
        (
            Operation("GET", "/thing", fetch, answer=Streamed("text/plain", str), public=True),
            {BadFrame, Forbidden, Internal},
            {Unauthenticated, AuthUnavailable, NotFound, MessageTooLarge},
        ),
    ],
    ids=["with a body", "without a body", "public"],
)
def test_the_possible_errors_follow_from_what_it_takes(
    operation: Operation, has: set[type[AgenticError]], lacks: set[type[AgenticError]]
) -> None:
    errors = operation.possible_errors
    assert has <= set(errors) and not lacks & set(errors)
    assert len(set(errors)) == len(errors)


async def test_a_call_gives_the_handler_what_the_request_has() -> None:
    operation = Operation("PATCH", "/things/{id}", change, status=201)
    response = await called(operation, request_of(b'{"text": "new"}', "after=then", id="t1"))
    assert (response.status_code, json.loads(response.body)) == (201, {"said": ["alice", "t1", "new", "then"]})


async def test_a_call_that_returns_nothing_is_answered_without_a_body() -> None:
    response = await called(Operation("DELETE", "/things/{id}", forget), request_of(id="t1"))
    assert (response.status_code, response.body) == (204, b"")


async def test_a_response_of_the_handler_is_sent_as_it_is() -> None:
    operation = Operation("GET", "/thing", fetch, answer=Streamed("text/plain", str), public=True)
    response = await called(operation, request_of(headers={"x-name": "it"}), user=None)
    assert (response.status_code, response.body) == (206, b"it")


@pytest.mark.parametrize(
    ("body", "error", "content"),
    [
        (b"", BadFrame, "text: "),
        (b'{"text": null}', BadFrame, "text: "),
        (b'{"text": 1}', BadFrame, "text: "),
        (b'{"text": "x", "more": 1}', BadFrame, "more: unknown field"),
        (b"[]", BadFrame, "not a JSON object"),
        (b"\xff", BadFrame, "not JSON"),
        (b'{"text": "' + b"x" * 100 + b'"}', MessageTooLarge, "body: "),
    ],
)
async def test_a_wrong_body_is_refused_before_the_handler(body: bytes, error: type[AgenticError], content: str) -> None:
    with pytest.raises(error, match=content):
        await called(Operation("PATCH", "/things/{id}", change), request_of(body, id="t1"))


async def test_refused_input_is_counted_where_the_operation_says_so() -> None:
    kpi = Kpi()
    for refused_as in ("ask", None):
        operation = Operation("PATCH", "/things/{id}", change, refused_as=refused_as)
        with pytest.raises(BadFrame):
            await OperationCall(operation, body_bytes=100, kpi=kpi)(request_of(b"{}", id="t1"), ALICE)
    exposition = kpi.exposition("")[0].decode()
    counted = [line for line in exposition.splitlines() if 'call="ask"' in line and 'code="bad_frame"' in line]
    assert [line.rpartition(" ")[2] for line in counted if "_total" in line] == ["1.0"]
