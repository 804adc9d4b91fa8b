"""ExactEvents: makes the objects of a provider's streamed events in the shortest way.

The packages of OpenAI and Anthropic make an object of each event field by field in Python, and try every class of a
union for it, so that any provider's data becomes some object. An event that is exactly as its class says needs none of
that: pydantic's strict validation makes an equal object, at a twentieth of the cost.
"""

from collections.abc import Iterable, Mapping
from typing import Any, get_args

from pydantic import BaseModel, ValidationError


class ExactEvents:
    """Immutable, so that all clients of a package share one."""

    def __init__(self, streamed: Iterable[Any]) -> None:
        """`streamed` are what streams are cast to: a class of events, or a union of classes told apart by `type`."""
        self._streamed = {id(each): (each, _by_type(each)) for each in streamed}
        """By identity, as a union of fifty classes takes long to hash. The unions are kept, and so are their ids."""

    def read(self, data: object, cast_to: object) -> object | None:
        """The object of the event `data`, decoded JSON; None if only the package's own way can tell what it becomes."""
        known = self._streamed.get(id(cast_to))
        if known is None or type(data) is not dict:
            return None
        kind = data.get("type")
        event = known[1].get(kind) if kind is None or type(kind) is str else None
        if event is None:
            return None
        try:
            # Strict: what would have to be converted becomes something else in the package's own way.
            return event.model_validate(data, strict=True)
        except ValidationError:
            return None


def _by_type(streamed: Any) -> Mapping[str | None, type[BaseModel]]:
    """The classes by the `type` that only they may have; under None one that is no union."""
    if isinstance(streamed, type):
        return {None: streamed}
    union = get_args(streamed)[0] if hasattr(streamed, "__metadata__") else streamed
    classes: dict[str | None, type[BaseModel]] = {}
    shared = set()
    for event in get_args(union):
        for kind in get_args(event.model_fields["type"].annotation):
            if kind in classes:
                shared.add(kind)
            classes[kind] = event
    return {kind: event for kind, event in classes.items() if kind not in shared}
