"""What an entry of the catalog names outside of itself: Python code, files, models. Pure; imports nothing of it."""

from collections.abc import Iterator, Mapping
from typing import Any

from agentic_backend.agents.catalog.catalog import AgentSettings
from agentic_backend.agents.catalog.entry_parts import is_code_name
from agentic_backend.config.yaml.located_yaml import KeyPath

Reference = tuple[KeyPath, str]
"""The place in the entry, and what stands there."""


def code_names(settings: AgentSettings) -> list[Reference]:
    """Every reference of the entry to Python code, as `module:name`; `class_path` also if it is the default one."""
    return [
        (("class_path",), colon_form(settings.class_path)),
        *((("tools", index), name) for index, name in enumerate(settings.tools) if is_code_name(name)),
        *(
            (("middleware", index, "name"), use.name)
            for index, use in enumerate(settings.middleware)
            if is_code_name(use.name)
        ),
    ]


def code_names_in(value: Any) -> Iterator[Reference]:
    """As `code_names`, of an entry as it was written, which may have any mistake."""
    entry = value if isinstance(value, Mapping) else {}
    if isinstance(name := entry.get("class_path"), str):
        yield ("class_path",), colon_form(name)
    for index, name in enumerate(_list(entry.get("tools"))):
        if isinstance(name, str) and is_code_name(name):
            yield ("tools", index), name
    for index, use in enumerate(_list(entry.get("middleware"))):
        name = use.get("name") if isinstance(use, Mapping) else None
        if isinstance(name, str) and is_code_name(name):
            yield ("middleware", index, "name"), name


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def file_names(settings: AgentSettings) -> list[Reference]:
    """Every file that the entry names in keys of its own; `tuning.fields` belong to the agent's code."""
    file = settings.prompt.file if settings.prompt is not None else None
    return [(("prompt", "file"), file)] if file is not None else []


def colon_form(class_path: str) -> str:
    """`package.module.name` as `package.module:name`."""
    return class_path if ":" in class_path else ":".join(class_path.rsplit(".", 1))
