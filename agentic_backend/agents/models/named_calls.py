"""Tells providers of the call and the trace that a request of theirs belongs to, where their packages have a place.

OpenAI's clients are the server's own and tell it by themselves (see provider_responses).
"""

from collections.abc import Mapping
from functools import cache
from typing import Any

from langchain_core.language_models import BaseChatModel

from agentic_backend.tracing.spans import sent_on

_PLACES: Mapping[str, tuple[str, ...]] = {
    "langchain_anthropic": ("extra_headers",),
    "langchain_google_genai": ("http_options", "headers"),
}
"""Where the headers of one request stand among the options of a call, by the package of the model's class."""


def with_ids(model: type, options: dict[str, Any]) -> dict[str, Any]:
    """The options of a call of a `model` with the ids; headers that the options have themselves win."""
    place = _place_of(model)
    return options if place is None else _put(options, place, sent_on())


@cache
def _place_of(model: type) -> tuple[str, ...] | None:
    # Not by isinstance: few servers have these packages.
    packages = [each.__module__.partition(".")[0] for each in model.__mro__ if issubclass(each, BaseChatModel)]
    return next((_PLACES[package] for package in packages if package in _PLACES), None)


def _put(options: Mapping[str, Any], place: tuple[str, ...], headers: Mapping[str, str]) -> dict[str, Any]:
    first, *rest = place
    inside = options.get(first) or {}
    return {**options, first: _put(inside, tuple(rest), headers) if rest else {**headers, **inside}}
