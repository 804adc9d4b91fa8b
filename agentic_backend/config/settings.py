"""All settings, grouped by topic.

The command line loads them once (see `loading`); every component gets the values that it needs, which never change. The
fields' descriptions are the documentation (docs/settings.md). Relative paths are relative to the working directory.
"""

import re
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, field_validator, model_validator

from agentic_backend.config.setting_types import (
    PROVIDER_MODEL,
    AnyPath,
    Bytes,
    Count,
    Host,
    HostName,
    McpServerId,
    ModelName,
    NonEmpty,
    Port,
    RealmUrl,
    ScopeId,
    Seconds,
    Section,
    SigningAlgorithm,
    TypeName,
    WebOrigin,
)
from agentic_backend.config.topics.apis import ApiSettings
from agentic_backend.config.topics.applications import ApplicationEntry
from agentic_backend.config.topics.chat_profiles import ChatProfilesSettings
from agentic_backend.config.topics.database_agents import DatabaseAgentsSettings
from agentic_backend.config.topics.embeddings import EmbeddingSettings
from agentic_backend.config.topics.limits import WITH_USERS, LimitsSettings
from agentic_backend.config.topics.mcp_servers import McpServerSettings
from agentic_backend.config.topics.observability import HealthSettings, TracingSettings
from agentic_backend.config.topics.page import PageSettings
from agentic_backend.config.topics.permissions import PermissionsSettings
from agentic_backend.config.topics.policies import ModulesSettings, PoliciesSettings
from agentic_backend.config.topics.sessions import (
    DeletionsSettings,
    RetentionSettings,
    SessionsSettings,
    SharingSettings,
    TitlesSettings,
)
from agentic_backend.config.topics.usage import BudgetsSettings, PriceSettings
from agentic_backend.config.usable_cores import MOST_WORKERS, as_workers
from agentic_backend.config.yaml.validation_problems import rule_broken
from agentic_backend.protocol.scopes import ScopeName

SQLITE_SCHEME, MONGODB_SCHEMES = "sqlite:", ("mongodb://", "mongodb+srv://")

_REDIS_URL = re.compile(r"rediss?://([^\s@/?#]*@)?(\[[^\s\]]+\]|[^\s@/?#:\[]+)(:\d{1,5})?(/\d{0,9})?(\?[^\s#]*)?")

INTERNAL_PORT_OFFSET = 1000


class ServerSettings(Section):
    host: Host = Field("127.0.0.1", description="Address that the server listens on.")
    port: Port = Field(8000, description="Port that the server listens on; 0 takes any free one.")
    internal_host: Host = Field(
        "127.0.0.1", description="Address of the internal listener, which serves metrics and health to the inside."
    )
    internal_port: Port | None = Field(
        None,
        description="Port of the internal listener; `null` is `server.port` + 1000, or any free one where that is 0; "
        "0 switches the listener off.",
    )
    allowed_origins: tuple[WebOrigin, ...] = Field(
        (), strict=False, description="Origins whose pages may connect, besides the server's own on loopback."
    )
    allowed_hosts: tuple[HostName, ...] = Field(
        (),
        strict=False,
        description="Names, without port, that a `Host` header may give, besides the server's own; to the internal "
        "listener too.",
    )
    grace_s: Annotated[float, Field(ge=0, le=3600)] = Field(
        60, description="How long running exchanges may go on when the server is told to stop, in seconds."
    )
    workers: Annotated[int, BeforeValidator(as_workers), Field(ge=1, le=MOST_WORKERS)] = Field(
        1,
        description="Processes that serve the one port, each an instance of its own; the internal listener tells of "
        "all together. `auto` is one for each core that the server may use.",
    )

    doors: tuple[Literal["openai", "mcp", "ag-ui"], ...] = Field(
        ("openai",),
        strict=False,
        description="The doors for clients of other products that are open, beside the server's own; without one of "
        "these, nothing of it is loaded.",
    )
    mcp_agents: tuple[NonEmpty, ...] = Field(
        (),
        strict=False,
        description="The ids of the agents that the door `mcp` shows as tools; empty: all that its caller may ask.",
    )

    @property
    def internal_listener_port(self) -> int | None:
        """The port to bind for the internal listener: None if it is off, 0 for any free port."""
        if self.internal_port is None:
            return self.port + INTERNAL_PORT_OFFSET if self.port else 0
        return self.internal_port or None

    @model_validator(mode="after")
    def _internal_port_is_free(self) -> Self:
        port = self.internal_listener_port
        if port and port > 65535:
            raise rule_broken("port + 1000 is no port: set server.internal_port too", "port")
        if port and port == self.port and self.internal_host == self.host:
            raise rule_broken("the internal listener needs another port than server.port", "internal_port")
        return self


class DeveloperSettings(Section):
    user: str = Field("developer", min_length=1, max_length=128, description="The user that every request acts as.")
    allow_remote: bool = Field(
        False, description="Lets developer authentication listen on other addresses than loopback: trusts everybody."
    )
    groups: tuple[NonEmpty, ...] = Field((), strict=False, description="The groups of every user.")
    scope: dict[ScopeName, ScopeId] = Field(
        {}, description="The scope of every user, such as `organisation: acme`, as a token's claims give it elsewhere."
    )


class KeycloakSettings(Section):
    realm_url: RealmUrl | None = Field(
        None, description="URL of the realm, as browsers reach it; tokens must name it as their issuer."
    )
    internal_url: RealmUrl | None = Field(
        None, description="URL of the realm, as the server reaches it; `null` is `auth.keycloak.realm_url`."
    )
    client_id: NonEmpty = Field("agentic-chat", description="The client that users sign in with.")
    client_secret: NonEmpty | None = Field(
        None, repr=False, description="Its secret; `null` for a public client. Set it in the environment."
    )
    audience: NonEmpty | None = Field(
        None,
        description="What a token's `aud` must contain; `null` takes any token that `auth.keycloak.client_id` got.",
    )
    required_roles: tuple[NonEmpty, ...] = Field(
        (), strict=False, description="Roles, of the realm or the client, all of which a user needs to get in."
    )
    admin_role: NonEmpty = Field(
        "admin", description="The role, of the realm or the client, of those who may read what others say and spend."
    )
    groups_claim: NonEmpty = Field(
        "groups", description="The claim, as a dotted path into the token, that lists the user's groups."
    )
    scopes: dict[ScopeName, NonEmpty] = Field(
        {},
        description="The claims that name the user's scope, as dotted paths into the token by kind: `organisation`, "
        "`class`, `task`, `assignment`.",
    )
    algorithms: tuple[SigningAlgorithm, ...] = Field(
        ("RS256",), strict=False, description="Algorithms that tokens may be signed with."
    )
    leeway_s: Annotated[float, Field(ge=0, le=300)] = Field(
        30, description="How far the clocks of Keycloak and the server may be apart, in seconds."
    )
    exchange_client_id: NonEmpty | None = Field(
        None,
        description="The confidential client that trades users' tokens for those of other services; `null` is "
        "`auth.keycloak.client_id`.",
    )
    exchange_client_secret: NonEmpty | None = Field(
        None, repr=False, description="The secret of the client that trades tokens. Set it in the environment."
    )


class AuthSettings(Section):
    mode: Literal["developer", "keycloak"] = Field(
        "developer",
        description="How users are told apart: `developer` asks for nothing and trusts everybody, `keycloak` asks for "
        "tokens of a Keycloak realm.",
    )
    developer: DeveloperSettings = Field(DeveloperSettings(), description="The mode `developer`.")
    keycloak: KeycloakSettings = Field(KeycloakSettings(), description="The mode `keycloak`.")

    @model_validator(mode="after")
    def _keycloak_has_a_realm(self) -> Self:
        if self.mode == "keycloak" and self.keycloak.realm_url is None:
            raise rule_broken("auth.mode 'keycloak' needs the URL of a realm", "keycloak", "realm_url")
        return self


class DataSettings(Section):
    directory: AnyPath = Field(Path("data"), description="Directory of the database; made if it isn't there.")


class StoreSettings(Section):
    url: str | None = Field(
        None,
        repr=False,
        description="The database: `sqlite:` and a file, or a `mongodb://` or `mongodb+srv://` URL, whose path names "
        "the database (`agentic` if it names none); `null` is the file `chat.sqlite3` in `data.directory`.",
    )
    driver: Literal["pymongo", "motor"] = Field("pymongo", description="The driver that MongoDB is reached by.")
    timeout_s: Seconds = Field(5, description="How long one operation of the store may take, in seconds.")

    @field_validator("url")
    @classmethod
    def _is_of_a_known_store(cls, url: str | None) -> str | None:
        # The error doesn't show the URL, which may hold a password.
        if url is not None and not url.startswith((SQLITE_SCHEME, *MONGODB_SCHEMES)):
            raise rule_broken(f"must begin with {SQLITE_SCHEME} or {' or '.join(MONGODB_SCHEMES)}")
        return url


class ModelSettings(Section):
    model: str = Field(
        "auto",
        pattern=f"^(auto|offline|{PROVIDER_MODEL})$",
        json_schema_extra={"expected": "'auto', 'offline' or a model such as 'openai:gpt-5.5'"},
        description="`auto` (`openai_model` if OPENAI_API_KEY is set, else `offline`), `offline` (built in, needs no "
        "network), or `provider:model` as in LangChain's `init_chat_model`.",
    )
    options: dict[str, Any] = Field(
        default_factory=dict,
        repr=False,
        description="What else `init_chat_model` gets, such as `temperature`; keys belong into the environment.",
    )
    context_tokens: Annotated[int, Field(ge=256, le=100_000_000)] | None = Field(
        None,
        description="Most tokens that the model takes, its context window; `null` is what LangChain's profile of the "
        "model says.",
    )
    images: bool | None = Field(
        None,
        description="Whether the model takes images that people attach; `null` is what LangChain's profile of the "
        "model says.",
    )


class AgentsSettings(Section):
    cache_size: Count = Field(256, description="Agents that are kept warm, each for one session.")
    build_timeout_s: Seconds = Field(60, description="How long an agent may take to start, in seconds.")
    close_timeout_s: Seconds = Field(10, description="How long an agent may take to close, in seconds.")
    store_items: Annotated[int, Field(ge=1, le=100_000)] = Field(
        10_000,
        description="Most items of LangGraph's store for each user; as many again for the items that all users share "
        "(`store: shared`).",
    )
    store_bytes: Bytes = Field(16_777_216, description="Most bytes that these items may take, as JSON.")
    blocking_s: Annotated[float, Field(ge=0.05, le=60)] | None = Field(
        0.25,
        description="How long code may block the event loop, in seconds, before the log and the metrics tell of it; "
        "`null` switches this off.",
    )
    state_types: tuple[TypeName, ...] = Field(
        (),
        strict=False,
        max_length=1_000,
        description="Further types that the stored state of agents may hold, beside those that its annotations name: "
        "dataclasses, pydantic models, enums and named tuples as `module.name`, or all of a module as `module`. "
        "Whoever can write to the database can have the server make any value of them.",
    )
    database: DatabaseAgentsSettings = Field(
        DatabaseAgentsSettings(), description="The agents that are kept in the database."
    )


class BroadcastSettings(Section):
    url: str | None = Field(
        None,
        repr=False,
        description="The Redis by which several instances on one database show each other what they run, such as "
        "`redis://host/0`, or `rediss://` with TLS; `null` is for one server, whose workers need none.",
    )

    @field_validator("url")
    @classmethod
    def _is_of_a_redis(cls, url: str | None) -> str | None:
        # The error doesn't show the URL, which may hold a password.
        if url is not None and not _REDIS_URL.fullmatch(url):
            raise rule_broken("must be like redis://host:6379/0 or rediss://host:6379/0")
        return url


class RelaySettings(Section):
    keep_ended_bytes: Annotated[int, Field(ge=0, le=4 * 1024 * 1024 * 1024)] = Field(
        67_108_864, description="Most bytes that the events of ended exchanges may take over all."
    )
    lease_s: Annotated[float, Field(ge=0.3, le=3600)] = Field(
        15,
        description="How long an exchange stays with an instance that gives no sign of life, in seconds; it gives one "
        "every third of that.",
    )


class LogSettings(Section):
    level: Literal["debug", "info", "warning", "error"] = Field(
        "info",
        description="Least level that is logged. At `debug` the texts of agents' exceptions are whole: they may quote "
        "what people said.",
    )
    format: Literal["auto", "json", "console"] = Field(
        "auto",
        description="`json` is one JSON object per line, `console` is for people; `auto` is for people on a terminal, "
        "else JSON.",
    )
    packages: tuple[NonEmpty, ...] = Field(
        (),
        strict=False,
        description="Other packages whose loggers are logged from that level on; all others are from `warning` on.",
    )


class Settings(Section):
    server: ServerSettings = Field(ServerSettings(), description="Where the server listens, and to whom.")
    health: HealthSettings = Field(HealthSettings(), description="When a probe calls the server alive, and ready.")
    auth: AuthSettings = Field(AuthSettings(), description="Who the users are.")
    data: DataSettings = Field(DataSettings(), description="Where data is kept.")
    store: StoreSettings = Field(StoreSettings(), description="The database.")
    page: PageSettings = Field(PageSettings(), description="How the chat page presents itself.")
    catalog: AnyPath | None = Field(
        None, description="The agents catalog; `null` is `./agents_catalog.yaml` if it is there, else the shipped one."
    )
    openai_model: str = Field("gpt-5.4-mini", min_length=1, description="The OpenAI model that a model `auto` takes.")
    models: dict[ModelName, ModelSettings] = Field(
        {}, validate_default=True, description="Chat models by name; `default` is always there."
    )
    embeddings: dict[ModelName, EmbeddingSettings] = Field(
        {},
        description="Embedding models by name, for applications; `default` takes the place of those that applications "
        "bring.",
    )
    fast_streams: bool = Field(
        True,
        description="Whether streams of OpenAI's and Anthropic's packages are read in a faster way with equal results; "
        "a check at the start decides whether the installed releases allow it.",
    )
    mcp_servers: dict[McpServerId, McpServerSettings] = Field(
        {}, description="MCP servers by id, whose tools agents of the catalog may use."
    )
    apis: dict[McpServerId, ApiSettings] = Field(
        {}, description="HTTP APIs by id, whose operations agents of the catalog may use."
    )
    applications: tuple[ApplicationEntry, ...] = Field(
        (),
        strict=False,
        max_length=100,
        description="Applications: `class_path`, `module:name` of a subclass of Application; `settings`, its own; "
        "`enabled: false` keeps one away that an installed package brings.",
    )
    agents: AgentsSettings = Field(AgentsSettings(), description="The agents in memory.")
    limits: LimitsSettings = Field(LimitsSettings(), description="Bounds on what clients, agents and models may take.")
    broadcast: BroadcastSettings = Field(
        BroadcastSettings(), description="How several instances on one database tell each other what they run."
    )
    relay: RelaySettings = Field(RelaySettings(), description="The logs that clients read events from.")
    chat_profiles: ChatProfilesSettings = Field(
        ChatProfilesSettings(), description="How much of a conversation agents are given, and when it is summarised."
    )
    modules: ModulesSettings = Field(ModulesSettings(), description="Modules, which see what passes.")
    titles: TitlesSettings = Field(TitlesSettings(), description="The names of sessions.")
    prices: tuple[PriceSettings, ...] = Field(
        (),
        strict=False,
        max_length=1_000,
        description="What calls of models cost: `model`, a pattern with `*`; `input_per_million`, `output_per_million` "
        "and `cached_input_per_million` tokens; `currency`; `from`, the first day of the price.",
    )
    budgets: BudgetsSettings = Field(BudgetsSettings(), description="How much users and groups may spend.")
    sessions: SessionsSettings = Field(SessionsSettings(), description="How sessions end.")
    sharing: SharingSettings = Field(SharingSettings(), description="Links by which users share sessions.")
    policies: PoliciesSettings = Field(
        PoliciesSettings(), description="What organisations, classes, tasks and assignments set."
    )
    permissions: PermissionsSettings = Field(
        PermissionsSettings(), description="What users may do by way of agents' tools."
    )
    retention: RetentionSettings = Field(RetentionSettings(), description="How long what is stored is kept.")
    deletions: DeletionsSettings = Field(
        DeletionsSettings(), description="The journal of deletions, for databases that are restored."
    )
    log: LogSettings = Field(LogSettings(), description="The server's log.")
    tracing: TracingSettings = Field(TracingSettings(), description="Traces of exchanges, sent to a receiver.")

    @field_validator("models")
    @classmethod
    def _with_default_model(cls, models: dict[str, ModelSettings]) -> dict[str, ModelSettings]:
        return {"default": ModelSettings()} | models

    @model_validator(mode="before")
    @classmethod
    def _users_have_limits(cls, values: Any) -> Any:
        """With Keycloak, replace `auto` and missing limits by numbers. A value that is no mapping is refused later."""
        auth, limits = values.get("auth"), values.get("limits", {})
        if not isinstance(auth, dict) or auth.get("mode") != "keycloak" or not isinstance(limits, dict):
            return values
        resolved = {name: limit for name, limit in WITH_USERS.items() if limits.get(name, "auto") == "auto"}
        return values | {"limits": limits | resolved}

    @model_validator(mode="after")
    def _titles_have_a_model(self) -> Self:
        if self.titles.model is not None and self.titles.model not in self.models:
            raise rule_broken(f"there is no model {self.titles.model!r} in models", "titles", "model")
        return self

    @model_validator(mode="after")
    def _developers_are_local(self) -> Self:
        trusts_everybody = self.auth.mode == "developer"
        if trusts_everybody and not self.auth.developer.allow_remote and not is_loopback(self.server.host):
            message = (
                f"developer authentication trusts everybody who can reach it, so it binds to loopback only, "
                f"not to {self.server.host!r}; auth.mode: keycloak asks who they are, auth.developer.allow_remote: "
                "true or --allow-remote-developer lets everybody in"
            )
            raise rule_broken(message, "server", "host")
        return self


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach `host`: 127.0.0.0/8, ::1, localhost."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"
