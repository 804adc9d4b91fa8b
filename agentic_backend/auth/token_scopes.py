"""Reads a user's groups and scope from a verified token's claims. Pure; a claim of another form counts as absent."""

from collections.abc import Mapping
from typing import Any

_LONGEST_ID, _LONGEST_EMAIL = 128, 320


def at_path(claims: Mapping[str, Any], path: str) -> Any:
    """The value at a dotted path, or of the claim with that whole name, such as a URL; None if there is none."""
    if path in claims:
        return claims[path]
    found: Any = claims
    for name in path.split("."):
        found = found.get(name) if isinstance(found, Mapping) else None
    return found


def email_in(claims: Mapping[str, Any]) -> str | None:
    email = claims.get("email")
    return email if isinstance(email, str) and 0 < len(email) <= _LONGEST_EMAIL else None


def texts_in(value: Any) -> frozenset[str]:
    """The texts of a claim that is a text or a list of texts; a whole number counts as its digits."""
    values = [str(one) if type(one) is int else one for one in (value if isinstance(value, list) else [value])]
    return frozenset(text for text in values if isinstance(text, str) and 0 < len(text) <= _LONGEST_ID)


def scopes_in(claims: Mapping[str, Any], paths: Mapping[str, str]) -> tuple[dict[str, str], dict[str, frozenset[str]]]:
    """The scope that the claims at `paths` name, and by kind those of which they name several."""
    named = {kind: texts_in(at_path(claims, path)) for kind, path in paths.items()}
    scope = {kind: next(iter(ids)) for kind, ids in named.items() if len(ids) == 1}
    return scope, {kind: ids for kind, ids in named.items() if len(ids) > 1}
