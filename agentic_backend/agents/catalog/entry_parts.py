"""The parts of a catalog entry that make an agent without code of its own."""

import re
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema, model_validator

from agentic_backend.config.yaml.validation_problems import near_miss, rule_broken

CONFIGURED_AGENT = "agentic_backend.experts.configured.configured_agent:ConfiguredAgent"
CONFIGURED_LEADER = "agentic_backend.experts.configured.configured_leader:ConfiguredLeader"
"""The classes of agents that an entry alone makes."""

LONGEST_PROMPT = 200_000
"""Characters of a system prompt."""

STANDARD_TOOLS = (
    "current_time",
    "create_todo",
    "list_todos",
    "create_note",
    "list_notes",
    "assignment_info",
    "search_sessions",
    "background_result",
)
_CODE_NAME = r"^[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*$"


def is_code_name(name: str) -> bool:
    """Whether `name` is `module:name`, which names something in Python code."""
    return re.fullmatch(_CODE_NAME, name) is not None


def _tool_name(value: str) -> str:
    if value in STANDARD_TOOLS or is_code_name(value):
        return value
    hint = near_miss(value, STANDARD_TOOLS) or f"; there is {', '.join(STANDARD_TOOLS)}, and functions as 'module:name'"
    raise rule_broken(f"there is no standard tool {value!r}{hint}")


ToolName = Annotated[
    str,
    AfterValidator(_tool_name),
    WithJsonSchema({"anyOf": [{"enum": list(STANDARD_TOOLS)}, {"type": "string", "pattern": _CODE_NAME}]}),
]


RequireApproval = Annotated[
    tuple[Annotated[str, Field(min_length=1, max_length=200)], ...],
    BeforeValidator(lambda value: ("*",) if value == "all" else value),
    Field(
        strict=False,
        max_length=200,
        json_schema_extra={"expected": "a list of tools' names and patterns, or the word 'all'"},
    ),
]


class CatalogPart(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class ApiUse(CatalogPart):
    """An HTTP API whose operations are tools of an agent."""

    id: str = Field(min_length=1, description="The API's id in the setting `apis`.")
    operations: tuple[Annotated[str, Field(min_length=1, max_length=500)], ...] = Field(
        ("*",),
        strict=False,
        min_length=1,
        max_length=200,
        description="The operations that the agent gets: by `operationId` or as `POST /path`, or by a pattern. "
        "One without a method means only operations that read (GET and HEAD).",
    )


class MiddlewareUse(CatalogPart):
    """A middleware of LangChain, or of an author, and what it is made with."""

    name: str = Field(
        min_length=1, description="A class of `langchain.agents.middleware`, or `module:name` of one or of an instance."
    )
    args: dict[str, Any] = Field(
        default_factory=dict, description="Its arguments by name; a model is a name as in the entry's `model`."
    )


class Prompt(CatalogPart):
    """A system prompt: its text, or the file that has it; an entry that is served has the text in any case."""

    text: str | None = None
    file: str | None = Field(
        None, min_length=1, max_length=1_000, description="A text file, by its path from the catalog's folder."
    )

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if self.text is None and self.file is None:
            raise rule_broken(_PROMPT_FORM)
        return self


_PROMPT_FORM = "expected a text, or a mapping with the key 'file'"


def prompt_form(value: object) -> object:
    """A prompt as it stands in an entry, as the fields of `Prompt`."""
    if isinstance(value, Prompt) or value is None:
        return value
    if isinstance(value, str):
        if not value.strip():
            raise rule_broken("the prompt is empty; leave the key out for an agent without one")
        if len(value) > LONGEST_PROMPT:
            raise rule_broken(f"expected a text of at most {LONGEST_PROMPT} characters")
        return {"text": value}
    if not isinstance(value, dict) or "text" in value:
        raise rule_broken(_PROMPT_FORM)
    return value
