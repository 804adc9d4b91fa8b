"""Media: the images, files, sound and video of a message as parts, or as texts that name them. Pure functions.

A message is one document of the store, so its images are bounded; a text replaces whatever is left out.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from agentic_backend.protocol.parts import ImageUrlPart, LinkPart, Part

MAX_IMAGE_BYTES = 1_000_000
"""Bytes of one image."""

MAX_IMAGES_BYTES = 2_000_000
"""Bytes of all images of a message."""

MOST_MEDIA = 64
"""The most images, files and the like of a message."""

_LONGEST_NAME, _LONGEST_URL = 300, 8_192
_IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_WEB = ("http://", "https://")
# What people call each kind of block, and the MIME type that it has unless it says another.
_KINDS = {
    "image": ("image", "image/png"),
    "audio": ("sound", "audio"),
    "video": ("video", "video"),
    "file": ("file", "application/octet-stream"),
}


class Media(NamedTuple):
    parts: list[Part]
    # Texts that stand for what can't be shown.
    notes: list[str]


def is_media(block: Mapping[str, Any]) -> bool:
    """Whether a standard content block is an image, a file, sound, video or a text file."""
    return block.get("type") in (*_KINDS, "text-plain")


def media_of(blocks: Iterable[Mapping[str, Any]]) -> Media:
    """What the standard content `blocks` show beside text."""
    media, room = Media([], []), MAX_IMAGES_BYTES
    shown = [block for block in blocks if is_media(block)]
    for block in shown[:MOST_MEDIA]:
        part = _part(block, room)
        if isinstance(part, ImageUrlPart):
            room -= data_bytes(part.url)
        if isinstance(part, str):
            media.notes.append(part)
        elif part is not None:
            media.parts.append(part)
    if len(shown) > MOST_MEDIA:
        media.notes.append(f"[cut: {len(shown) - MOST_MEDIA} more files left out]")
    return media


def data_bytes(url: str) -> int:
    """The size of the data in a `data:` URL; 0 for another URL."""
    head, _, data = url.partition(",")
    return _bytes(data) if head.startswith("data:") else 0


def _part(block: Mapping[str, Any], room: int) -> Part | str | None:
    """A part, or the text that stands for it; None if the block holds nothing."""
    kind = str(block["type"])
    if kind == "text-plain":
        return _text(block.get("text")) or None
    url, data, file_id = (_text(block.get(field)) for field in ("url", "base64", "file_id"))
    mime = _text(block.get("mime_type"))[:_LONGEST_NAME]
    if url.startswith("data:"):
        head, _, data = url.partition(",")
        mime, url = head.removeprefix("data:").removesuffix(";base64")[:_LONGEST_NAME], ""
    name = _name_of(block)
    if data:
        return _embedded(kind, mime or _KINDS[kind][1], data, name, room)
    if _leads_somewhere(url):
        if kind == "image":
            return ImageUrlPart(url=url, alt=name or None)
        link_kind = "download" if kind == "file" else "view"
        return LinkPart(href=url, title=name or None, kind=link_kind, mime=mime or None, file_name=name or None)
    if url or file_id:
        called = name or file_id[:_LONGEST_NAME]
        what = f"{mime} {_KINDS[kind][0]}".strip()
        return f"[{what}{f': {called}' if called else ''}, which can't be shown]"
    return None


def _leads_somewhere(url: str) -> bool:
    """Whether a page can follow `url`: a web address, or a path of this server, such as an attachment's."""
    return len(url) <= _LONGEST_URL and (url.startswith(_WEB) or (url.startswith("/") and not url.startswith("//")))


def _embedded(kind: str, mime: str, data: str, name: str, room: int) -> Part | str:
    size = _bytes(data)
    what = f"{mime} of {size} bytes{f': {name}' if name else ''}"
    if kind != "image" or mime not in _IMAGES:
        return f"[{what}, which can't be shown]"
    if size > min(MAX_IMAGE_BYTES, room):
        return f"[{what}, left out because it is too large]"
    return ImageUrlPart(url=f"data:{mime};base64,{data}", alt=name or None)


def _name_of(block: Mapping[str, Any]) -> str:
    extras = block.get("extras")
    within = extras if isinstance(extras, Mapping) else {}
    for name in (block.get("filename"), within.get("filename"), within.get("file_filename"), block.get("title")):
        if isinstance(name, str) and name:
            return name[:_LONGEST_NAME]
    return ""


def _bytes(base64: str) -> int:
    return len(base64) * 3 // 4 - base64[-2:].count("=")


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
