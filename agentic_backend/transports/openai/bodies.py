"""The base of bodies in OpenAI's forms, and what both forms share."""

from typing import Annotated, Any, Literal, TypeVar

from pydantic import ConfigDict, Field, field_validator

from agentic_backend.errors import BadFrame
from agentic_backend.exact_json import depth_of
from agentic_backend.protocol.frames import Frame
from agentic_backend.transports.openai.told import EncodedFile


class OpenBody(Frame):
    """Parameters that this server does not know are left alone: clients send many that only tune a provider's model."""

    model_config = ConfigDict(extra="ignore")


_DEEPEST = 100

FormatType = Literal["text", "json_object", "json_schema"]


class JsonSchemaFormat(OpenBody):
    """A JSON Schema that the answer follows."""

    name: str = Field(default="answer", max_length=64)
    description: str | None = None
    json_schema: dict[str, Any] | None = Field(default=None, alias="schema", repr=False)

    @field_validator("json_schema")
    @classmethod
    def _not_too_deep(cls, schema: dict[str, Any] | None) -> dict[str, Any] | None:
        # It is written again: to the model, and into a response.
        if depth_of(schema) > _DEEPEST:
            raise ValueError(f"nested more than {_DEEPEST} levels deep")
        return schema


class FunctionChoice(OpenBody):
    """Names a function that must be called."""

    type: str


ToolChoice = str | FunctionChoice


Item = TypeVar("Item")
AtLeastOne = Annotated[list[Item], Field(min_length=1)]


def pieces(value: Any) -> Any:
    """A text as its only piece. Raises ValueError for what is neither a text nor a list of pieces."""
    if isinstance(value, str):
        return [{"type": "text", "text": value}]
    if isinstance(value, list) and value:
        return value
    raise ValueError("expected a text, or a list of pieces")


def refuse_forced(choice: ToolChoice | None) -> None:
    """Raises BadFrame where a tool of the client's must be called; others may be left uncalled, as a model may do."""
    if choice not in (None, "none", "auto"):
        raise BadFrame("tool_choice: the agents of this server have tools of their own, and call none of a client")


def image_file(url: str, place: str) -> EncodedFile:
    """The image in a `data:` URL. Raises BadFrame, which names `place`."""
    if not url.startswith("data:"):
        raise BadFrame(f"{place}: expected a data: URL; this server fetches nothing")
    return EncodedFile(url)
