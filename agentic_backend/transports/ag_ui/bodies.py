"""The body of a run, and what it tells: what the user asks, and what their program asks beside it. Pure."""

from collections.abc import Sequence
from itertools import takewhile
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from agentic_backend.errors import BadFrame
from agentic_backend.exact_json import depth_of
from agentic_backend.protocol.frames import Id, first_problem
from agentic_backend.transports.camel_case import CamelBody

_MOST_MESSAGES = 2_000
_MOST_ENTRIES = 256
_DEEPEST = 100


class OpenBody(CamelBody):
    """Fields that this server does not know are left alone."""

    model_config = ConfigDict(extra="ignore")


class FileSource(OpenBody):
    """A file by the id that its upload was answered with."""

    type: str
    value: str = Field(repr=False)


class Piece(OpenBody):
    """A piece of a message: `text`, or a file with a `source` of the type `file`."""

    type: str
    text: str | None = Field(default=None, repr=False)
    source: FileSource | None = None


def _pieces(value: Any) -> Any:
    if isinstance(value, str) and value:
        return [{"type": "text", "text": value}]
    if isinstance(value, list) and value:
        return value
    raise ValueError("expected a text, or a list of pieces")


Pieces = Annotated[list[Piece], BeforeValidator(_pieces, json_schema_input_type=str | list[Piece])]


class InputMessage(OpenBody):
    """A message of the thread. The server has its own, so that only those after the agent's last one are read."""

    model_config = ConfigDict(extra="allow")

    role: Literal["developer", "system", "assistant", "user", "tool", "activity", "reasoning"]
    content: Any = Field(default=None, repr=False)

    @model_validator(mode="before")
    @classmethod
    def _not_too_deep(cls, raw: Any) -> Any:
        # It may have to be sent back.
        if depth_of(raw) > _DEEPEST:
            raise ValueError(f"nested more than {_DEEPEST} levels deep")
        return raw


class AskedMessage(OpenBody):
    """A message of the user."""

    content: Pieces


class ContextEntry(OpenBody):
    """What the front end tells of its surroundings."""

    description: str
    value: str = Field(repr=False)


class ResumeEntry(OpenBody):
    """The answer to one interrupt."""

    interrupt_id: str = Field(max_length=128)
    status: Literal["resolved", "cancelled"]
    payload: Any = Field(default=None, repr=False)


class RunAgentInput(OpenBody):
    """What a run is asked: `threadId` is the conversation; with `resume` the run goes on from a pause."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "threadId": "weather-in-bern",
                    "runId": "run-1",
                    "messages": [{"id": "1", "role": "user", "content": "What is the weather in Bern?"}],
                    "tools": [],
                    "context": [],
                    "state": {},
                    "forwardedProps": {},
                }
            ]
        }
    )

    thread_id: Id
    run_id: Id
    messages: Annotated[list[InputMessage], Field(max_length=_MOST_MESSAGES)]
    context: list[ContextEntry] = Field(default_factory=list, max_length=_MOST_ENTRIES)
    forwarded_props: dict[str, Any] = Field(default_factory=dict, repr=False)
    resume: list[ResumeEntry] = Field(default_factory=list, max_length=_MOST_ENTRIES)

    def sent(self) -> list[dict[str, Any]]:
        """The messages as they were sent."""
        return [message.model_dump(by_alias=True, exclude_unset=True) for message in self.messages]


class Told(NamedTuple):
    text: str
    """What the user says."""
    attachments: Sequence[str]
    instructions: str


def told_by(body: RunAgentInput) -> Told | None:
    """What a run asks; None if it asks nothing. Raises BadFrame, which names the field."""
    numbered = list(enumerate(body.messages))
    after = takewhile(lambda each: each[1].role != "assistant", reversed(numbered))
    asked = [(number, message) for number, message in reversed(list(after)) if message.role == "user"]
    if not asked:
        return None
    texts, attachments = [], []
    for number, message in asked:
        for place, piece in enumerate(_content(number, message)):
            if piece.type == "text":
                texts.append(piece.text or "")
            elif piece.source is not None and piece.source.type == "file":
                attachments.append(piece.source.value)
            else:
                raise BadFrame(
                    f"messages.{number}.content.{place}: expected a text, or a source of the type file with an "
                    "attachment's id"
                )
    text = "\n\n".join(filter(None, texts))
    if not text:
        raise BadFrame("messages: the user's message is empty")
    program = [_words(number, each) for number, each in numbered if each.role in ("system", "developer")]
    surroundings = [f"{each.description}: {each.value}" for each in body.context]
    return Told(text, attachments, "\n\n".join(filter(None, [*program, *surroundings])))


def _content(number: int, message: InputMessage) -> list[Piece]:
    """Raises BadFrame."""
    try:
        return AskedMessage.model_validate({"content": message.content}).content
    except ValidationError as error:
        raise BadFrame(f"messages.{number}.{first_problem(error, 'content')}") from None


def _words(number: int, message: InputMessage) -> str:
    if not isinstance(message.content, str):
        raise BadFrame(f"messages.{number}.content: expected a text")
    return message.content
