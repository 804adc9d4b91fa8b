"""Parts: the typed content of a message, discriminated by `type`."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field


class Value(BaseModel):
    """An immutable protocol value; unknown fields are an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def _is_none(value: object) -> bool:
    return value is None


def absent() -> Any:
    """The default of a field that the contract marks with `?`: None here, left out on the wire.

    `exclude_none` doesn't work: it also drops the nulls inside a tool's arguments.
    """
    return Field(default=None, exclude_if=_is_none)


class TextPart(Value):
    type: Literal["text"] = "text"
    text: str


class CodePart(Value):
    type: Literal["code"] = "code"
    language: str | None = absent()
    code: str


class ImageUrlPart(Value):
    type: Literal["image_url"] = "image_url"
    url: str
    alt: str | None = absent()


class ToolCallPart(Value):
    type: Literal["tool_call"] = "tool_call"
    call_id: str
    name: str
    args: dict[str, Any]


class ToolResultPart(Value):
    """`ok` is false when the tool failed or was cancelled; `latency_ms` runs from the call to its result."""

    type: Literal["tool_result"] = "tool_result"
    call_id: str
    ok: bool | None = absent()
    latency_ms: int | None = absent()
    content: str


class LinkPart(Value):
    type: Literal["link"] = "link"
    href: str | None = absent()
    title: str | None = absent()
    kind: Literal["citation", "download", "external", "dashboard", "related", "view"]
    rel: str | None = absent()
    mime: str | None = absent()
    source_id: str | None = absent()
    document_uid: str | None = absent()
    file_name: str | None = absent()


class GeoPart(Value):
    type: Literal["geo"] = "geo"
    geojson: dict[str, Any]
    popup_property: str | None = absent()
    fit_bounds: bool
    style: dict[str, Any] | None = absent()


class FilePart(Value):
    """An attachment; `size` is in bytes."""

    type: Literal["file"] = "file"
    attachment_id: str
    name: str
    mime: str
    size: int


Part = Annotated[
    TextPart | CodePart | ImageUrlPart | ToolCallPart | ToolResultPart | LinkPart | GeoPart | FilePart,
    Field(discriminator="type"),
]


def text_of(parts: list[Part]) -> str:
    """The readable text of `parts`: texts, code and tool results, joined by line feeds."""
    texts: list[str] = []
    for part in parts:
        match part:
            case TextPart(text=text):
                texts.append(text)
            case CodePart(code=code):
                texts.append(code)
            case ToolResultPart(content=content):
                texts.append(content)
    return "\n".join(texts)
