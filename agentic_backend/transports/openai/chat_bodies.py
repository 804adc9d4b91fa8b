"""The body of a chat completion, and what answers it."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, ConfigDict, Field
from pydantic.config import JsonDict

from agentic_backend.errors import BadFrame
from agentic_backend.protocol.frames import Id
from agentic_backend.protocol.messages import TokenUsage
from agentic_backend.protocol.parts import Value, absent
from agentic_backend.transports.openai.answering import Ended, Finish
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


class ImageUrl(OpenBody):
    """An image as a `data:` URL."""

    url: str = Field(repr=False)


class FileData(OpenBody):
    """A file in base64, perhaps as a `data:` URL."""

    file_data: str | None = Field(default=None, repr=False)
    filename: str | None = Field(default=None, max_length=255)


class ChatContent(OpenBody):
    """A piece of a message: `text`, `image_url` or `file`."""

    type: str
    text: str | None = Field(default=None, repr=False)
    image_url: ImageUrl | None = None
    file: FileData | None = None


Pieces = Annotated[list[ChatContent], BeforeValidator(pieces, json_schema_input_type=str | AtLeastOne[ChatContent])]


class ChatMessageParam(OpenBody):
    """A message of the conversation. Of an assistant's calls only those count that this server has made."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: Pieces = Field(default_factory=list, repr=False)
    tool_call_id: str | None = None

    def said(self, place: str) -> Said:
        """Raises BadFrame, which names `place`."""
        texts, files = [], []
        for number, piece in enumerate(self.content):
            match piece.type:
                case "text":
                    texts.append(piece.text or "")
                case "image_url" if piece.image_url is not None:
                    files.append(image_file(piece.image_url.url, f"{place}.content.{number}.image_url"))
                case "file" if piece.file is not None and piece.file.file_data is not None:
                    files.append(EncodedFile(piece.file.file_data, piece.file.filename))
                case "refusal":
                    pass
                case _:
                    raise BadFrame(f"{place}.content.{number}: expected a text, an image_url or a file with its data")
        return said_of(self.role, "\n".join(filter(None, texts)), files, self.tool_call_id)


class ResponseFormat(OpenBody):
    """The form of the answer: `text`, `json_object` or `json_schema`."""

    type: FormatType
    json_schema: JsonSchemaFormat | None = None

    @property
    def output(self) -> OutputFormat | None:
        if self.type == "text":
            return None
        return OutputFormat(self.json_schema.json_schema if self.json_schema is not None else None)


class StreamOptions(OpenBody):
    """`include_usage`: whether a last chunk has the usage."""

    include_usage: bool = False


class CreateChatCompletion(OpenBody):
    """A question with the conversation before it; `model` names the agent.

    With a `metadata.conversation_id`, or the header of that name, the server keeps the conversation: only what was said
    after the agent's last message is asked.
    """

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "model": "assistant",
                    "messages": [{"role": "user", "content": "What is the weather in Bern?"}],
                    "metadata": {"conversation_id": "weather-in-bern"},
                }
            ]
        }
    )

    model: Id
    messages: Annotated[list[ChatMessageParam], Field(min_length=1, max_length=MOST_MESSAGES)]
    stream: bool = False
    stream_options: StreamOptions | None = None
    n: Literal[1] = 1
    response_format: ResponseFormat | None = None
    tools: list[Any] = Field(default_factory=list, repr=False)
    tool_choice: ToolChoice | None = None
    metadata: dict[str, str] = Field(default_factory=dict)

    def said(self) -> Sequence[Said]:
        """Raises BadFrame, also for what can't be done."""
        refuse_forced(self.tool_choice)
        return [message.said(f"messages.{number}") for number, message in enumerate(self.messages)]


_ANSWER: JsonDict = {"id": "chatcmpl-9d27aa", "created": 1_795_944_600, "model": "assistant"}
_SAID = "It is sunny in Bern, at 18 °C."
_COMPLETION: JsonDict = {
    **_ANSWER,
    "object": "chat.completion",
    "choices": [
        {
            "index": 0,
            "message": {"role": "assistant", "content": _SAID, "refusal": None, "annotations": []},
            "logprobs": None,
            "finish_reason": "stop",
        }
    ],
    "usage": {
        "prompt_tokens": 252,
        "completion_tokens": 12,
        "total_tokens": 264,
        "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": 0,
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    },
}
_CHUNK: JsonDict = {
    **_ANSWER,
    "object": "chat.completion.chunk",
    "choices": [{"index": 0, "delta": {"content": _SAID}, "logprobs": None, "finish_reason": None}],
    "usage": None,
}


class PromptTokens(Value):
    cached_tokens: int = 0
    audio_tokens: int = 0


class CompletionTokens(Value):
    reasoning_tokens: int = 0
    audio_tokens: int = 0
    accepted_prediction_tokens: int = 0
    rejected_prediction_tokens: int = 0


class ChatUsage(Value):
    """The tokens of all model calls."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptTokens = PromptTokens()
    completion_tokens_details: CompletionTokens = CompletionTokens()

    @classmethod
    def of(cls, usage: TokenUsage) -> Self:
        read, written = usage.input_tokens or 0, usage.output_tokens or 0
        return cls(prompt_tokens=read, completion_tokens=written, total_tokens=usage.total_tokens or read + written)


class CalledFunction(Value):
    """`arguments` is JSON."""

    name: str = Field(examples=["request_approval"])
    arguments: str


class ChatToolCall(Value):
    """What a person is asked: `request_approval` or `ask_person`. An agent's own calls of tools are none of these."""

    index: int | None = absent()
    """Only in a stream."""
    id: str
    type: Literal["function"] = "function"
    function: CalledFunction

    @classmethod
    def of(cls, call: PersonCall, index: int | None = None) -> Self:
        return cls(index=index, id=call.id, function=CalledFunction(name=call.name, arguments=call.arguments))


class CompletedMessage(Value):
    """The agent's answer."""

    role: Literal["assistant"] = "assistant"
    content: str | None
    refusal: None = None
    annotations: list[str] = Field(default_factory=list)
    reasoning_content: str | None = absent()
    """What the model thought, where it tells that."""
    tool_calls: list[ChatToolCall] | None = absent()


class ChatChoice(Value):
    index: int = 0
    message: CompletedMessage
    logprobs: None = None
    finish_reason: Finish


class ChatCompletion(Value):
    """An answer; its `id` has that of the exchange."""

    model_config = ConfigDict(json_schema_extra={"examples": [_COMPLETION]})

    id: str
    object: Literal["chat.completion"] = "chat.completion"
    created: int
    """In seconds since 1970."""
    model: str
    choices: list[ChatChoice]
    usage: ChatUsage

    @classmethod
    def of(cls, completion_id: str, created: int, model: str, ended: Ended, thought: str) -> Self:
        message = CompletedMessage(
            content=ended.text,
            reasoning_content=thought or None,
            tool_calls=[ChatToolCall.of(call) for call in ended.calls] or None,
        )
        choice = ChatChoice(message=message, finish_reason=ended.finish)
        usage = ChatUsage.of(ended.usage)
        return cls(id=completion_id, created=created, model=model, choices=[choice], usage=usage)


class ChatDelta(Value):
    """What is new of the answer."""

    role: Literal["assistant"] | None = absent()
    content: str | None = absent()
    reasoning_content: str | None = absent()
    tool_calls: list[ChatToolCall] | None = absent()


class ChunkChoice(Value):
    index: int = 0
    delta: ChatDelta
    logprobs: None = None
    finish_reason: Finish | None = None


class ChatCompletionChunk(Value):
    """A piece of an answer. The last one with `include_usage` has no choices."""

    model_config = ConfigDict(json_schema_extra={"examples": [_CHUNK]})

    id: str
    object: Literal["chat.completion.chunk"] = "chat.completion.chunk"
    created: int
    model: str
    choices: list[ChunkChoice]
    usage: ChatUsage | None = None
