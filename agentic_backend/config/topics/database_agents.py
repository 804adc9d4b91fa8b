"""Settings of the agents that are kept in the database, beside those of the YAML catalog."""

from typing import Annotated, Literal

from pydantic import Field

from agentic_backend.config.setting_types import Section

CodePattern = Annotated[
    str,
    Field(
        pattern=r"^[\w*]+(\.[\w*]+)*(:[\w*]+)?$",
        max_length=500,
        json_schema_extra={"expected": "a pattern such as 'acme.agents:*' or 'acme.agents.*'"},
    ),
]

SAFE_CLASSES = (
    "agentic_backend.experts.configured.configured_agent:ConfiguredAgent",
    "agentic_backend.experts.configured.configured_leader:ConfiguredLeader",
    "agentic_backend.experts.assistant.assistant:Assistant",
    "agentic_backend.experts.plain_chat.graph:build",
    "agentic_backend.experts.team.team_leader:TeamLeader",
)
"""The shipped classes that read neither files nor the server's log."""


class DatabaseAgentsSettings(Section):
    enabled: bool = Field(
        False,
        description="Whether admins may keep agents in the database too, and they are served. These may use every "
        "model, HTTP API and MCP server of the settings, with its credentials.",
    )
    wins: Literal["yaml", "database"] = Field(
        "yaml", description="Which agent is served where the catalog and the database have the same id."
    )
    classes: tuple[CodePattern, ...] = Field(
        SAFE_CLASSES,
        strict=False,
        max_length=1_000,
        description="Python code that agents of the database may name: classes, graphs, tools and middleware, as "
        "`module:name` or `module.name`, where `*` stands for any text. Admins can run all that it lets in.",
    )
    look_every_s: Annotated[float, Field(ge=0.05, le=3600)] = Field(
        2, description="How often each instance looks for changes that others have made, in seconds."
    )
