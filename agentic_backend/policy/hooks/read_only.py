"""Read-only copies of values of JSON: what modules are told, and one must not change for the next.

They are still dicts, so that an author can send them on as JSON.
"""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any, NoReturn


class ReadOnlyDict(dict[str, Any]):
    """Raises TypeError when it is changed; a copy of it can be."""

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise TypeError("what a module is told can't be changed; change a deep copy")

    __setitem__ = __delitem__ = __ior__ = clear = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> tuple[type[dict[str, Any]], tuple[dict[str, Any]]]:
        # A copy is a dict that can be changed, also in another process.
        return dict, (dict(self),)

    def __deepcopy__(self, memo: dict[int, Any]) -> dict[str, Any]:
        return {key: deepcopy(value, memo) for key, value in self.items()}


def read_only(value: Any) -> Any:
    """A copy of `value` with read-only dicts, and with tuples for lists."""
    if isinstance(value, Mapping):
        return ReadOnlyDict({key: read_only(each) for key, each in value.items()})
    if isinstance(value, set | frozenset):
        return frozenset(value)
    return tuple(map(read_only, value)) if isinstance(value, list | tuple) else value
