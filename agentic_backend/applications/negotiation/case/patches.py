"""Patches of a case: RFC 6902, applied whole or not at all.

A patch may come from a model. Whatever it is, the snapshot that it is applied to stays as it is, and what is wrong
with it is said in words that a model, or a person, can act on.
"""

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

from jsonpatch import JsonPatch, JsonPatchException
from jsonpointer import JsonPointerException
from pydantic import ValidationError
from pydantic_core import from_json, to_json

from agentic_backend.applications.negotiation.case.snapshot import CaseSnapshot

MOST_OPERATIONS = 50
MOST_BYTES = 64 * 1024
"""Of a patch, and of a snapshot, as JSON."""
_LONGEST_TOLD = 200
_FIXED = ("domain", "template")
_MEMBERS = {
    "add": {"op", "path", "value"},
    "remove": {"op", "path"},
    "replace": {"op", "path", "value"},
    "move": {"op", "path", "from"},
    "copy": {"op", "path", "from"},
    "test": {"op", "path", "value"},
}
"""What an operation has; others, which RFC 6902 has ignored, are refused, as a model means something by them."""


class PatchRefused(Exception):
    """The patch can't be applied; its text says why, in one line."""


def parsed_patch(text: str) -> list[Any]:
    """The operations of a patch as a model writes it: JSON, or JSON in a fence of Markdown. Raises PatchRefused."""
    stripped = text.strip()
    if stripped.startswith("```"):
        stripped = stripped.partition("\n")[2].removesuffix("```")
    if len(stripped.encode()) > MOST_BYTES:
        raise PatchRefused(f"a patch has at most {MOST_BYTES} bytes")
    try:
        operations = from_json(stripped, allow_inf_nan=False)
    except ValueError:
        raise PatchRefused("this is no JSON") from None
    if not isinstance(operations, list):
        raise PatchRefused("a patch is a list of operations")
    return operations


def patched(snapshot: CaseSnapshot, operations: Sequence[Any]) -> CaseSnapshot:
    """The snapshot with all of these operations done. Raises PatchRefused."""
    if not operations:
        raise PatchRefused("the patch has no operation")
    if len(operations) > MOST_OPERATIONS:
        raise PatchRefused(f"a patch has at most {MOST_OPERATIONS} operations")
    before = snapshot.model_dump(mode="json")
    document = deepcopy(before)
    for number, operation in enumerate(operations):
        document = _after(document, operation, f"operation {number}")
    for key in _FIXED:
        if document.get(key) != before[key]:
            raise PatchRefused(f"/{key} can't be changed")
    timeline, kept = document.get("timeline"), before["timeline"]
    if not isinstance(timeline, list) or timeline[: len(kept)] != kept:
        raise PatchRefused("/timeline can only be added to, at its end")
    try:
        return CaseSnapshot.model_validate(document)
    except ValidationError as error:
        raise PatchRefused(_told(error)) from None


def _after(document: dict[str, Any], operation: Any, which: str) -> dict[str, Any]:
    if not isinstance(operation, dict):
        raise PatchRefused(f"{which} is no object")
    op = operation.get("op")
    members = _MEMBERS.get(op) if isinstance(op, str) else None
    if members is None:
        raise PatchRefused(f"{which}: 'op' is one of {', '.join(_MEMBERS)}")
    if operation.keys() != members:
        raise PatchRefused(f"{which}: '{op}' has {', '.join(sorted(members))}, and nothing else")
    for key in members & {"path", "from"}:
        if not isinstance(operation[key], str) or not operation[key].startswith("/"):
            raise PatchRefused(f"{which}: '{key}' is a JSON pointer below the top, such as /goal")
    try:
        # In place: the document is ours, and one operation of a patch costs what it touches.
        document = JsonPatch([deepcopy(operation)]).apply(document, in_place=True)
        size = len(to_json(document, inf_nan_mode="constants"))
    # The library lets some errors of Python's through where a pointer leads into a text or a number.
    except (JsonPatchException, JsonPointerException, TypeError, ValueError, LookupError, RecursionError) as error:
        raise PatchRefused(f"{which} can't be done: {str(error)[:_LONGEST_TOLD] or 'its path leads nowhere'}") from None
    # After each: copies of copies double it.
    if size > MOST_BYTES:
        raise PatchRefused(f"{which} makes the case larger than {MOST_BYTES} bytes")
    return document


def _told(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    pointer = "".join(f"/{part}" for part in first["loc"])
    return f"{pointer or 'the case'}: {first['msg']}"[:_LONGEST_TOLD]
