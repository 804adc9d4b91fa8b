"""Parts: the typed content of a message, discriminated by `type`."""

from typing import Annotated, Any, Literal, assert_never

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
    """A text."""

    type: Literal["text"] = "text"
    text: str
    """Markdown in a model's messages, plain text in a person's."""


class CodePart(Value):
    """A piece of code, to be shown as it is."""

    type: Literal["code"] = "code"
    language: str | None = absent()
    """The programming language, for highlighting."""
    code: str
    """The source text."""


class ImageUrlPart(Value):
    """An image."""

    type: Literal["image_url"] = "image_url"
    url: str
    """An `https:` or a `data:` URL, or the path of an attachment."""
    alt: str | None = absent()
    """What the image shows, in words."""


class ToolCallPart(Value):
    """A model's call of a tool."""

    type: Literal["tool_call"] = "tool_call"
    call_id: str
    """Unique in its exchange; the result has the same."""
    name: str
    """The tool's name."""
    title: str | None = absent()
    """What the tool is called for people, in one line, where it declares that."""
    args: dict[str, Any]
    """The tool's arguments, as the model gave them."""


class ToolResultPart(Value):
    """The result of a tool call."""

    type: Literal["tool_result"] = "tool_result"
    call_id: str
    """That of the call."""
    ok: bool | None = absent()
    """Whether the tool succeeded; false where it failed or was cancelled."""
    latency_ms: int | None = absent()
    """The time from the call to its result, in milliseconds."""
    content: str
    """The result as text, or the error."""


class LinkPart(Value):
    """A link, or a source without an address."""

    type: Literal["link"] = "link"
    href: str | None = absent()
    """The address."""
    title: str | None = absent()
    """The words to show."""
    kind: Literal["citation", "download", "external", "dashboard", "related", "view"]
    """What the link is for."""
    rel: str | None = absent()
    """The relation, as in HTML."""
    mime: str | None = absent()
    """The media type of what it leads to."""
    source_id: str | None = absent()
    """The id of the source in the agent's index."""
    document_uid: str | None = absent()
    """The id of the document."""
    file_name: str | None = absent()
    """The document's file name."""
    panel: str | None = absent()
    """The panel that shows what it leads to: the application's id and the panel's name, as in `notes/board`."""
    panel_data: dict[str, Any] | None = absent()
    """What that panel is told, to show just this."""


class GeoPart(Value):
    """Features for a map."""

    type: Literal["geo"] = "geo"
    geojson: dict[str, Any]
    """GeoJSON (RFC 7946)."""
    popup_property: str | None = absent()
    """The property of a feature to show beside it."""
    fit_bounds: bool
    """Whether the map shows just these features."""
    style: dict[str, Any] | None = absent()
    """How to draw the features; the agent and its page agree on the keys."""


class FilePart(Value):
    """An attachment."""

    type: Literal["file"] = "file"
    attachment_id: str
    """Names the attachment."""
    name: str
    """The file's name."""
    mime: str
    """The media type."""
    size: int
    """In bytes."""


class CustomPart(Value):
    """Something in a form of an application's own."""

    type: Literal["custom"] = "custom"
    kind: str
    """The application's id and the name of the form, as in `team-notes:note`."""
    data: dict[str, Any]
    """What is shown, by the schema that `/apps/{id}/openapi.json` has for this form."""
    text: str
    """The same in words, in Markdown, for who does not know the form."""


Part = Annotated[
    TextPart | CodePart | ImageUrlPart | ToolCallPart | ToolResultPart | LinkPart | GeoPart | FilePart | CustomPart,
    Field(discriminator="type"),
]


_ATTACHMENTS = "/agentic/v1/attachments/"


def attachment_url(attachment_id: str) -> str:
    """The URL of an attachment's content, on the server that has it."""
    return f"{_ATTACHMENTS}{attachment_id}"


def attachment_of(url: str) -> str | None:
    """The id of the attachment with this URL; None if it is another URL."""
    return url.removeprefix(_ATTACHMENTS) if url.startswith(_ATTACHMENTS) else None


def text_of(parts: list[Part]) -> str:
    """The readable text of `parts`: texts, code, tool results and the words of custom parts, joined by line feeds."""
    texts: list[str] = []
    for part in parts:
        match part:
            case TextPart(text=text):
                texts.append(text)
            case CodePart(code=code):
                texts.append(code)
            case ToolResultPart(content=content):
                texts.append(content)
            case CustomPart(text=text):
                texts.append(text)
            case ImageUrlPart() | ToolCallPart() | LinkPart() | GeoPart() | FilePart():
                pass
            case _:
                assert_never(part)
    return "\n".join(texts)
