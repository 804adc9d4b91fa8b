"""The exact JSON of every server event, as the contract writes it."""

import json
from typing import Any

import pytest
from pydantic import ValidationError
from support.protocol_samples import AT, AT_TEXT, MESSAGE, MESSAGE_SHAPE, SESSION, SESSION_SHAPE

from agentic_backend.errors import AgenticError, AgentNotFound, ModelError, ShuttingDown, TooManyRuns
from agentic_backend.protocol import events
from agentic_backend.protocol.events import (
    Activity,
    AwaitingHuman,
    Choice,
    Delta,
    ErrorInfo,
    Event,
    ExchangeError,
    Final,
    FollowingSessions,
    FrameRefused,
    HumanRequest,
    HumanRequests,
    Idle,
    PartialText,
    Pong,
    Reset,
    SessionChanged,
    SessionDeleted,
    Started,
    Stream,
)
from agentic_backend.protocol.messages import Channel, ExchangeStatus, TokenUsage

IDS: dict[str, Any] = {"session_id": "s", "exchange_id": "e", "seq": 1}
QUERY = IDS | {"session_id": None}
NO_USAGE: dict[str, int] = {}
ERROR = ErrorInfo(code="internal", content="c", retryable=True, request_id="r")
ERROR_SHAPE = {"code": "internal", "content": "c", "whose": "internal", "retryable": True, "request_id": "r"}
REQUEST = HumanRequest(
    interrupt_id="i",
    call_id="c",
    name="n",
    args={"none": None, "deep": [None]},
    args_sha256="0" * 64,
    question="q",
    choices=[Choice(id="1", label="one"), Choice(id="2", label="two", description="d")],
    response_schema={"type": "string", "default": None},
    value={"question": "q", "none": None},
    allowed=["approve", "reject"],
)
REQUEST_SHAPE = {
    "interrupt_id": "i",
    "call_id": "c",
    "name": "n",
    "args": {"none": None, "deep": [None]},
    "args_sha256": "0" * 64,
    "question": "q",
    "choices": [{"id": "1", "label": "one"}, {"id": "2", "label": "two", "description": "d"}],
    "response_schema": {"type": "string", "default": None},
    "value": {"question": "q", "none": None},
    "allowed": ["approve", "reject"],
}
# Each event in its smallest and its largest form, with its JSON.
SHAPES: list[tuple[Event, dict[str, Any]]] = [
    (
        Started(**IDS, agent_id="a", session=SESSION),
        IDS | {"type": "started", "agent_id": "a", "session": SESSION_SHAPE},
    ),
    (
        Started(**QUERY, client_exchange_id="x", agent_id="a", session=None, resumes="e0"),
        QUERY | {"type": "started", "client_exchange_id": "x", "agent_id": "a", "session": None, "resumes": "e0"},
    ),
    (Stream(**IDS, message=MESSAGE), IDS | {"type": "stream", "message": MESSAGE_SHAPE}),
    (Stream(**IDS, message=MESSAGE, block=0), IDS | {"type": "stream", "message": MESSAGE_SHAPE, "block": 0}),
    (
        Delta(**IDS, block=0, channel=Channel.THOUGHT, text=" ✓"),
        IDS | {"type": "delta", "block": 0, "channel": "thought", "text": " ✓"},
    ),
    (
        Activity(**IDS, kind="progress", data={"none": None}),
        IDS | {"type": "activity", "kind": "progress", "data": {"none": None}},
    ),
    (
        AwaitingHuman(**IDS, payload=HumanRequests(requests=[HumanRequest(interrupt_id="i")])),
        IDS | {"type": "awaiting_human", "payload": {"requests": [{"interrupt_id": "i", "allowed": []}]}},
    ),
    (
        AwaitingHuman(**IDS, payload=HumanRequests(title="t", requests=[REQUEST], expires_at=AT)),
        IDS | {"type": "awaiting_human", "payload": {"title": "t", "requests": [REQUEST_SHAPE], "expires_at": AT_TEXT}},
    ),
    (ExchangeError(**IDS, **ERROR_SHAPE), IDS | {"type": "error"} | ERROR_SHAPE),
    (
        Final(**IDS, status=ExchangeStatus.OK, messages=[MESSAGE], session=SESSION, usage=TokenUsage()),
        IDS
        | {"type": "final", "status": "ok", "messages": [MESSAGE_SHAPE], "session": SESSION_SHAPE, "usage": NO_USAGE},
    ),
    (
        Final(**QUERY, status=ExchangeStatus.ERROR, messages=[], session=None, usage=TokenUsage(), error=ERROR),
        QUERY
        | {
            "type": "final",
            "status": "error",
            "messages": [],
            "session": None,
            "usage": NO_USAGE,
            "error": ERROR_SHAPE,
        },
    ),
    (
        Reset(**IDS, messages=[MESSAGE], partial=[PartialText(block=1, channel=Channel.FINAL, text="t")]),
        IDS
        | {
            "type": "reset",
            "messages": [MESSAGE_SHAPE],
            "partial": [{"block": 1, "channel": "final", "text": "t"}],
        },
    ),
    (SessionChanged(session=SESSION), {"type": "session", "session": SESSION_SHAPE}),
    (
        SessionChanged(session=SESSION, status=ExchangeStatus.AWAITING_HUMAN),
        {"type": "session", "session": SESSION_SHAPE, "status": "awaiting_human"},
    ),
    (SessionDeleted(session_id="s"), {"type": "session_deleted", "session_id": "s"}),
    (FollowingSessions(), {"type": "following_sessions"}),
    (Idle(session_id="s", next_rank=0), {"type": "idle", "session_id": "s", "next_rank": 0}),
    (Idle(session_id=None, next_rank=0), {"type": "idle", "session_id": None, "next_rank": 0}),
    (FrameRefused(**ERROR_SHAPE), {"type": "error"} | ERROR_SHAPE),
    (
        FrameRefused(
            **ERROR_SHAPE,
            retry_after_s=1.5,
            refused="ask",
            client_exchange_id="x",
            session_id="s",
            exchange_id="e",
        ),
        {
            "type": "error",
            "retry_after_s": 1.5,
            "refused": "ask",
            "client_exchange_id": "x",
            "session_id": "s",
            "exchange_id": "e",
        }
        | ERROR_SHAPE,
    ),
    (Pong(), {"type": "pong"}),
]


@pytest.mark.parametrize(("event", "shape"), SHAPES)
def test_an_event_has_exactly_its_fields_and_comes_back(event: Event, shape: dict[str, Any]) -> None:
    line = event.encode()
    assert json.loads(line) == shape
    assert "\n" not in line
    assert type(event).model_validate_json(line) == event


def test_every_event_that_there_is_has_its_shape_here() -> None:
    kinds = {value for value in vars(events).values() if isinstance(value, type) and issubclass(value, Event)}
    assert kinds - {Event, events.ExchangeEvent} == {type(event) for event, _ in SHAPES}


def test_every_event_of_an_exchange_names_its_exchange_and_its_place() -> None:
    for event, shape in SHAPES:
        outside = isinstance(event, SessionChanged | SessionDeleted | FollowingSessions | Idle | FrameRefused | Pong)
        assert ("seq" in shape) is not outside


@pytest.mark.parametrize("kind", ["agent_switch", "handoff", "progress", "compacted"])
def test_the_kinds_of_activity_are_those_of_the_contract(kind: Any) -> None:
    assert json.loads(Activity(**IDS, kind=kind, data={}).encode())["kind"] == kind


def test_there_is_no_other_kind_of_activity() -> None:
    with pytest.raises(ValidationError):
        Activity(**IDS, kind="other", data={})  # type: ignore[arg-type]


def test_an_error_tells_its_code_and_when_to_come_back() -> None:
    info = ErrorInfo.of(TooManyRuns(retry_after_s=2), "r")
    assert json.loads(info.model_dump_json()) == {
        "code": "too_many_runs",
        "content": "Too many exchanges are running; wait until one has ended.",
        "whose": "client",
        "retryable": True,
        "request_id": "r",
        "retry_after_s": 2.0,
    }
    assert "retry_after_s" not in ErrorInfo.of(AgentNotFound("no"), "r").model_dump_json()


@pytest.mark.parametrize("error", [AgentNotFound("c"), ModelError("c"), ShuttingDown("c")])
def test_whose_error_it_is_follows_from_its_code(error: AgenticError) -> None:
    fields: dict[str, Any] = {"code": error.code, "content": "c", "retryable": error.retryable, "request_id": "r"}
    told = (ErrorInfo.model_validate(fields), ExchangeError(**IDS, **fields), FrameRefused(**fields))
    assert {one.whose for one in told} == {error.whose}
    assert ErrorInfo.of(error, "r") == told[0]


def test_an_error_whose_code_is_not_known_is_the_servers() -> None:
    assert ErrorInfo(code="of another version", content="c", retryable=False, request_id="r").whose == "internal"
