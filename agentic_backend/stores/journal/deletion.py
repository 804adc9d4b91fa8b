"""Deletion: one line of the journal. It holds ids and times, and no text of anybody."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, get_args
from uuid import uuid4

from agentic_backend.stores.rows import rfc3339

Kind = Literal[
    "user",
    "session",
    "session_state",
    "attachments",
    "application_records",
    "session_application_records",
    "items",
    "feedback",
    "shares",
    "undone",
]
"""What was deleted. `undone` is a deletion that was refused after it had been noted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deletion:
    """What is deleted was last written `at` this time or before; the time is the store's.

    `ids` are those of the rows. Of records of applications they are SHA-256 sums of the ids, which may hold words of
    people, and `within` is what these ids begin with: the kind and the owner. Of a session's state `within` is the
    session's next rank. Of what was undone they are the ids that stay after all, and `within` is that deletion's id.
    """

    id: str
    at: datetime
    kind: Kind
    ids: tuple[str, ...]
    within: str | None = None
    only_unsent: bool = False
    """Whether attachments that were sent stay."""

    @property
    def line(self) -> str:
        """As one line of JSON, without its end."""
        values: dict[str, Any] = {"id": self.id, "at": rfc3339(self.at), "kind": self.kind, "ids": self.ids}
        if self.within is not None:
            values["within"] = self.within
        if self.only_unsent:
            values["only_unsent"] = True
        return json.dumps(values)


def new_deletion(
    kind: Kind, ids: tuple[str, ...], at: datetime, *, within: str | None = None, only_unsent: bool = False
) -> Deletion:
    return Deletion(id=uuid4().hex, at=at, kind=kind, ids=ids, within=within, only_unsent=only_unsent)


def deletion_in(line: str | bytes) -> Deletion | None:
    """The deletion of a line; None if it is torn, or none that this release knows."""
    try:
        return deletion_of(json.loads(line))
    except (ValueError, RecursionError):
        return None


def deletion_of(values: Any) -> Deletion | None:
    """The same, of what a line says."""
    match values:
        case {"id": str(id_), "at": str(at), "kind": str(kind), "ids": list(ids)} if kind in get_args(Kind) and all(
            type(each) is str for each in ids
        ):
            try:
                time = datetime.fromisoformat(at)
            except ValueError:
                return None
            return None if time.tzinfo is None else _deletion(values, id_, time, kind, ids)
    return None


def _deletion(values: Mapping[str, Any], id_: str, at: datetime, kind: Any, ids: list[str]) -> Deletion | None:
    within, only_unsent = values.get("within"), values.get("only_unsent", False)
    if not isinstance(within, str | None) or type(only_unsent) is not bool:
        return None
    return Deletion(id=id_, at=at, kind=kind, ids=tuple(ids), within=within, only_unsent=only_unsent)
