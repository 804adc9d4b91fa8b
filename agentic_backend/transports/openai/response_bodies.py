"""The body of a response, in the form of OpenAI's Responses API, and what answers it."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, ConfigDict, Field, model_validator
from pydantic.config import JsonDict

from agentic_backend.errors import BadFrame
from agentic_backend.protocol.frames import Id
from agentic_backend.protocol.messages import TokenUsage
from agentic_backend.protocol.parts import Value, absent
from agentic_backend.transports.openai.bodies import (
    AtLeastOne,
    FormatType,
    JsonSchemaFormat,
    OpenBody,
    ToolChoice,
    image_file,
    pieces,
    refuse_forced,
)
from agentic_backend.transports.openai.output_format import OutputFormat
from agentic_backend.transports.openai.people import PersonCall
from agentic_backend.transports.openai.told import MOST_MESSAGES, EncodedFile, Said, said_of


class InputContent(OpenBody):
    """A piece of a message: `input_text`, `input_image` or `input_file`."""

    type: str
    text: str | None = Field(default=None, repr=False)
    image_url: str | None = Field(default=None, repr=False)
    file_data: str | None = Field(default=None, repr=False)
    filename: str | None = Field(default=None, max_length=255)


Pieces = Annotated[list[InputContent], BeforeValidator(pieces, json_schema_input_type=str | AtLeastOne[InputContent])]


_ANSWER = "function_call_output"


class InputItem(OpenBody):
    """A message, or with `function_call_output` a person's answer; items of other types say nothing here."""

    type: str = "message"
    role: Literal["system", "developer", "user", "assistant"] = "user"
    content: Pieces = Field(default_factory=list, repr=False)
    call_id: str | None = None
    output: Pieces = Field(default_factory=list, repr=False)

    @model_validator(mode="before")
    @classmethod
    def _passed_over(cls, raw: Any) -> Any:
        """Of an item that says nothing here only its type: its other fields have forms of their own."""
        kind = raw.get("type") if isinstance(raw, dict) else None
        return raw if kind in (None, "message", _ANSWER) else {"type": kind}

    def said(self, place: str) -> Said | None:
        """Raises BadFrame, which names `place`."""
        if self.type == _ANSWER:
            text, _ = _content(self.output, f"{place}.output")
            return said_of("tool", text, call_id=self.call_id)
        if self.type != "message":
            return None
        text, files = _content(self.content, f"{place}.content")
        return said_of(self.role, text, files)


def _content(content: Sequence[InputContent], place: str) -> tuple[str, list[EncodedFile]]:
    texts: list[str] = []
    files: list[EncodedFile] = []
    for number, piece in enumerate(content):
        match piece.type:
            case "input_text" | "output_text" | "text":
                texts.append(piece.text or "")
            case "input_image" if piece.image_url is not None:
                files.append(image_file(piece.image_url, f"{place}.{number}.image_url"))
            case "input_file" if piece.file_data is not None:
                files.append(EncodedFile(piece.file_data, piece.filename))
            case "refusal":
                pass
            case _:
                raise BadFrame(
                    f"{place}.{number}: expected an input_text, an input_image or an input_file with its data"
                )
    return "\n".join(filter(None, texts)), files


def _items(value: Any) -> Any:
    """A text as the only message. Raises ValueError for what is neither a text nor a list of items."""
    return [{"content": value}] if isinstance(value, str) else pieces(value)


class TextFormat(JsonSchemaFormat):
    """The form of the answer: `text`, `json_object` or `json_schema`."""

    type: FormatType = "text"


class TextOptions(OpenBody):
    format: TextFormat = TextFormat()

    @property
    def output(self) -> OutputFormat | None:
        return None if self.format.type == "text" else OutputFormat(self.format.json_schema)


class ConversationParam(OpenBody):
    """The conversation that the server keeps."""

    id: Id


class CreateResponse(OpenBody):
    """A question; `model` names the agent.

    It goes on from the response `previous_response_id`, or in a `conversation`, whose name the client chooses. Without
    these its answer is kept as a new conversation, unless `store` is false or it brings earlier messages along.
    """

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"model": "assistant", "input": "What is the weather in Bern?"}]}
    )

    model: Id
    input: Annotated[
        list[InputItem],
        Field(max_length=MOST_MESSAGES, repr=False),
        BeforeValidator(_items, json_schema_input_type=str | AtLeastOne[InputItem]),
    ]
    instructions: str | None = Field(default=None, repr=False)
    previous_response_id: Id | None = None
    conversation: Id | ConversationParam | None = None
    store: bool = True
    stream: bool = False
    background: Literal[False] = False
    metadata: dict[str, str] = Field(default_factory=dict)
    text: TextOptions = TextOptions()
    tools: list[Any] = Field(default_factory=list, repr=False)
    tool_choice: ToolChoice | None = None

    @property
    def conversation_name(self) -> str | None:
        return self.conversation.id if isinstance(self.conversation, ConversationParam) else self.conversation

    def said(self) -> Sequence[Said]:
        """Raises BadFrame, also for what can't be done."""
        if self.previous_response_id is not None and self.conversation is not None:
            raise BadFrame("conversation: a response goes on from another one, or in a conversation")
        refuse_forced(self.tool_choice)
        instructions = [Said("instructions", self.instructions)] if self.instructions else []
        said = (item.said(f"input.{number}") for number, item in enumerate(self.input))
        return [*instructions, *(each for each in said if each is not None)]


class CachedTokens(Value):
    cached_tokens: int = 0


class ReasoningTokens(Value):
    reasoning_tokens: int = 0


class ResponseUsage(Value):
    """The tokens of all model calls."""

    input_tokens: int
    input_tokens_details: CachedTokens = CachedTokens()
    output_tokens: int
    output_tokens_details: ReasoningTokens = ReasoningTokens()
    total_tokens: int

    @classmethod
    def of(cls, usage: TokenUsage) -> Self:
        read, written = usage.input_tokens or 0, usage.output_tokens or 0
        return cls(input_tokens=read, output_tokens=written, total_tokens=usage.total_tokens or read + written)


ItemStatus = Literal["in_progress", "completed", "incomplete"]


class OutputText(Value):
    """A text of a message, or of a thought."""

    type: Literal["output_text", "summary_text"]
    text: str
    annotations: list[str] | None = absent()
    logprobs: list[str] | None = absent()

    @classmethod
    def said(cls, text: str) -> Self:
        return cls(type="output_text", text=text, annotations=[], logprobs=[])


class OutputItem(Value):
    """A `message`, a `reasoning`, or a `function_call` with what a person is asked."""

    type: Literal["message", "reasoning", "function_call"]
    id: str
    status: ItemStatus | None = absent()
    role: Literal["assistant"] | None = absent()
    content: list[OutputText] | None = absent()
    summary: list[OutputText] | None = absent()
    call_id: str | None = absent()
    name: str | None = absent()
    arguments: str | None = absent()
    """JSON."""

    @classmethod
    def message(cls, item_id: str, text: str | None, status: ItemStatus) -> Self:
        content = [] if text is None else [OutputText.said(text)]
        return cls(type="message", id=item_id, status=status, role="assistant", content=content)

    @classmethod
    def reasoning(cls, item_id: str, text: str | None) -> Self:
        return cls(
            type="reasoning",
            id=item_id,
            summary=[] if text is None else [OutputText(type="summary_text", text=text)],
        )

    @classmethod
    def call(cls, item_id: str, call: PersonCall, *, arguments: str, status: ItemStatus) -> Self:
        return cls(
            type="function_call", id=item_id, status=status, call_id=call.id, name=call.name, arguments=arguments
        )


class ResponseFailure(Value):
    """Why it failed; `code` is this server's."""

    code: str
    message: str


class IncompleteDetails(Value):
    """Why the answer is not whole."""

    reason: Literal["max_output_tokens", "content_filter", "stopped"]


class GivenFormat(Value):
    """The form that was asked for."""

    type: str
    name: str | None = absent()
    schema_: dict[str, Any] | None = Field(default=None, alias="schema", exclude_if=lambda value: value is None)
    strict: bool | None = absent()


class GivenText(Value):
    format: GivenFormat

    @classmethod
    def of(cls, asked: TextOptions) -> Self:
        given = asked.format
        if given.type != "json_schema":
            return cls(format=GivenFormat(type=given.type))
        return cls(format=GivenFormat(type=given.type, name=given.name, schema=given.json_schema or {}, strict=True))


PLAIN_TEXT = GivenText(format=GivenFormat(type="text"))

ResponseStatus = Literal["in_progress", "completed", "incomplete", "failed"]


class OpenAIResponse(Value):
    """An answer; its `id` has that of the exchange.

    What a client can't choose here has the value that OpenAI's API has by default.
    """

    model_config = ConfigDict(json_schema_extra=lambda schema: schema.update(examples=[_EXAMPLE]))

    id: str
    object: Literal["response"] = "response"
    created_at: int
    """In seconds since 1970."""
    completed_at: int | None = None
    status: ResponseStatus
    error: ResponseFailure | None = None
    incomplete_details: IncompleteDetails | None = None
    instructions: str | None = None
    model: str
    output: list[OutputItem] = Field(default_factory=list)
    previous_response_id: str | None = None
    conversation: dict[str, str] | None = None
    store: bool
    """Whether it can be fetched and gone on from."""
    text: GivenText = PLAIN_TEXT
    metadata: dict[str, str] = Field(default_factory=dict)
    usage: ResponseUsage | None = None
    background: bool = False
    tools: list[str] = Field(default_factory=list)
    tool_choice: Literal["auto"] = "auto"
    parallel_tool_calls: bool = True
    truncation: Literal["auto"] = "auto"
    temperature: float = 1.0
    top_p: float = 1.0
    top_logprobs: int = 0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    reasoning: None = None
    max_output_tokens: None = None
    max_tool_calls: None = None
    service_tier: Literal["default"] = "default"
    safety_identifier: None = None
    prompt_cache_key: None = None


class ResponseEvent(Value):
    """An event of a response; its `type` tells which other fields it has."""

    model_config = ConfigDict(json_schema_extra=lambda schema: schema.update(examples=[_EVENT]))

    type: str
    sequence_number: int
    response: OpenAIResponse | None = absent()
    output_index: int | None = absent()
    content_index: int | None = absent()
    summary_index: int | None = absent()
    item_id: str | None = absent()
    item: OutputItem | None = absent()
    part: OutputText | None = absent()
    delta: str | None = absent()
    text: str | None = absent()
    logprobs: list[str] | None = absent()
    name: str | None = absent()
    arguments: str | None = absent()


_EXAMPLE: JsonDict = OpenAIResponse(
    id="resp_9d27aa",
    created_at=1_795_944_600,
    completed_at=1_795_944_602,
    status="completed",
    model="assistant",
    output=[OutputItem.message("msg_9d27aa_0", "It is sunny in Bern, at 18 °C.", "completed")],
    conversation={"id": "5b1f0c"},
    store=True,
    usage=ResponseUsage(input_tokens=252, output_tokens=12, total_tokens=264),
).model_dump(mode="json", by_alias=True)
_EVENT: JsonDict = ResponseEvent(
    type="response.output_text.delta",
    sequence_number=4,
    output_index=0,
    content_index=0,
    item_id="msg_9d27aa_0",
    delta="It is sunny",
    logprobs=[],
).model_dump(mode="json")
