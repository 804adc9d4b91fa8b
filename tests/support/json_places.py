"""The places in a JSON value, for tests that change one of them."""

from typing import Any


def places(value: Any) -> list[tuple[Any, Any]]:
    """Each container within a JSON value, with one of its keys or places."""
    if not isinstance(value, dict | list):
        return []
    items = list(value.items()) if isinstance(value, dict) else list(enumerate(value))
    return [(value, key) for key, _ in items] + [place for _, item in items for place in places(item)]
