"""The kinds of parts that an application declares, checked."""

from collections.abc import Sequence
from typing import Any

from agentic_backend.agents.code.class_path import ClassPathError
from agentic_backend.agents.parts import PartKind
from agentic_backend.hosting.declarations import NAME_RULE, first_broken, is_name, listed
from agentic_backend.protocol.parts import Value

_MOST = 50


def declared_parts(kinds: object) -> Sequence[PartKind[Any]]:
    """The kinds that `Application.parts` has. Raises ClassPathError, and what reading them raises."""
    found: Sequence[PartKind[Any]] = listed("'parts' has to be", kinds, PartKind, _MOST)
    for kind in found:
        rules = {
            NAME_RULE: is_name(kind.name),
            "another kind of part has this name": [each.name for each in found].count(kind.name) == 1,
            "the model has to be a subclass of Value": isinstance(kind.model, type) and issubclass(kind.model, Value),
        }
        rule = first_broken(rules)
        if rule is None and not _is_object(kind.model):
            rule = "the model has to become a JSON object"
        if rule is not None:
            raise ClassPathError(f"the kind of part {kind.name!r}: {rule}")
    return found


def _is_object(model: type[Value]) -> bool:
    schema = model.model_json_schema(mode="serialization")
    # One that contains itself is among its own definitions.
    return schema.get("type") == "object" or "$ref" in schema


def part_name(application_id: str, kind: PartKind[Any]) -> str:
    """What clients know the kind by."""
    return f"{application_id}:{kind.name}"
