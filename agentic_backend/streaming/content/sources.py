"""Sources: what a model's message cites, in any provider's form, as the numbered `sources` of its metadata. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

MOST_SOURCES = 50
"""The most sources of a message."""

_LONGEST = {"title": 300, "url": 2_048, "file_name": 300, "cited_text": 1_000}


def sources_of(blocks: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The distinct sources in the annotations of standard content blocks, numbered from 1 in order of appearance.

    Each has a `number` and, as far as they are known, a `title`, a `url`, a `file_name`, and the first `cited_text`.
    """
    found: dict[tuple[str | None, ...], dict[str, Any]] = {}
    for citation in _citations(blocks):
        source = _source(citation)
        key = source.get("url"), source.get("file_name"), source.get("title")
        if any(key) and key not in found and len(found) < MOST_SOURCES:
            found[key] = {"number": len(found) + 1, **source}
    return list(found.values())


def _citations(blocks: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    for block in blocks:
        annotations = block.get("annotations")
        for annotation in annotations if isinstance(annotations, list) else ():
            if not isinstance(annotation, Mapping):
                continue
            value = annotation.get("value") if annotation.get("type") == "non_standard_annotation" else annotation
            if isinstance(value, Mapping):
                yield value


def _source(citation: Mapping[str, Any]) -> dict[str, str]:
    extras = citation.get("extras")
    within = extras if isinstance(extras, Mapping) else {}
    told = {
        "title": citation.get("title") or citation.get("document_title"),
        "url": citation.get("url"),
        "file_name": citation.get("filename") or within.get("filename") or within.get("file_name"),
        "cited_text": citation.get("cited_text"),
    }
    source = {name: value for name, value in told.items() if isinstance(value, str) and value}
    if len(source.get("url", "")) > _LONGEST["url"]:
        # Half a URL leads elsewhere.
        del source["url"]
    return {name: value[: _LONGEST[name]] for name, value in source.items()}
