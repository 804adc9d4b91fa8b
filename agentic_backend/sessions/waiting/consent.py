"""Consent: what a person has approved of before a request is sent again, for exactly what they were shown.

The first request is refused with ApprovalRequired, which tells what to show, and its hash; the second one brings the
hash. Who approves is who is signed in: no more is proven than that their client has asked them.
"""

import re
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any

from agentic_backend.errors import ApprovalRequired
from agentic_backend.streaming.people.approval_requests import args_sha256

_MOST = 8
_HASH = re.compile(r"[0-9a-f]{64}")
_given: ContextVar[frozenset[str]] = ContextVar("consent_given", default=frozenset())


def give_consent(header: str | None) -> None:
    """The request that this task answers brings these hashes, separated by commas; None: it brings none."""
    told = [each.strip() for each in (header or "").split(",", _MOST)][:_MOST]
    _given.set(frozenset(each for each in told if _HASH.fullmatch(each)))


def require_consent(asked_by: str, title: str, data: Mapping[str, Any]) -> str:
    """The hash of what the person has approved of. Raises ApprovalRequired if they have not yet."""
    found = args_sha256({"asked_by": asked_by, "title": title, "data": dict(data)})
    if found not in _given.get():
        raise ApprovalRequired(title=title, data=data, sha256=found)
    return found
