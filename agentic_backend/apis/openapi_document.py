"""OpenApi: an OpenAPI 3 document and the operations in it. Pure but for `read_document`.

Invariants: references lead only within the document; what is made of an operation is bounded, also where schemas refer
to themselves; no operation leads to another host than the settings name, because a path begins with `/`.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from agentic_backend.config.yaml.validation_problems import near_miss
from agentic_backend.config.yaml.yaml_bounds import Loader, require_bounded
from agentic_backend.inlined_schema import Resolver, UnusableSchema, document_resolver, resolved
from agentic_backend.mcp import tool_name

MOST_BYTES = 8_000_000
"""Of a document."""
MOST_OPERATIONS = 5_000
"""Of a document; those beyond are left out."""
MOST_SELECTED = 100
"""Operations that one entry may take of one API: each is told to the model at each call."""

_MOST_LEVELS = 500
# In YAML; and the pairs of all mappings, with what is merged into them.
_MOST_VALUES = 2_000_000

_SAFE = ("GET", "HEAD")
_METHODS = ("get", "head", "post", "put", "patch", "delete", "options")
_SIGNS = re.compile(r"[*?\[]")


class DocumentError(Exception):
    """A document can't be used; the text says why, and quotes nothing of it but names."""


@dataclass(frozen=True, slots=True)
class RawOperation:
    """An operation as the document has it."""

    id: str
    """Its operationId, or one made of method and path."""
    method: str
    """In capitals."""
    path: str
    values: Mapping[str, Any]
    shared: Sequence[Any]
    """The parameters of all operations of the path."""

    @property
    def signature(self) -> str:
        return f"{self.method} {self.path}"

    @property
    def is_safe(self) -> bool:
        """Whether it only reads."""
        return self.method in _SAFE


@dataclass(frozen=True)
class OpenApi:
    values: Mapping[str, Any]

    @cached_property
    def resolver(self) -> Resolver:
        """For the references in it."""
        return document_resolver(self.values)

    @cached_property
    def operations(self) -> Sequence[RawOperation]:
        found: dict[str, RawOperation] = {}
        for operation in self._operations():
            if len(found) == MOST_OPERATIONS:
                break
            found.setdefault(operation.id, operation)
        return list(found.values())

    def _operations(self) -> Iterator[RawOperation]:
        for path, item in self.values["paths"].items():
            if not isinstance(path, str) or not path.startswith("/"):
                continue
            try:
                item = resolved(item, self.resolver)
            except UnusableSchema:
                continue
            if not isinstance(item, Mapping):
                continue
            shared = item.get("parameters")
            for method in _METHODS:
                values = item.get(method)
                if isinstance(values, Mapping):
                    given = values.get("operationId")
                    made = re.sub(r"[^A-Za-z0-9]+", "_", f"{method} {path}").strip("_")
                    name = given if isinstance(given, str) and given else made
                    yield RawOperation(name, method.upper(), path, values, shared if isinstance(shared, list) else [])

    def selected(self, wanted: Sequence[str]) -> list[RawOperation]:
        """The operations that `wanted` names, in the document's order."""
        return [one for one in self.operations if any(_means(name, one) for name in wanted)]

    def unknown(self, wanted: str) -> str | None:
        """Why `wanted` names no operation; None if it names one."""
        if any(_means(wanted, one) for one in self.operations):
            return None
        if _SIGNS.search(wanted):
            changing = any(fnmatchcase(one.id, wanted) for one in self.operations)
            hint = "; operations that change something need their names or a method, such as 'POST *'"
            return f"no operation matches {wanted!r}{hint if changing else ''}"
        known = [one.signature if " " in wanted else one.id for one in self.operations]
        return f"there is no operation {wanted!r}{near_miss(wanted, known)}"


def _means(wanted: str, operation: RawOperation) -> bool:
    if wanted in (operation.id, operation.signature):
        return True
    if not _SIGNS.search(wanted):
        return False
    if " " in wanted:
        return fnmatchcase(operation.signature, wanted)
    return operation.is_safe and fnmatchcase(operation.id, wanted)


def operation_names(api_id: str, operations: Sequence[RawOperation], taken: Sequence[str]) -> list[str]:
    """The names of the operations' tools: their ids, or with the API's id as a prefix where one is `taken`."""
    names = [tool_name(one.id) for one in operations]
    return [tool_name(f"{api_id}_{name}") if name in taken else name for name in names]


def read_document(path: Path) -> OpenApi:
    """The document in a file. Raises DocumentError. Blocks."""
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise DocumentError(f"can't be read: {error.strerror}") from error
    return parsed(content)


def parsed(content: bytes) -> OpenApi:
    """The document in JSON or YAML. Raises DocumentError. Takes a second for a large one in JSON, longer in YAML."""
    if len(content) > MOST_BYTES:
        raise DocumentError(f"has more than {MOST_BYTES} bytes")
    try:
        text = content.decode("utf-8-sig")
        values = json.loads(text) if text.lstrip()[:1] == "{" else _yaml(text)
    # PyYAML doesn't catch the errors of its conversions.
    except (ValueError, ArithmeticError, AttributeError, LookupError, yaml.YAMLError, RecursionError) as error:
        raise DocumentError("is neither JSON nor YAML") from error
    version = values.get("openapi") if isinstance(values, dict) else None
    if not isinstance(version, str) or not version.startswith("3."):
        raise DocumentError("is no OpenAPI 3 document")
    if not isinstance(values.get("paths"), dict):
        raise DocumentError("has no 'paths'")
    return OpenApi(values)


def _yaml(text: str) -> Any:
    require_bounded(text, _MOST_VALUES, _MOST_LEVELS)
    return yaml.load(text, _Loader)


class _Loader(Loader):  # type: ignore[misc]
    """Bounds what merge keys (`<<`) stand for: a few lines of them could stand for billions of values."""

    _merged = 0

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        super().flatten_mapping(node)
        self._merged += len(node.value)
        if self._merged > _MOST_VALUES:
            raise yaml.constructor.ConstructorError(problem="too many values")
