"""The settings of HTTP APIs: where each is, what describes its operations, what it is told of the user."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Self

from pydantic import Field, StringConstraints, model_validator

from agentic_backend.config.setting_types import HttpUrl, Seconds, Section
from agentic_backend.config.topics.mcp_servers import McpAuthSettings
from agentic_backend.config.topics.permissions import ToolNeeds
from agentic_backend.config.yaml.validation_problems import rule_broken


class ApiSettings(Section):
    document: Annotated[str, StringConstraints(min_length=1, max_length=2_000)] = Field(
        description="The API's OpenAPI 3 document, in JSON or YAML: a path, or a URL, which gets no credentials."
    )
    base_url: HttpUrl = Field(
        description="Where the API is. Requests, and so the credentials, go nowhere else, whatever the document says."
    )
    auth: McpAuthSettings = Field(
        McpAuthSettings(), description="What each request carries, as for MCP servers: nothing, a token, or a header."
    )
    timeout_s: Seconds = Field(30, description="How long a request may take with its answer, in seconds.")
    max_response_bytes: Annotated[int, Field(ge=1_000, le=10_000_000)] = Field(
        100_000, description="Bytes of an answer that the model reads; the rest is cut, with a note."
    )
    permissions: ToolNeeds = Field(
        {}, description="Permissions that the API's operations need, by the tool's name or by a pattern of names."
    )

    @model_validator(mode="after")
    def _paths_follow_its_base(self) -> Self:
        if "?" in self.base_url or "#" in self.base_url:
            raise rule_broken("paths follow this URL, so it has neither '?' nor '#'", "base_url")
        return self

    @property
    def is_fetched(self) -> bool:
        """Whether the document is behind a URL."""
        return self.document.startswith(("http://", "https://"))


NO_APIS: Mapping[str, ApiSettings] = MappingProxyType({})
