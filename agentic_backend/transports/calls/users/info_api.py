"""The REST calls that tell what this server is (versions, doors, limits, features, deprecations) and how to sign in."""

from collections.abc import Callable, Sequence
from datetime import date
from functools import cached_property
from importlib.metadata import version
from typing import Any, Literal, Self

from pydantic import Field

from agentic_backend.attachments.kinds import taken_types
from agentic_backend.auth.user import User
from agentic_backend.config.topics.limits import LimitsSettings
from agentic_backend.protocol.parts import Value, absent
from agentic_backend.transports.contract.doors import DOORS, Door
from agentic_backend.transports.door_services import DoorServices
from agentic_backend.transports.rest.deprecation import Deprecation
from agentic_backend.transports.rest.operation import PREFIX, Operation
from agentic_backend.transports.rest.query_string import PageSize
from agentic_backend.transports.sign_in import SignIn

FEATURES = (
    "approvals",
    "archive",
    "attachments",
    "branches",
    "chat_profiles",
    "compaction",
    "exchanges",
    "export",
    "feedback",
    "query",
    "questions",
    "resume",
    "scopes",
    "session_export",
    "session_events",
    "session_list_events",
    "session_search",
    "sharing",
    "token_renewal",
    "trust",
    "usage",
)
"""What a client may switch on because the server has it. docs/protocol.md says what each one means."""
AUTHORS_FEATURES = ("playground",)
"""Those that only developers and admins have."""


class SignInApi:
    """The REST call that tells how to sign in."""

    def __init__(self, services: DoorServices) -> None:
        self._door = services

    def operations(self) -> list[Operation]:
        return [Operation("GET", f"{PREFIX}/sign-in", self.get_sign_in, public=True)]

    async def get_sign_in(self) -> SignIn:
        """How to sign in: where a client gets its access token, if it needs one."""
        return self._door.sign_in


class Versions(Value):
    """`server` is also the version of the documents. `protocols` are the forms that a WebSocket speaks."""

    server: str
    protocols: list[str]
    documents: list[str]


class DoorView(Value):
    """One way in to the server; `paths` are what its paths begin with."""

    name: str = Field(examples=["rest"])
    paths: list[str]
    description: str = Field(examples=["REST calls."])
    subprotocol: str | None = absent()

    @classmethod
    def of(cls, door: Door) -> Self:
        return cls(name=door.name, paths=list(door.paths), description=door.description, subprotocol=door.subprotocol)


class LimitsView(Value):
    """What a client may send, and have at once. A limit that is absent is none."""

    message_bytes: int
    frame_bytes: int
    runtime_context_bytes: int
    asks_per_minute: int | None = absent()
    running_per_user: int | None = absent()
    waiting_per_user: int | None = absent()
    sockets_per_user: int | None = absent()
    requests_per_user: int | None = absent()
    empty_sessions_per_user: int | None = absent()
    attachment_bytes: int
    attachment_text_chars: int
    attachment_pixels: int
    attachments_per_ask: int
    attachments_per_user_bytes: int
    attachment_unsent_h: float
    uploads_per_user: int | None = absent()
    uploads_per_minute: int | None = absent()
    authenticate_timeout_s: float
    send_timeout_s: float
    human_timeout_s: float | None = absent()

    @classmethod
    def of(cls, limits: LimitsSettings) -> Self:
        return cls(**{name: getattr(limits, name) for name in cls.model_fields})


class PageSizeView(Value):
    """How many entries a page has by default, and at most."""

    default: int
    at_most: int


class SharingView(Value):
    """After how many days a link to a session expires by default, and at most."""

    default_days: int
    longest_days: int


class DeprecatedOperation(Value):
    """An operation that will go."""

    operation_id: str
    method: str
    path: str = Field(examples=["/agentic/v1/chatbot/sessions"])
    use: str
    """What to use instead."""
    since: date
    """The day on which it was deprecated."""
    sunset: date | None = absent()
    """The day on which it goes, where that is set."""

    @classmethod
    def of(cls, operation: Operation, deprecation: Deprecation) -> Self:
        return cls(
            operation_id=operation.id,
            method=operation.method,
            path=operation.path,
            use=deprecation.use,
            since=deprecation.since,
            sunset=deprecation.sunset,
        )


class PanelView(Value):
    """A panel of an application's, which the page shows in a frame; `may` is what it may do in the conversation."""

    name: str = Field(examples=["board"])
    title: str = Field(examples=["Board"])
    path: str = Field(examples=["/apps/notes/panels/board.html"])
    """The path of its document."""
    place: Literal["beside", "instead", "sidebar", "part"]
    """Beside the conversation, instead of it, in the sidebar, or where a custom part is shown."""
    part: str | None = absent()
    """The kind of the custom parts."""
    may: list[Literal["ask", "decide", "follow"]]
    preview: str | None = absent()
    """The operation that tells in words what a link opens in it: `panel_data` is its body, `text` what it answers."""


class ApplicationView(Value):
    """An application; `openapi` is the path of the document of its calls, `panels` are those that the caller sees."""

    id: str = Field(examples=["notes"])
    title: str = Field(examples=["Notes"])
    version: str = Field(examples=["1.0.0"])
    openapi: str = Field(examples=["/apps/notes/openapi.json"])
    panels: list[PanelView]


class ServerInfo(Value):
    """`page_sizes` are those of `limit` by operation id, `attachment_types` the media types of attachments,
    `applications` those that serve now."""

    versions: Versions
    doors: list[DoorView]
    limits: LimitsView
    page_sizes: dict[str, PageSizeView]
    attachment_types: list[str] = Field(examples=[["image/png", "application/pdf", "text/plain"]])
    features: list[str]
    applications: list[ApplicationView]
    deprecations: list[DeprecatedOperation]
    sharing: SharingView | None = absent()
    """Absent if sessions can't be shared."""
    is_admin: Literal[True] | None = absent()
    """Whether the caller may use the calls below `/admin`; absent for others."""


class InfoApi:
    def __init__(
        self,
        services: DoorServices,
        others: Sequence[Operation],
        applications: Callable[[User], Sequence[ApplicationView]] = lambda user: (),
    ) -> None:
        """`others` are the operations that are told of, `applications` tells a user those that serve now."""
        self._door = services
        self._others = others
        self._applications = applications

    def operations(self) -> list[Operation]:
        return [Operation("GET", f"{PREFIX}/info", self.get_info)]

    async def get_info(self, user: User) -> ServerInfo:
        """What this server is: its versions, doors, limits, features, applications and deprecations."""
        info = self._info_of_authors if user.sees_details else self._info
        found: dict[str, Any] = {"applications": list(self._applications(user))}
        return info.model_copy(update=found | ({"is_admin": True} if user.is_admin else {}))

    @cached_property
    def _info_of_authors(self) -> ServerInfo:
        return self._info.model_copy(update={"features": sorted([*self._info.features, *AUTHORS_FEATURES])})

    @cached_property
    def _info(self) -> ServerInfo:
        """Made once: the version is read from a file, and nothing of it changes but the applications."""
        sharing = self._door.sessions.sharing.settings
        return ServerInfo(
            versions=Versions(
                server=version("agentic-backend"),
                protocols=["chat.v2", "classic"],
                documents=["/asyncapi.json", "/openapi.json"],
            ),
            doors=[DoorView.of(door) for door in DOORS if not door.by_setting or door.name in self._door.doors],
            limits=LimitsView.of(self._door.limits),
            page_sizes={each.id: size for each in self._others if (size := _page_size(each)) is not None},
            attachment_types=taken_types(),
            features=[name for name in FEATURES if name != "sharing" or sharing.enabled],
            applications=[],
            deprecations=[
                DeprecatedOperation.of(each, each.deprecated) for each in self._others if each.deprecated is not None
            ],
            sharing=SharingView(default_days=sharing.default_days, longest_days=sharing.longest_days)
            if sharing.enabled
            else None,
        )


def _page_size(operation: Operation) -> PageSizeView | None:
    if operation.query is None or (field := operation.query.model_fields.get("limit")) is None:
        return None
    bounds = [each for each in field.metadata if isinstance(each, PageSize)]
    return PageSizeView(default=field.default, at_most=bounds[0].at_most) if bounds else None
