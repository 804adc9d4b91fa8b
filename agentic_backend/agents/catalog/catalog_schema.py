"""The JSON Schema of `agents_catalog.yaml`, for editors, which complete and check by it.

Made of the models that read the catalog, so it knows every key that they know. It can't tell what depends on other
files: whether a class, a model, an MCP server or a chat profile is there, and whether an id is taken. `validate` does.
"""

from collections.abc import Iterator
from typing import Any

from agentic_backend.agents.catalog.catalog import AgentSettings, AgentTuning, ApplicationKeys
from agentic_backend.agents.catalog.entry_parts import CONFIGURED_AGENT, CONFIGURED_LEADER, LONGEST_PROMPT
from agentic_backend.agents.catalog.named_middleware import SHIPPED_MIDDLEWARE

JsonSchema = dict[str, Any]

SHIPPED_CLASSES = (
    "agentic_backend.experts.assistant.assistant:Assistant",
    CONFIGURED_AGENT,
    CONFIGURED_LEADER,
    "agentic_backend.experts.documentation.documentation_expert:DocumentationExpert",
    "agentic_backend.experts.plain_chat.graph:build",
    "agentic_backend.experts.sentinel.sentinel_expert:SentinelExpert",
    "agentic_backend.experts.team.team_leader:TeamLeader",
)
"""The class paths that editors propose."""


def catalog_schema(keys: ApplicationKeys | None = None) -> JsonSchema:
    """The schema of the whole file, in JSON Schema 2020-12.

    `keys` are those of the applications of a server; without them an entry may say anything to any application.
    """
    entry = AgentSettings.model_json_schema()
    definitions: JsonSchema = entry.pop("$defs")
    definitions["AgentSettings"] = entry
    _say_what_validators_check(entry)
    definitions["MiddlewareUse"]["properties"]["name"]["examples"] = list(SHIPPED_MIDDLEWARE)
    # A text stands in its place.
    del definitions["Prompt"]["properties"]["text"]
    definitions["Prompt"]["required"] = ["file"]
    file = definitions["Prompt"]["properties"]["file"]
    file |= next(option for option in file.pop("anyOf") if option["type"] == "string")
    del file["default"]
    if keys is not None:
        _say_what_applications_take(definitions, keys)
    for part in _parts(definitions):
        expected = part.pop("expected", None)
        if expected is not None and "pattern" in part:
            # Editors show it in place of the pattern.
            part["patternErrorMessage"] = f"expected {expected}"
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Agents catalog",
        "description": "The agents that a server serves.",
        "type": "object",
        "required": ["agents"],
        "additionalProperties": False,
        "properties": {
            "agents": {
                "type": "array",
                "title": "Agents",
                "description": "One entry for each agent; only `id` is required.",
                "items": {"$ref": "#/$defs/AgentSettings"},
            }
        },
        "$defs": definitions,
    }


def _say_what_validators_check(entry: JsonSchema) -> None:
    """Add what the models check in code, which pydantic's schema of them does not have."""
    keys = entry["properties"]
    keys["class_path"]["examples"] = list(SHIPPED_CLASSES)
    icon = next(option for option in keys["icon"]["anyOf"] if option["type"] == "string")
    icon |= {"minLength": 1, "maxLength": 12}
    _or_words(keys["stream"], "all", "final_only")
    tools = {"type": "array", "items": {**keys["require_approval"].pop("items"), "not": {"const": "all"}}}
    del keys["require_approval"]["type"]
    keys["require_approval"]["anyOf"] = [{"const": "all"}, tools]
    keys["prompt"]["anyOf"] = [
        {"type": "string", "minLength": 1, "maxLength": LONGEST_PROMPT},
        {"$ref": "#/$defs/Prompt"},
        {"type": "null"},
    ]
    keys["crew"]["examples"] = [["sentinel", "documentation"]]
    entry["if"] = {"required": ["crew"], "properties": {"crew": {"minItems": 1}}}
    entry["then"] = {"required": ["type"], "properties": {"type": {"const": "leader"}}}


def _say_what_applications_take(definitions: JsonSchema, keys: ApplicationKeys) -> None:
    tuning = definitions["AgentTuning"]
    for name, model in keys.models.items():
        try:
            schema = model.model_json_schema(ref_template=f"#/$defs/{name}.{{model}}")
        except Exception:
            # The model is an author's code; what it takes is found when the entry is read.
            continue
        definitions |= {f"{name}.{each}": part for each, part in schema.pop("$defs", {}).items()}
        tuning["properties"][name] = schema
    if keys.are_all and len(tuning["properties"]) == len(AgentTuning.model_fields) + len(keys.models):
        tuning["additionalProperties"] = False


def _or_words(key: JsonSchema, *words: str) -> None:
    key["anyOf"] = [{"enum": list(words)}, {"$ref": key.pop("$ref")}]


def _parts(value: Any) -> Iterator[JsonSchema]:
    """Each mapping within a schema."""
    if isinstance(value, dict):
        yield value
    if isinstance(value, dict | list):
        for inner in list(value.values()) if isinstance(value, dict) else value:
            yield from _parts(inner)
