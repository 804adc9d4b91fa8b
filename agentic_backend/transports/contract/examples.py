"""Examples of all frames, events and values: a question about the weather, which a person has to approve.

They are models, so they can't differ from the protocol. A value within an event or a frame is an example of its type.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from pydantic import BaseModel

from agentic_backend.protocol.events import (
    Activity,
    ApprovalAsked,
    AwaitingHuman,
    Choice,
    Delta,
    ErrorDetail,
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
    Place,
    Pong,
    Problem,
    Reset,
    SessionChanged,
    SessionDeleted,
    Started,
    Stream,
)
from agentic_backend.protocol.frames import (
    Ask,
    Authenticate,
    Decision,
    Follow,
    FollowSessions,
    Frame,
    HumanDecisions,
    HumanResume,
    PastMessage,
    Ping,
    Stop,
    Unfollow,
    UnfollowSessions,
)
from agentic_backend.protocol.messages import (
    Channel,
    ChatMessage,
    ExchangeStatus,
    FinishReason,
    MessageMetadata,
    Parent,
    Role,
    Session,
    SessionState,
    TokenUsage,
)
from agentic_backend.protocol.parts import (
    CodePart,
    CustomPart,
    FilePart,
    GeoPart,
    ImageUrlPart,
    LinkPart,
    Part,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from agentic_backend.protocol.trust import Ground, Objection, Statement, ToolTrust, TrustedSource, TrustSummary

Json = dict[str, Any]

_AT = datetime(2026, 11, 23, 9, 30, tzinfo=UTC)
_SESSION_ID, _EXCHANGE_ID, _CALL_ID = "5b1f0c", "9d27aa", "call_1"
_OWN_ID, _REQUEST_ID, _AGENT_ID = "my-exchange-1", "4f7c19", "assistant"
_ARGS = {"city": "Bern"}
_SHA256 = "9ad9d1db359cb62596c5d18e2b6395a325c91d01bd2aeeb20768e541b8d18260"
_SCHEMA = {"type": "string", "enum": ["celsius", "fahrenheit"]}
_TOKEN, _REFRESH_TOKEN = "eyJhbGciOi…", "eyJyZWZyZXNo…"


def _at(seq: int) -> Place:
    return {"session_id": _SESSION_ID, "exchange_id": _EXCHANGE_ID, "seq": seq}


def _message(
    rank: int, role: Role, channel: Channel, *parts: Part, metadata: MessageMetadata | None = None
) -> ChatMessage:
    return ChatMessage(
        role=role,
        channel=channel,
        parts=list(parts),
        metadata=metadata or MessageMetadata(),
        session_id=_SESSION_ID,
        exchange_id=_EXCHANGE_ID,
        rank=rank,
        timestamp=_AT,
    )


_USAGE = TokenUsage(input_tokens=310, output_tokens=24, total_tokens=334)
_METADATA = MessageMetadata(
    model="openai:gpt-5-mini",
    token_usage=_USAGE,
    sources=[{"number": 1, "title": "Weather of Bern", "url": "https://weather.example/bern"}],
    agent_id=_AGENT_ID,
    latency_ms=840,
    finish_reason=FinishReason.STOP,
    extras={"node": "model"},
)
_QUESTION = _message(0, Role.USER, Channel.FINAL, TextPart(text="What is the weather in Bern?"))
_CALL = _message(
    1,
    Role.ASSISTANT,
    Channel.TOOL_CALL,
    ToolCallPart(call_id=_CALL_ID, name="weather", title="Weather of a city", args=_ARGS),
)
_RESULT = _message(
    2,
    Role.TOOL,
    Channel.TOOL_RESULT,
    ToolResultPart(call_id=_CALL_ID, ok=True, latency_ms=120, content="18 °C, sunny"),
)
_ANSWER = _message(
    3, Role.ASSISTANT, Channel.FINAL, TextPart(text="It is sunny in Bern, at 18 °C."), metadata=_METADATA
)
_SESSION = Session(
    id=_SESSION_ID,
    user_id="ada",
    agent_id=_AGENT_ID,
    title="Weather in Bern",
    created_at=_AT,
    updated_at=_AT,
    next_rank=1,
    message_count=1,
    active_exchange_id=_EXCHANGE_ID,
)
_PARENT = Parent(session_id="2f90ce", rank=0)
_COMPLETED = _SESSION.model_copy(
    update={
        "parent": _PARENT,
        "root_id": _PARENT.session_id,
        "state": SessionState.COMPLETED,
        "ended_at": _AT,
        "next_rank": 4,
        "message_count": 4,
        "active_exchange_id": None,
    }
)
_DETAIL = ErrorDetail(type="TimeoutError", text="no answer within 30 s", where="weather.py:12 in read")
_CALL_REQUEST = HumanRequest(
    interrupt_id="i_1",
    call_id=_CALL_ID,
    name="weather",
    args=_ARGS,
    args_sha256=_SHA256,
    allowed=["approve", "reject", "edit"],
)
_QUESTION_REQUEST = HumanRequest(
    interrupt_id="i_2",
    question="Which unit?",
    choices=[Choice(id="celsius", label="°C", description="As in most countries"), Choice(id="fahrenheit", label="°F")],
    response_schema=_SCHEMA,
    value={"question": "Which unit?"},
)

FRAMES: tuple[Frame, ...] = (
    Authenticate(type="authenticate", access_token=_TOKEN, refresh_token=_REFRESH_TOKEN),
    Ask(type="ask", message="What is the weather in Bern?", client_exchange_id=_OWN_ID),
    Ask(
        type="ask",
        message="And tomorrow?",
        session_id=_SESSION_ID,
        agent_id=_AGENT_ID,
        client_exchange_id="my-exchange-2",
        attachments=["a_1"],
        mode="chat",
        chat_profile="default",
        scope={"class": "geography-5b"},
        runtime_context={"time_zone": "Europe/Zurich"},
        access_token=_TOKEN,
        refresh_token=_REFRESH_TOKEN,
    ),
    Ask.model_validate({"message": "What is a foehn?", "mode": "query", "agent_name": _AGENT_ID}),
    Ask(
        type="ask",
        message="And what does it do?",
        mode="query",
        history=[
            PastMessage(role="user", content="What is a foehn?"),
            PastMessage(role="assistant", content="A warm, dry wind in the lee of mountains."),
        ],
    ),
    HumanResume(
        type="human_resume",
        session_id=_SESSION_ID,
        exchange_id=_EXCHANGE_ID,
        payload=HumanDecisions(
            decisions=[Decision(call_id=_CALL_ID, args_sha256=_SHA256, action="approve")], answers={"i_2": "celsius"}
        ),
    ),
    HumanResume(
        type="human_resume",
        session_id=_SESSION_ID,
        exchange_id=_EXCHANGE_ID,
        payload=HumanDecisions(
            decisions=[
                Decision(call_id=_CALL_ID, args_sha256=_SHA256, action="edit", args={"city": "Thun"}),
                Decision(call_id="call_2", args_sha256=_SHA256, action="reject", message="Not needed."),
            ]
        ),
        access_token=_TOKEN,
        refresh_token=_REFRESH_TOKEN,
    ),
    Stop(type="stop", session_id=_SESSION_ID, exchange_id=_EXCHANGE_ID),
    Follow(type="follow", session_id=_SESSION_ID, exchange_id=_EXCHANGE_ID, after_seq=17),
    Follow(type="follow", session_id=_SESSION_ID),
    Unfollow(type="unfollow", session_id=_SESSION_ID),
    FollowSessions(type="follow_sessions"),
    UnfollowSessions(type="unfollow_sessions"),
    Ping(type="ping"),
)

EVENTS: tuple[Event, ...] = (
    Started(**_at(1), client_exchange_id=_OWN_ID, agent_id=_AGENT_ID, session=_SESSION, resumes="7c81ef"),
    Stream(**_at(2), message=_QUESTION),
    Activity(**_at(3), kind="progress", data={"step": "Looking up the city"}),
    Stream(**_at(4), message=_CALL),
    AwaitingHuman(
        **_at(5),
        payload=HumanRequests(
            title="Please decide", requests=[_CALL_REQUEST, _QUESTION_REQUEST], expires_at=_AT.replace(hour=10)
        ),
    ),
    Delta(**_at(8), block=1, channel=Channel.FINAL, text="It is sunny"),
    Reset(
        **_at(9),
        messages=[_QUESTION, _CALL, _RESULT],
        partial=[PartialText(block=1, channel=Channel.FINAL, text="It is sunny")],
    ),
    Stream(**_at(11), message=_ANSWER, block=1),
    Final(
        **_at(12),
        status=ExchangeStatus.OK,
        messages=[_QUESTION, _CALL, _RESULT, _ANSWER],
        session=_COMPLETED,
        usage=_USAGE,
    ),
    ExchangeError(
        **_at(6),
        code="model_timeout",
        content="The language model did not answer in time.",
        retryable=True,
        request_id=_REQUEST_ID,
        detail=_DETAIL,
    ),
    Final(
        **_at(7),
        resumable=True,
        status=ExchangeStatus.ERROR,
        messages=[_QUESTION],
        session=_SESSION,
        usage=TokenUsage(),
        error=ErrorInfo(
            code="model_timeout",
            content="The language model did not answer in time.",
            retryable=True,
            request_id=_REQUEST_ID,
            retry_after_s=2,
            detail=_DETAIL,
        ),
    ),
    SessionChanged(session=_COMPLETED, status=ExchangeStatus.OK),
    SessionDeleted(session_id=_SESSION_ID),
    FollowingSessions(),
    Idle(session_id=_SESSION_ID, next_rank=4),
    FrameRefused(
        code="session_busy",
        content="An exchange runs or waits in this session.",
        retryable=True,
        request_id=_REQUEST_ID,
        retry_after_s=2,
        detail=_DETAIL,
        refused="ask",
        client_exchange_id="my-exchange-2",
        session_id=_SESSION_ID,
        exchange_id=_EXCHANGE_ID,
    ),
    Pong(),
)

_VALUES: tuple[BaseModel, ...] = (
    ErrorInfo(
        code="agent_invalid",
        content="The agent's entry is not accepted.",
        retryable=False,
        request_id=_REQUEST_ID,
        problems=[Problem(message="unknown key 'modell'; did you mean 'model'?", line=3, column=1)],
    ),
    ErrorInfo(
        code="approval_required",
        content="You have to approve of this first.",
        retryable=False,
        request_id=_REQUEST_ID,
        approval=ApprovalAsked(
            asked_by="library", title="Embed 1,200 pages", data={"cost": "3.20 USD"}, sha256="0" * 64
        ),
    ),
    CodePart(language="python", code="print(18)"),
    ImageUrlPart(url="https://weather.example/bern.png", alt="A sunny sky"),
    LinkPart(
        href="https://weather.example/bern",
        title="Weather of Bern",
        kind="citation",
        rel="nofollow",
        mime="text/html",
        source_id="s_1",
        document_uid="weather-bern",
        file_name="bern.html",
        panel="weather/places",
        panel_data={"place": "bern"},
    ),
    GeoPart(
        geojson={"type": "Feature", "geometry": {"type": "Point", "coordinates": [7.45, 46.95]}, "properties": {}},
        popup_property="name",
        fit_bounds=True,
        style={"color": "#d33"},
    ),
    CustomPart(
        kind="team-notes:note",
        data={"title": "Bern", "words": 12},
        text="**Bern**: a note of 12 words.",
    ),
    TrustSummary(
        exchange_id=_EXCHANGE_ID,
        status=ExchangeStatus.OK,
        answer_rank=3,
        statements=[
            Statement(
                text="It is sunny in Bern, at 18 °C.", start=0, end=30, rests_on=[Ground(id="tool_1", by="match")]
            )
        ],
        tools=[
            ToolTrust(
                id="tool_1",
                call_id=_CALL_ID,
                name="weather",
                agent_id=_AGENT_ID,
                outcome="ok",
                approval="approved",
                decided_by="ada",
                needs=["weather:read"],
                allowed_because="The user approved of the call.",
                latency_ms=120,
            )
        ],
        sources=[
            TrustedSource(
                id="source_1",
                number=1,
                title="Weather of Bern",
                href="https://weather.example/bern",
                found_by="tool_1",
            )
        ],
        objections=[Objection(by="module", module="pii", stage="output", action="modified")],
    ),
    FilePart(attachment_id="a_1", name="notes.pdf", mime="application/pdf", size=48_213),
)


def examples() -> dict[str, list[Json]]:
    """Examples by the name of their model: a model's later ones have a field that its earlier ones lack."""
    found: dict[str, list[Json]] = {}
    seen: dict[str, set[str]] = {}
    for value in _within((*FRAMES, *EVENTS, *_VALUES)):
        name = type(value).__name__
        # An example of a frame has what a client would send.
        example = value.model_dump(mode="json", exclude_unset=isinstance(value, Frame))
        if not example.keys() <= seen.setdefault(name, set()) or not example:
            seen[name].update(example)
            found.setdefault(name, []).append(example)
    return found


def _within(value: Any) -> Iterator[BaseModel]:
    """All models in a value, itself included."""
    if isinstance(value, BaseModel):
        yield value
        value = [getattr(value, name) for name in type(value).model_fields]
    elif isinstance(value, dict):
        value = value.values()
    if not isinstance(value, str) and hasattr(value, "__iter__"):
        for each in value:
            yield from _within(each)
