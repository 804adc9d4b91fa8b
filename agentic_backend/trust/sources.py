"""The sources of an answer, and which of them a statement cites. Pure.

Sources are those that the answer's model cites, the citations that the agent shows in its answer, and the links that
tools show beside their results.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agentic_backend.protocol.parts import LinkPart, ToolResultPart
from agentic_backend.protocol.trust import TrustedSource
from agentic_backend.stores.records import MessageRecord
from agentic_backend.trust.tokens import is_pair

_LONGEST_TITLE, _LONGEST_HREF = 300, 2_048
_SHORTEST_NAME = 6

_WITHIN = re.compile(r"\w\W+\w")
_MARK = re.compile(r"\[\^?(\d{1,3}(?:, ?\d{1,3})*)\]")


@dataclass(slots=True)
class Source:
    title: str | None
    href: str | None
    file_name: str | None
    number: int | None = None
    """By which the answer cites it."""
    found_by: str | None = None
    """The id of the tool call that found it, in the summary."""
    said: str = field(default="", repr=False)
    """What is cited of it."""

    def shown(self, id: str) -> TrustedSource:
        title, href = self.title or self.file_name, self.href
        return TrustedSource(
            id=id,
            number=self.number,
            title=title[:_LONGEST_TITLE] if title else None,
            # Half a URL leads elsewhere.
            href=href if href and len(href) <= _LONGEST_HREF else None,
            found_by=self.found_by,
        )

    @property
    def names(self) -> list[str]:
        """What a statement that cites it may contain, case-folded."""
        names = [name for name in (self.title, self.file_name) if name and _is_distinct(name)]
        names += [self.href] if self.href else []
        return [name.casefold() for name in names if len(name) <= _LONGEST_HREF]


def cited_sources(answer: MessageRecord) -> Iterator[Source]:
    """The sources that the answer's model cites, by their numbers."""
    for place, told in enumerate(answer.metadata.sources, 1):
        number = told.get("number")
        yield Source(
            title=_text(told, "title", "name"),
            href=_text(told, "url", "href"),
            file_name=_text(told, "file_name"),
            number=number if isinstance(number, int) else place,
            said=_text(told, "cited_text") or "",
        )


def linked_sources(messages: Iterable[MessageRecord], tool_ids: Mapping[str, str]) -> Iterator[Source]:
    """The links that tools have shown, and the agent's own citations. `tool_ids` are the tools' ids by call id."""
    for message in messages:
        result = next((part for part in message.parts if isinstance(part, ToolResultPart)), None)
        for part in message.parts:
            if isinstance(part, LinkPart) and (result is not None or part.kind == "citation"):
                found_by = tool_ids.get(result.call_id) if result is not None else None
                yield Source(part.title, part.href, part.file_name, found_by=found_by)


def distinct(sources: Iterable[Source]) -> list[Source]:
    """Each source once, and once for each of its numbers, in order of appearance, with the tool that found it."""
    first: dict[object, Source] = {}
    kept: list[Source] = []
    for source in sources:
        same = first.setdefault(source.href or (source.file_name, source.title), source)
        same.found_by = same.found_by or source.found_by
        if same is source or source.number is not None:
            kept.append(source)
    return kept


class Citations:
    """Finds what statements cite, by number, URL, file name or title."""

    def __init__(self, sources: Sequence[tuple[str, Source]]) -> None:
        """`sources` with their ids."""
        self._sources = [(id, source.number, source.names) for id, source in sources]

    def of(self, statement: str) -> list[str]:
        """The ids of the sources that the statement cites."""
        folded = statement.casefold()
        marked = {int(number) for mark in _MARK.findall(folded) for number in mark.split(",")}
        return [id for id, number, names in self._sources if number in marked or any(name in folded for name in names)]


def _is_distinct(name: str) -> bool:
    """Whether a title or a file name is more than a word that a sentence may have by chance."""
    return len(name) >= _SHORTEST_NAME and (_WITHIN.search(name) is not None or is_pair(name[:2]))


def _text(told: Mapping[str, Any], *names: str) -> str | None:
    """The first of these values that is a text."""
    return next((value for name in names if isinstance(value := told.get(name), str) and value), None)
