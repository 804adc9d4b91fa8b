"""The JSON Schemas of the classic form: what older clients get and send where it differs from Chat Protocol v2.

They are made of the protocol's own, as the classic codec makes its frames of the protocol's events.
"""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from pydantic.json_schema import JsonSchemaValue

Schemas = Mapping[str, JsonSchemaValue]
_Fields = dict[str, dict[str, Any]]

_EXAMPLE_ID = "call:9ad9d1db359cb62596c5d18e2b6395a325c91d01bd2aeeb20768e541b8d18260:call_1"
_CHECKPOINT_ID = {"type": "string", "description": "Names the request; an answer gives it back as it is."}
_ASKED: _Fields = {
    "question": {"type": "string", "description": "What is asked, in Markdown, with all that is decided on."},
    "stage": {"type": "string", "description": "The graph's name for where it waits."},
    "choices": {
        "type": "array",
        "items": {"type": "object", "required": ["id", "label"]},
        "description": "`{id, label, description?, default?}`: the answers to choose from.",
    },
    "free_text": {"type": "boolean", "description": "Whether the answer may be a text."},
    "checkpoint_id": _CHECKPOINT_ID,
}
_ANSWERED: _Fields = {
    "answer": {"description": "The answer, where it is no choice and no text."},
    "choice_id": {"type": ["string", "null"], "description": "The id of the choice."},
    "text": {"type": ["string", "null"], "description": "The answer in words, or what goes with a rejection."},
    "checkpoint_id": {**_CHECKPOINT_ID, "type": ["string", "null"]},
}
_QUESTION = 'May this tool run?\n\nweather:\n\n```json\n{"city": "Bern"}\n```'


def classic_schemas(schemas: Schemas) -> dict[str, JsonSchemaValue]:
    """The schemas by name, which name others as `schemas` do: those of Chat Protocol v2."""
    return {
        "ClassicStream": _without(schemas["Stream"], "seq", "block"),
        "ClassicError": _without(schemas["ExchangeError"], "seq"),
        "ClassicFinal": _without(schemas["Final"], "seq"),
        "ClassicAwaitingHuman": _awaiting_human(schemas),
        "ClassicHumanResume": _human_resume(schemas),
    }


def _without(schema: JsonSchemaValue, *names: str) -> JsonSchemaValue:
    return {
        **schema,
        "properties": _less(schema["properties"], names),
        "required": [name for name in schema["required"] if name not in names],
        "title": f"Classic{schema['title']}",
        "examples": [_less(example, names) for example in schema["examples"]],
    }


def _less(values: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name not in names}


def _awaiting_human(schemas: Schemas) -> JsonSchemaValue:
    schema = deepcopy(_without(schemas["AwaitingHuman"], "seq"))
    requests = schemas["HumanRequests"]
    schema["properties"]["payload"] = {
        **_less(requests, ("title", "examples")),
        "description": "What newer clients get, and the first of the requests in words.",
        "properties": requests["properties"] | _ASKED,
        "required": [*requests["required"], "question", "checkpoint_id"],
    }
    choices = [{"id": "reject", "label": "Reject"}, {"id": "approve", "label": "Approve"}]
    for example in schema["examples"]:
        example["payload"] |= {"question": _QUESTION, "choices": choices, "checkpoint_id": _EXAMPLE_ID}
    return schema


def _human_resume(schemas: Schemas) -> JsonSchemaValue:
    schema = deepcopy(schemas["HumanResume"])
    answer = {"choice_id": "approve", "checkpoint_id": _EXAMPLE_ID}
    schema["properties"]["payload"] = {
        "anyOf": [schema["properties"]["payload"], {"type": "object", "properties": _ANSWERED}],
        "description": "What the person has decided; without `checkpoint_id`, on what was asked last.",
    }
    first, *_ = schema["examples"]
    # It means nothing here, but older clients put it into every frame.
    for name in ("agent_id", "runtime_context"):
        schema["properties"][name] = {"description": "Ignored."}
    return {**schema, "title": "ClassicHumanResume", "examples": [{**first, "payload": answer}]}
