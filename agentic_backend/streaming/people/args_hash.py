"""The hash that binds an approval to the arguments that were shown. Pure."""

import hashlib
from collections.abc import Mapping
from typing import Any

import rfc8785


def args_sha256(args: Mapping[str, Any]) -> str:
    """The hex SHA-256 of the arguments' canonical JSON (RFC 8785)."""
    try:
        canonical = rfc8785.dumps(dict(args))
    except rfc8785.CanonicalizationError:
        # Integers beyond 2**53 have no canonical JSON number; they are hashed as text.
        canonical = rfc8785.dumps(_big_integers_as_text(dict(args)))
    return hashlib.sha256(canonical).hexdigest()


def _big_integers_as_text(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _big_integers_as_text(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_big_integers_as_text(item) for item in value]
    return str(value) if isinstance(value, int) and abs(value) >= 2**53 else value
