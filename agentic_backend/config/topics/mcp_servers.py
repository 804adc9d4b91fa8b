"""The settings of MCP servers: how each is reached, what it is told of the user, how long it may take and stay."""

from typing import Literal, Self

from pydantic import Field, model_validator

from agentic_backend.config.setting_types import AnyPath, AppHost, HeaderName, HttpUrl, Seconds, Section, VariableName
from agentic_backend.config.topics.permissions import ToolNeeds
from agentic_backend.config.yaml.validation_problems import rule_broken


class McpAuthSettings(Section):
    mode: Literal["none", "user_token", "token_exchange", "header"] = Field(
        "none",
        description="What each request carries: nothing, the user's access token, one exchanged for `audience`, or the "
        "header `header`.",
    )
    audience: str | None = Field(
        None, min_length=1, description="The audience that `token_exchange` gets a token for (RFC 8693)."
    )
    header: HeaderName | None = Field(None, description="The header that `header` sends.")
    environment: VariableName | None = Field(
        None, description="The environment variable whose value `header` sends as it is."
    )

    @property
    def is_of_user(self) -> bool:
        """Whether requests carry a token of the user."""
        return self.mode in ("user_token", "token_exchange")

    @model_validator(mode="after")
    def _each_mode_has_what_it_needs(self) -> Self:
        needed = {"token_exchange": {"audience"}, "header": {"header", "environment"}}.get(self.mode, set())
        for name in ("audience", "header", "environment"):
            given = getattr(self, name) is not None
            if given and name not in needed:
                raise rule_broken(f"the mode {self.mode!r} has no {name}", name)
            if not given and name in needed:
                raise rule_broken(f"the mode {self.mode!r} needs {name}", "mode")
        return self


class McpServerSettings(Section):
    transport: Literal["stdio", "streamable_http", "sse"] = Field(
        "streamable_http", description="How the server is reached; `stdio` starts `command`."
    )
    url: HttpUrl | None = Field(None, description="Where the server is; not for `stdio`.")
    auth: McpAuthSettings = Field(McpAuthSettings(), description="What the server is told of the user.")
    command: str | None = Field(None, min_length=1, description="The program that `stdio` starts.")
    args: tuple[str, ...] = Field((), strict=False, description="The program's arguments.")
    env: dict[str, str] = Field(
        default_factory=dict,
        repr=False,
        description="The program's environment beside PATH, HOME and the like; it sees nothing else of the server's.",
    )
    cwd: AnyPath | None = Field(None, description="The program's working directory; `null` is the server's.")
    connect_timeout_s: Seconds = Field(20, description="How long connecting may take, in seconds.")
    tool_timeout_s: Seconds = Field(60, description="How long one of its tools may run, in seconds; then it is cut.")
    idle_s: Seconds | None = Field(
        300,
        description="How long the program of `stdio` may wait for a call, in seconds; then it ends, and the next call "
        "starts it again, and so may take up to 6 s + `connect_timeout_s` + `tool_timeout_s`. `null`: it never ends "
        "so.",
    )
    shared: bool = Field(
        False,
        description="Whether all agents and users of one process share one session with the server, and so one "
        "program of `stdio`; not for a server that is told the user's token.",
    )

    apps: bool = Field(
        True,
        description="Whether the page shows the results of its tools in the HTML documents that the server has for "
        "them (MCP Apps).",
    )
    app_hosts: tuple[AppHost, ...] = Field(
        (),
        strict=False,
        max_length=50,
        description="The hosts that these documents may load from and talk to, as far as they declare them. What a "
        "document is given may go there.",
    )

    permissions: ToolNeeds = Field(
        {}, description="Permissions that the server's tools need, by the tool's name or by a pattern of names."
    )

    @model_validator(mode="after")
    def _each_transport_has_what_it_needs(self) -> Self:
        is_local = self.transport == "stdio"
        needed, others = ("command", ("url",)) if is_local else ("url", ("command", "args", "env", "cwd", "idle_s"))
        if not getattr(self, needed):
            raise rule_broken(f"the transport {self.transport!r} needs {needed}", "transport")
        for name in others:
            if getattr(self, name) != McpServerSettings.model_fields[name].get_default(call_default_factory=True):
                raise rule_broken(f"the transport {self.transport!r} has no {name}", name)
        if is_local and self.auth.mode != "none":
            raise rule_broken("the transport 'stdio' has no requests to carry a token", "auth")
        return self

    @model_validator(mode="after")
    def _a_token_is_not_shared(self) -> Self:
        if self.shared and self.auth.is_of_user:
            raise rule_broken(f"a session with the auth {self.auth.mode!r} belongs to one user", "shared")
        return self
