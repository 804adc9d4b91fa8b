"""MarkdownTranscript: a session as a Markdown document for people, message by message. Pure.

Each exchange is a question and an answer, with its tools folded between them. No text of a message can leave its place
or change the document around it (see contained_markdown).
"""

import html
import json
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from agentic_backend.protocol.messages import Channel, Role
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
from agentic_backend.sessions.reading.contained_markdown import contained, one_line
from agentic_backend.stores.records import MessageRecord, SessionRecord
from agentic_backend.text.fenced_code import fenced

_LINKED = re.compile(r"(?:https?://|mailto:)[^\x00-\x1f\x7f]+", re.IGNORECASE)
_NAMES_KEPT = 1_000


class MarkdownTranscript:
    """`name_of` gives an agent's name by its id."""

    def __init__(self, name_of: Callable[[str], str]) -> None:
        self._name_of = name_of
        self._exchange_id: str | None = None
        """The exchange of the message before."""
        self._tools: dict[str, str] = {}
        """The names of the tools that the exchange has called, by call id."""

    def heading(self, session: SessionRecord, at: datetime) -> str:
        """The beginning of the document, which is made `at` a time."""
        facts = [
            f"Agent: {one_line(self._name_of(session.agent_id))}",
            f"Begun: {_time(session.created_at)}",
            f"Last change: {_time(session.updated_at)}",
            f"Exported: {_time(at)}",
        ]
        return "\n".join([f"# {one_line(session.title)}", "", *(f"- {fact}" for fact in facts), ""])

    def messages(self, messages: Iterable[MessageRecord]) -> bytes:
        """What the messages, which follow those before, add to the document."""
        return "".join(map(self.message, messages)).encode()

    def message(self, message: MessageRecord) -> str:
        """What the message adds to the document; ends with a blank line."""
        shown: list[str] = []
        if message.exchange_id != self._exchange_id:
            self._exchange_id, self._tools = message.exchange_id, {}
            shown.append("---")
        if message.role is Role.USER:
            shown += [f"## Question, {_time(message.timestamp)}", *map(_quoted, self._parts(message.parts))]
        elif message.channel is Channel.FINAL:
            agent_id = message.metadata.agent_id
            by = f" by {one_line(self._name_of(agent_id))}" if agent_id is not None else ""
            shown += [f"## Answer{by}", *self._parts(message.parts), *_sources(message.metadata.sources)]
        elif message.channel is Channel.THOUGHT:
            shown.append(_folded("Thoughts", "\n\n".join(self._parts(message.parts))))
        elif message.channel is Channel.ERROR:
            shown += ["**Error**", *map(_quoted, self._parts(message.parts))]
        else:
            shown += self._parts(message.parts)
        return "".join(f"\n{each}\n" for each in shown if each)

    def _parts(self, parts: Iterable[Part]) -> list[str]:
        return [self._part(part) for part in parts]

    def _part(self, part: Part) -> str:
        match part:
            case TextPart() | CustomPart():
                return contained(part.text)
            case CodePart():
                return fenced(part.code, part.language or "")
            case ToolCallPart():
                if len(self._tools) < _NAMES_KEPT:
                    self._tools[part.call_id] = part.name
                return _folded(f"Tool: {part.name}", fenced(_json(part.args), "json"))
            case ToolResultPart():
                return self._result(part)
            case LinkPart():
                return f"- {_link(part.title or part.file_name, part.href)}"
            case ImageUrlPart():
                return f"Image: {_link(part.alt, part.url)}"
            case GeoPart():
                return _folded("Map", fenced(_json(part.geojson), "json"))
            case FilePart():
                return f"File: {one_line(part.name)} ({one_line(part.mime)}, {part.size} bytes)"

    def _result(self, part: ToolResultPart) -> str:
        name = self._tools.get(part.call_id, "a tool")
        took = f", {part.latency_ms / 1000:.1f} s" if part.latency_ms is not None else ""
        outcome = "Failure" if part.ok is False else "Result"
        return _folded(f"{outcome} of {name}{took}", fenced(part.content, _language_of(part.content)))


def _time(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}".rstrip() for line in text.split("\n"))


def _folded(summary: str, body: str) -> str:
    # A blank line would end the HTML.
    told = html.escape(" ".join(summary.split()))
    return f"<details>\n<summary>{told}</summary>\n\n{body}\n\n</details>"


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


def _language_of(text: str) -> str:
    try:
        return "json" if isinstance(json.loads(text), dict | list) else ""
    except (ValueError, RecursionError):
        return ""


def _sources(sources: Iterable[Mapping[str, Any]]) -> list[str]:
    listed = [f"{number}. {_source(source)}" for number, source in enumerate(sources, start=1)]
    return ["**Sources**", "\n".join(listed)] if listed else []


def _source(source: Mapping[str, Any]) -> str:
    title, url = source.get("title") or source.get("file_name"), source.get("url")
    return _link(None if title is None else str(title), None if url is None else str(url))


def _link(title: str | None, url: str | None) -> str:
    """A link, or only its title where the URL is none that a reader may follow, such as one with the data itself."""
    if url is None or not _LINKED.fullmatch(url):
        return one_line(title or "without a title")
    return f"[{one_line(title or url)}](<{quote(url, safe=_URL_CHARACTERS)}>)"


_URL_CHARACTERS = ":/?#[]@!$&'()*+,;=%~-._"
