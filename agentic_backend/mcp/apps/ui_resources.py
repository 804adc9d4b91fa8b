"""UI resources: the HTML documents in which the tools of a server show their results (MCP Apps, 2026-01-26). Pure.

A tool names one in its `_meta`. What a server says there is taken as far as it is understood: a tool whose visibility
can't be read is for nobody.
"""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from mcp.types import BlobResourceContents, CallToolResult, ReadResourceResult, Tool

from agentic_backend.exact_json import can_be_kept
from agentic_backend.mcp import APP_PART, UI_RESOURCE
from agentic_backend.mcp.apps.app_hosts import declared_hosts
from agentic_backend.protocol.parts import CodePart, CustomPart, Part
from agentic_backend.text.fenced_code import fenced

EXTENSION = "io.modelcontextprotocol/ui"
"""The client's capability: what it says there is in `CAPABILITY`."""
CAPABILITY: Mapping[str, Any] = {"mimeTypes": [UI_RESOURCE]}

LARGEST_HTML = 2 * 1024 * 1024
"""Bytes of a UI resource."""
_LARGEST_PART = 1024 * 1024
_LONGEST_TITLE = 100
_SCHEME = "ui://"
_LONGEST_URI = 1_000
_FOR_MODELS, _FOR_APPS = "model", "app"
_EVERYBODY = (_FOR_MODELS, _FOR_APPS)
_PERMISSIONS = ("camera", "microphone", "geolocation", "clipboardWrite")


@dataclass(frozen=True, slots=True)
class UiResource:
    html: str = field(repr=False)
    prefers_border: bool | None = None
    """Whether the server wants the page to draw a border around it; None if it doesn't say."""
    needs: Mapping[str, Any] = field(default_factory=dict)
    """What it declares beyond what every frame has: hosts in `csp`, `permissions`, a `domain` of its own, and how many
    hosts in `csp` are `unreadable`; each only if there is any.
    """


def bounded_meta(meta: object) -> dict[str, Any] | None:
    """What is kept of a tool's `_meta`; None if it says nothing of MCP Apps."""
    if not isinstance(meta, dict):
        return None
    told = meta.get("ui")
    ui = told if isinstance(told, dict) else {}
    # The second is what servers for earlier drafts say.
    uri = ui.get("resourceUri", meta.get("ui/resourceUri"))
    kept: dict[str, Any] = {}
    if isinstance(uri, str) and uri.startswith(_SCHEME) and len(uri) <= _LONGEST_URI and uri.isprintable():
        kept["resourceUri"] = uri
    if "visibility" in ui:
        seen_by = ui["visibility"]
        kept["visibility"] = [one for one in _EVERYBODY if isinstance(seen_by, list) and one in seen_by]
    return {"ui": kept} if kept else None


def is_for_models(tool: Tool) -> bool:
    """Whether models may be given the tool, which its server may keep for its UI resources."""
    return _FOR_MODELS in _ui(tool).get("visibility", _EVERYBODY)


def is_for_apps(tool: Tool) -> bool:
    """Whether the UI resources of its server may call the tool."""
    return _FOR_APPS in _ui(tool).get("visibility", _EVERYBODY)


def uri_of(tool: Tool) -> str | None:
    """The address of the UI resource that shows the tool's results, if there is one."""
    uri = _ui(tool).get("resourceUri")
    return uri if isinstance(uri, str) else None


def _ui(tool: Tool) -> Mapping[str, Any]:
    return (tool.meta or {}).get("ui") or {}


def ui_resource_of(read: ReadResourceResult) -> UiResource | None:
    """The UI resource that a server has answered with; None if it is none, or too large."""
    content = read.contents[0] if read.contents else None
    if content is None or _without_spaces(content.mimeType) != UI_RESOURCE:
        return None
    html = _decoded(content.blob) if isinstance(content, BlobResourceContents) else content.text
    if not html.strip() or len(html.encode("utf-8", "replace")) > LARGEST_HTML:
        return None
    told = (content.meta or {}).get("ui")
    ui = told if isinstance(told, dict) else {}
    border = ui.get("prefersBorder")
    return UiResource(html, border if isinstance(border, bool) else None, _needs(ui))


def _decoded(blob: str) -> str:
    """The text; empty if it is none."""
    try:
        return base64.b64decode(blob, validate=True).decode()
    except ValueError:
        return ""


def _needs(ui: Mapping[str, Any]) -> dict[str, Any]:
    csp, unreadable = declared_hosts(ui.get("csp"))
    permissions = ui.get("permissions")
    needs = {
        "csp": csp,
        "permissions": [one for one in _PERMISSIONS if isinstance(permissions, dict) and one in permissions],
        "domain": bool(ui.get("domain")),
        "unreadable": unreadable,
    }
    return {name: value for name, value in needs.items() if value}


def _without_spaces(mime: str | None) -> str:
    return "".join((mime or "").split()).lower()


@dataclass(frozen=True, slots=True)
class Origin:
    """Whose result it is."""

    agent_id: str
    """The agent whose entry uses the server."""
    server_id: str


class Shown(Protocol):
    """A resource as the session keeps it."""

    @property
    def address(self) -> str: ...
    @property
    def prefers_border(self) -> bool | None: ...
    @property
    def needs(self) -> Mapping[str, Any]: ...


def part_of(
    origin: Origin,
    tool: Tool,
    resource: Shown,
    arguments: Mapping[str, Any],
    result: CallToolResult,
    beside: list[Part],
) -> CustomPart | None:
    """The part that shows a result; None if it can't be kept as one.

    Who doesn't show it shows its words: the title, and the code among what would be `beside` the result without it.
    """
    data = {
        "server": origin.server_id,
        "agent": origin.agent_id,
        "tool": tool.name,
        "title": title_of(tool),
        "resource": resource.address,
        "prefers_border": resource.prefers_border,
        **({"needs": dict(resource.needs)} if resource.needs else {}),
        "input": dict(arguments),
        "result": _told(result),
    }
    try:
        is_kept = can_be_kept(data) and len(json.dumps(data)) <= _LARGEST_PART
    except (ValueError, TypeError, RecursionError):
        return None
    words = [title_of(tool), *(fenced(part.code, part.language or "") for part in beside if isinstance(part, CodePart))]
    return CustomPart(kind=APP_PART, data=data, text="\n\n".join(words)) if is_kept else None


def title_of(tool: Tool) -> str:
    """What the tool is called for people."""
    title = tool.title or (tool.annotations.title if tool.annotations is not None else None) or tool.name
    return title[:_LONGEST_TITLE]


def whole_result(result: CallToolResult) -> dict[str, Any]:
    """A result for a UI resource; another one that says so if it is too long."""
    told = _told(result)
    if len(json.dumps(told, ensure_ascii=False)) <= _LARGEST_PART:
        return told
    return {"content": [{"type": "text", "text": "The result is too long to be shown."}], "isError": True}


def _told(result: CallToolResult) -> dict[str, Any]:
    return result.model_dump(mode="json", by_alias=True, exclude_none=True)
