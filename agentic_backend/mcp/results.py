"""Converts an MCP tool's result into blocks that a model can read, and parts for the chat. Pure functions.

langchain-mcp-adapters turns a result into content blocks: it raises on audio, providers refuse its blocks for links and
files (https://github.com/langchain-ai/langchain-mcp-adapters/issues/591), and models without vision refuse images
(https://github.com/langchain-ai/langchain-mcp-adapters/issues/41). So it gets only texts, and images for models that
see them. Both are bounded, since a message is one document of the store and a model's context is small. A text replaces
whatever is left out.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from mcp.types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)

from agentic_backend.protocol.parts import CodePart, ImageUrlPart, LinkPart, Part

MAX_TEXT = 200_000
"""Characters of text in a whole result."""

MAX_IMAGE_BYTES = 1_000_000
"""Bytes of one image."""

MAX_IMAGES_BYTES = 2_000_000
"""Bytes of all images of a result."""

_LONGEST_MIME = 100
_IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_WEB = ("http://", "https://")


@dataclass(slots=True)
class Readable:
    blocks: list[ContentBlock] = field(default_factory=list)
    """Texts and images for the model."""
    parts: list[Part] = field(default_factory=list)
    """Parts that the chat shows beside the text."""


class _Budget:
    def __init__(self) -> None:
        self.text = MAX_TEXT
        """Remaining characters of text."""
        self.image_bytes = MAX_IMAGES_BYTES
        """Remaining bytes of images."""

    def has_room_for_text(self, text: str) -> bool:
        return len(text) <= self.text

    def cut(self, text: str) -> str:
        kept = text[: self.text]
        self.text -= len(kept)
        left_out = len(text) - len(kept)
        return f"{kept}\n[cut: {left_out} more characters left out]" if left_out else kept

    def has_room_for_image(self, size: int) -> bool:
        if size > min(MAX_IMAGE_BYTES, self.image_bytes):
            return False
        self.image_bytes -= size
        return True


def readable(result: CallToolResult, *, model_sees_images: bool) -> Readable:
    """The blocks and parts of `result`, in the same order; at least one block."""
    budget, made = _Budget(), Readable()
    for block in result.content:
        _add(block, made, budget, model_sees_images)
    if result.structuredContent is not None and not _is_told(result.structuredContent, result.content):
        code = json.dumps(result.structuredContent, ensure_ascii=False, indent=2)
        made.parts.append(CodePart(language="json", code=budget.cut(code)))
        if not made.blocks:
            made.blocks.append(_text(code[:MAX_TEXT]))
    made.blocks = made.blocks or [_text("The tool failed." if result.isError else "The tool gave no content.")]
    return made


def _add(block: ContentBlock, made: Readable, budget: _Budget, model_sees_images: bool) -> None:
    match block:
        case TextContent(text=text):
            _add_text(made, budget, text)
        case ImageContent(data=data, mimeType=mime):
            _add_image(data, mime, made, budget, model_sees_images)
        case AudioContent(data=data, mimeType=mime):
            _add_text(made, budget, f"[{mime[:_LONGEST_MIME]} of {_size(data)} bytes, which can't be shown]")
        case ResourceLink():
            _add_link(block, made, budget)
        case EmbeddedResource(resource=TextResourceContents(text=text)):
            _add_text(made, budget, text)
        case EmbeddedResource(resource=BlobResourceContents() as resource):
            _add_blob(resource, made, budget, model_sees_images)


def _add_text(made: Readable, budget: _Budget, text: str) -> None:
    """Add a text for the model. A note counts too, since the server chooses its MIME type or URI."""
    made.blocks.append(_text(budget.cut(text)))


def _add_image(data: str, mime: str, made: Readable, budget: _Budget, model_sees_images: bool) -> None:
    size = _size(data)
    what = f"{mime[:_LONGEST_MIME]} of {size} bytes"
    if mime not in _IMAGES:
        _add_text(made, budget, f"[{what}, which can't be shown]")
    elif not budget.has_room_for_image(size):
        _add_text(made, budget, f"[{what}, left out because it is too large]")
    else:
        if model_sees_images:
            made.blocks.append(ImageContent(type="image", data=data, mimeType=mime))
        else:
            _add_text(made, budget, f"[{what}, shown to the user]")
        made.parts.append(ImageUrlPart(url=f"data:{mime};base64,{data}"))


def _add_blob(resource: BlobResourceContents, made: Readable, budget: _Budget, model_sees_images: bool) -> None:
    mime = resource.mimeType or "application/octet-stream"
    if mime in _IMAGES:
        _add_image(resource.blob, mime, made, budget, model_sees_images)
    else:
        _add_text(made, budget, f"[{mime[:_LONGEST_MIME]} of {_size(resource.blob)} bytes: {resource.uri}]")


def _add_link(link: ResourceLink, made: Readable, budget: _Budget) -> None:
    """Add a link, clickable if a browser can follow it; the model reads its URI in any case.

    If its title and URI are too long, there is no link for people: half a URI leads elsewhere.
    """
    title, uri = link.title or link.name, str(link.uri)
    text = f"{title}: {uri}"
    if budget.has_room_for_text(text):
        href = uri if uri.startswith(_WEB) else None
        mime = link.mimeType and link.mimeType[:_LONGEST_MIME]
        made.parts.append(LinkPart(href=href, title=title, kind="related", mime=mime))
    _add_text(made, budget, text)


def _is_told(structured: dict[str, Any], content: Iterable[ContentBlock]) -> bool:
    """Whether the texts repeat `structured`: the protocol recommends both forms, and many servers wrap non-objects."""
    texts = [block.text for block in content if isinstance(block, TextContent)]
    if sum(map(len, texts)) > MAX_TEXT:
        return False
    values = [_json(text) for text in texts]
    wrapped = structured.get("result")
    return structured in values or wrapped in (*texts, *values, texts, values)


def _json(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _size(base64: str) -> int:
    return len(base64) * 3 // 4 - base64[-2:].count("=")


def _text(text: str) -> TextContent:
    return TextContent(type="text", text=text)
