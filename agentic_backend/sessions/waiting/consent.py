"""Consent: what a person has approved of before a request is sent again, for exactly what they were shown.

The first request is refused with ApprovalRequired, which tells what to show, and its hash; the second one brings the
hash. Who approves is who is signed in: no more is proven than that their client has asked them.
"""

import re
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any

from pydantic_core import to_json

from agentic_backend.errors import ApprovalRequired
from agentic_backend.exact_json import can_be_kept, is_exact
from agentic_backend.streaming.people.approval_requests import args_sha256

LONGEST_TITLE, LARGEST_DATA = 500, 65_536
"""Of what a person is asked to approve of: characters, and bytes of JSON."""
_MOST = 8
HASH = re.compile(r"[0-9a-f]{64}")
_given: ContextVar[frozenset[str]] = ContextVar("consent_given", default=frozenset())


def give_consent(header: str | None) -> None:
    """The request that this task answers brings these hashes, separated by commas; None: it brings none."""
    told = [each.strip() for each in (header or "").split(",", _MOST)][:_MOST]
    _given.set(frozenset(each for each in told if HASH.fullmatch(each)))


def require_consent(asked_by: str, title: str, data: Mapping[str, Any]) -> None:
    """Raises ApprovalRequired if the person has not approved yet, and ValueError for what can't be shown."""
    if not can_be_shown(title, data):
        raise ValueError(
            f"expected a title of at most {LONGEST_TITLE} characters, and {LARGEST_DATA} bytes of data at most"
        )
    found = args_sha256({"asked_by": asked_by, "title": title, "data": dict(data)})
    if found not in _given.get():
        raise ApprovalRequired(asked_by=asked_by, title=title, data=data, sha256=found)


def can_be_shown(title: object, data: object) -> bool:
    """Whether these are a text and JSON, which a person can read whole, and every client has as they are."""
    if type(title) is not str or not title.strip() or len(title) > LONGEST_TITLE or type(data) is not dict:
        return False
    try:
        return is_exact(title) and can_be_kept(data) and len(to_json(data)) <= LARGEST_DATA
    except (ValueError, TypeError, RecursionError):
        return False
