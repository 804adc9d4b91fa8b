"""The types of settings. If the JSON Schema of a type makes a bad error text, its key `expected` describes the type."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

Port = Annotated[int, Field(ge=0, le=65535)]
Seconds = Annotated[float, Field(gt=0, le=3600)]
RunSeconds = Annotated[float, Field(gt=0, le=604_800)]
Count = Annotated[int, Field(ge=1, le=1_000_000)]
Bytes = Annotated[int, Field(ge=1024, le=64 * 1024 * 1024)]
AnyPath = Annotated[Path, Field(strict=False)]
Host = Annotated[str, StringConstraints(min_length=1, pattern=r"^[^\s/]+$")]
WebOrigin = Annotated[
    str, Field(pattern=r"^https?://[^\s/]+$", json_schema_extra={"expected": "an origin such as 'https://example.org'"})
]
HostName = Annotated[
    str, Field(pattern=r"^[^\s/:]+$", json_schema_extra={"expected": "a name without port such as 'chat.example.org'"})
]
NonEmpty = Annotated[str, StringConstraints(min_length=1)]
RealmUrl = Annotated[
    str,
    Field(
        pattern=r"^https?://[^\s/?#]+(/[^\s/?#]+)*/realms/[^\s/?#]+$",
        json_schema_extra={"expected": "a URL such as 'https://login.example.org/realms/agentic'"},
    ),
]
SigningAlgorithm = Literal["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]
_NAME = StringConstraints(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$")
ModelName = Annotated[str, _NAME]
McpServerId = Annotated[str, _NAME]
HttpUrl = Annotated[
    str,
    Field(
        pattern=r"^https?://[^\s/@]+(/\S*)?$",
        json_schema_extra={"expected": "a URL such as 'https://example.org/mcp', without user and password"},
    ),
]
_LABEL = "[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
APP_HOST = (
    rf"((https|wss)://([*][.])?({_LABEL}[.])+[a-z]([a-z0-9-]{{0,61}}[a-z0-9])?"
    r"|(https?|wss?)://(localhost|127[.]0[.]0[.]1))(:[0-9]{1,5})?"
)
"""A host in a content security policy: an origin, or all names below a host. Of addresses, this machine's only."""
AppHost = Annotated[
    str,
    Field(
        pattern=f"^{APP_HOST}$",
        max_length=100,
        json_schema_extra={
            "expected": "an origin such as 'https://cdn.example.org', 'https://*.example.org' or 'wss://example.org', "
            "in lower case and without a path"
        },
    ),
]
HeaderName = Annotated[
    str,
    Field(pattern=r"^[A-Za-z0-9-]+$", json_schema_extra={"expected": "the name of a header such as 'Authorization'"}),
]
VariableName = Annotated[
    str,
    Field(
        pattern=r"^[A-Za-z_][A-Za-z0-9_]*$",
        json_schema_extra={"expected": "the name of an environment variable such as 'SEARCH_API_KEY'"},
    ),
]

TypeName = Annotated[
    str,
    Field(
        pattern=r"^\w+(\.\w+)*$",
        max_length=500,
        json_schema_extra={"expected": "a class or a module such as 'acme.agents.Order' or 'acme.agents'"},
    ),
]

ClassPath = Annotated[
    str,
    Field(
        pattern=r"^[^\W\d]\w*(\.[^\W\d]\w*)*[:.][^\W\d]\w*$",
        json_schema_extra={"expected": "a path such as 'package.module:name'"},
    ),
]
ScopeId = Annotated[str, StringConstraints(min_length=1, max_length=128)]

PROVIDER_MODEL = r"[a-z0-9_-]+:\S+"
"""A model as `provider:model`, in the format of LangChain's `init_chat_model`."""


class Section(BaseModel):
    """A group of settings. Strict: a text is no number, and a boolean is not 1."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
