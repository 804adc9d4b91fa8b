"""HostedApplication: one application, started, called and closed behind a border.

Whatever it does, also while it reads its input or its answer is rendered, ends as its answer, as a refusal of the
server's own classes, or as ApplicationUnavailable.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

from pydantic_core import from_json, to_json
from starlette.responses import Response

from agentic_backend.agents.catalog.catalog import AgentSettings
from agentic_backend.agents.run.authors_calls import AuthorsCalls, CallFailed
from agentic_backend.application_services import ApplicationServices
from agentic_backend.auth.user import User
from agentic_backend.config.topics.permissions import PermissionsSettings, lacked
from agentic_backend.errors import (
    AgenticError,
    AgentUnavailable,
    ApplicationUnavailable,
    ApprovalRequired,
    Forbidden,
    ModelError,
    NotFound,
    RecordConflict,
    StoreUnavailable,
)
from agentic_backend.hosting.declarations import is_name
from agentic_backend.hosting.declared_calls import KNOWN_ERRORS, OPENAPI, DeclaredCall, is_number, prefix_of
from agentic_backend.hosting.declared_panels import DeclaredPanel
from agentic_backend.hosting.declared_work import DeclaredChore, DeclaredHook
from agentic_backend.hosting.event_streams import AuthorsEvents, OpenStreams
from agentic_backend.hosting.event_streams import Border as StreamBorder
from agentic_backend.hosting.hosted_records import HostedRecords
from agentic_backend.hosting.loading import LoadedApplication
from agentic_backend.kpi import Kpi
from agentic_backend.policy.chat_module import ChatModule, ModuleServices, ModuleSettings
from agentic_backend.policy.hook_context import HookContext
from agentic_backend.policy.hook_result import HookResult
from agentic_backend.policy.hooks.module_services import paid_by
from agentic_backend.policy.hooks.modules_file import ModuleEntry, ModuleSpec
from agentic_backend.policy.usage.usage_ledger import Payer, may_pay
from agentic_backend.records.layout import NewerRecord
from agentic_backend.sessions.upkeep.housekeeping import Chore
from agentic_backend.sessions.waiting.consent import HASH, can_be_shown
from agentic_backend.stores.base import Store
from agentic_backend.transports.calls.users.info_api import ApplicationView
from agentic_backend.transports.contract.contract_api import document_answer, document_response
from agentic_backend.transports.rest.operation import Border, Generated, Operation, Streamed
from agentic_backend.transports.sse import EventStream

log = logging.getLogger(__name__)

_START_S, _FORGET_S, _CLOSE_S = 30.0, 300.0, 2.0
_AGAIN_S = 1.0
_MOST_ANSWER_BYTES = 16 * 1024 * 1024
_LONGEST_TEXT = 1_000
_LONGEST_RETRY_S = 3_600

# Outside of the page's frame it does nothing.
_PANEL_HEADERS = {"content-security-policy": "default-src 'none'; sandbox", "cache-control": "no-store"}

_SAY_WHETHER = (AgentUnavailable, ApplicationUnavailable, ModelError, RecordConflict)
"""The classes of which an instance says whether to retry."""


class NotServing(Exception):
    """The application has not started, or is closed."""


class HostedApplication:
    def __init__(
        self,
        loaded: LoadedApplication,
        store: Store,
        kpi: Kpi,
        streams: OpenStreams | None = None,
        permissions: PermissionsSettings | None = None,
    ) -> None:
        """`permissions` are what users with each role have; None grants everything."""
        self.loaded = loaded
        self._permissions = permissions or PermissionsSettings()
        self._streams = streams or OpenStreams()
        self._open = set[AuthorsEvents]()
        """The streams of its events that go on."""
        self.is_serving = False
        """Whether it has started, and is not closed."""
        self._kpi = kpi.applications
        name = f"application:{loaded.id}"
        # Apart, so that calls that hang keep neither its chores nor its end from being called.
        self._lifetime = AuthorsCalls(name)
        self._calls = AuthorsCalls(name)
        self._chores = AuthorsCalls(name)
        self._records = HostedRecords(store, loaded.id, loaded.layouts, self._lifetime)
        self._services: ApplicationServices | None = None
        """What it was given when it was started."""
        self._show(is_serving=False)

    def view_of(self, user: User) -> ApplicationView:
        """The application as this user sees it."""
        loaded = self.loaded
        panels = [panel.view for panel in loaded.panels if panel.is_for(user.roles)]
        return ApplicationView(
            id=loaded.id, title=loaded.title, version=loaded.version, openapi=self._openapi_path, panels=panels
        )

    @property
    def _openapi_path(self) -> str:
        return prefix_of(self.loaded.id) + OPENAPI

    def operations(self) -> list[Operation]:
        async def get_openapi() -> Response:
            """The OpenAPI 3.1 document of the application's calls."""
            return document_response(self.loaded.openapi)

        answer = document_answer("An OpenAPI 3.1 document.")
        document = Operation("GET", self._openapi_path, get_openapi, answer=answer, public=True)
        # The server's own before those of the application, whose paths may have any text for a part.
        return [document, *map(self._panel_operation, self.loaded.panels), *map(self._operation, self.loaded.calls)]

    def _panel_operation(self, panel: DeclaredPanel) -> Operation:
        async def get_panel(user: User) -> Response:
            """The document of a panel, which the page puts into a frame."""
            if not self.is_serving:
                raise self._unavailable()
            # As of a path that is not there: who does not see it does not hear of it.
            if not panel.is_for(user.roles):
                raise NotFound
            return Response(panel.document, headers=_PANEL_HEADERS, media_type="text/html")

        answer = Streamed("text/html", str)
        return Operation("GET", panel.view.path, get_panel, answer=answer, errors=(ApplicationUnavailable, NotFound))

    def operation(self, operation_id: str) -> Operation | None:
        """The application's own operation with this id."""
        found = (call for call in self.loaded.calls if call.operation.id == operation_id)
        return next(map(self._operation, found), None)

    def _operation(self, call: DeclaredCall) -> Operation:
        return call.operation.behind(self._border_of(call))

    async def start(self, services: ApplicationServices) -> None:
        """Start the application, and serve it if it could be."""
        application = self.loaded.application
        self._services = services

        async def started() -> None:
            application.services = services
            await application.start()

        if await self._open_records() and await self._managed("start", started, _START_S):
            self._show(is_serving=True)

    async def forget(self, user_id: str) -> None:
        """Have it let go of what it holds of a user elsewhere, if it serves; what it does wrong holds nobody up.

        Raises StoreUnavailable: what its records say of that is still needed.
        """
        away: list[StoreUnavailable] = []

        async def forgotten() -> None:
            try:
                await self.loaded.application.forget(user_id)
            except StoreUnavailable as error:
                away.append(error)

        if self.is_serving and await self._managed("forget", forgotten, _FORGET_S) and away:
            raise StoreUnavailable

    async def aclose(self) -> None:
        """Close what it has opened. One that fails or takes too long holds nobody up."""
        self._show(is_serving=False)
        for events in self._open:
            events.end(self._unavailable())
        await self._managed("close", self._closed, _CLOSE_S)
        for calls in (self._lifetime, self._calls, self._chores):
            await calls.aclose(_CLOSE_S)
        if self._services is not None:
            await self._services.workers.aclose()

    async def _closed(self) -> None:
        application = self.loaded.application
        try:
            await application.aclose()
        finally:
            # Tasks that it has left get nothing any more.
            application.services = None

    def modules(self) -> list[ModuleSpec]:
        """Its hooks, as modules that are called like the others."""
        return [self._module(hook) for hook in self.loaded.hooks]

    def _module(self, hook: DeclaredHook) -> ModuleSpec:
        # Its name has a colon, as that of no module has.
        entry = ModuleEntry.model_construct(
            name=hook.name,
            class_path=self.loaded.class_path,
            points=(hook.point,),
            priority=hook.priority,
            timeout_s=hook.timeout_s,
            on_failure=hook.on_failure,
        )
        points, is_for = frozenset({hook.point}), partial(self._is_for, hook)
        return ModuleSpec(entry, partial(_HookModule, self, hook), ModuleSettings(), points, is_for)

    def _is_for(self, hook: DeclaredHook, agent: AgentSettings) -> bool:
        if hook.agents == "tuned":
            return self.loaded.id in agent.tuning.of_applications
        return hook.agents == "all" or agent.id in self.loaded.agents

    async def _open_records(self) -> bool:
        """Whether its records are as it declares them, however long that takes."""
        is_told = False
        while True:
            try:
                await self._records.open()
                return True
            except Exception as error:
                if isinstance(error, StoreUnavailable) or (isinstance(error, RecordConflict) and error.retryable):
                    if not is_told:
                        log.warning("application waits for its records", extra={"application": self.loaded.id})
                    is_told = True
                    await asyncio.sleep(_AGAIN_S)
                    continue
                # Whatever is wrong with one application's records keeps that one from serving.
                self._note("records", error if isinstance(error, CallFailed) else CallFailed(_told(error)))
                return False

    def upkeep(self) -> list[Chore]:
        """The server's own work on its records."""
        if not self.loaded.layouts:
            return []
        return [Chore(f"{self.loaded.id}:records", self._records.upkeep, lambda: self.is_serving)]

    async def do(self, chore: DeclaredChore) -> None:
        """Raises CallFailed."""
        await self._chores.done(chore.work, chore.timeout_s, {"application": self.loaded.id, "chore": chore.name})

    async def _managed(self, what: str, method: Callable[[], Awaitable[None]], timeout_s: float) -> bool:
        """Whether a method of its lifetime has ended well."""
        try:
            await self._lifetime.done(method, timeout_s, {"application": self.loaded.id})
        except CallFailed as error:
            self._note(what, error)
            return False
        return True

    def _note(self, step: str, failed: CallFailed) -> None:
        told = {"application": self.loaded.id, "step": step, "error": failed.error, "where": failed.where}
        log.error("application failed", extra=told)

    def _show(self, *, is_serving: bool) -> None:
        self.is_serving = is_serving
        self._kpi.up(self.loaded.id, is_up=is_serving)

    def _unavailable(self) -> ApplicationUnavailable:
        return ApplicationUnavailable(f"The application '{self.loaded.title}' is not available.")

    def _border_of(self, declared: DeclaredCall) -> Border:
        async def border(user: User, answered: Callable[[], Awaitable[Response]]) -> Response:
            if not self.is_serving:
                raise self._unavailable()
            if declared.roles and not declared.roles & user.roles:
                raise Forbidden(f"You may not make this call of the application '{self.loaded.title}'.")
            if lacking := lacked(self._permissions.granted_to(user.roles), declared.permissions):
                raise Forbidden(f"This needs permissions that you don't have: {', '.join(lacking)}.")
            fields = {"application": self.loaded.id, "operation": declared.operation.id, "user_id": user.id}
            # Also where the handler forgets to say for whom it asks a model.
            with paid_by(Payer(user.id, may_pay(user.groups, user.scope))):
                if declared.events:
                    return await self._stream(user, answered, declared, fields)
                return await self._answer(answered, declared.timeout_s, fields)

        return border

    async def _stream(
        self,
        user: User,
        answered: Callable[[], Awaitable[Response]],
        declared: DeclaredCall,
        fields: Mapping[str, object],
    ) -> Response:
        """The events of a call that streams; what goes wrong before the first one is raised."""
        with self._streams.connections.stream(user.id) as place:
            begun = await self._answer(answered, declared.timeout_s, fields)
            if not isinstance(begun, Generated):
                return begun
            border = StreamBorder(self._calls, fields, declared.timeout_s, _refusal, partial(self._failed, fields))
            events = AuthorsEvents(begun.generator, declared.events, border)
            self._open.add(events)
            place.callback(self._open.discard, events)
            try:
                await events.begin()
                events.follow(user, self._streams.drain)
            except BaseException:
                await events.aclose()
                raise
            return EventStream(events, place.pop_all())

    async def _answer(
        self, answered: Callable[[], Awaitable[Response]], timeout_s: float, fields: Mapping[str, object]
    ) -> Response:
        async def call() -> Response | CallFailed:
            response = await answered()
            return response if len(response.body) <= _MOST_ANSWER_BYTES else CallFailed("AnswerTooLarge")

        response: Response = await self._called(call, timeout_s=timeout_s, fields=fields)
        return response

    async def _called(
        self,
        call: Callable[[], Awaitable[Any]],
        *,
        timeout_s: float,
        fields: Mapping[str, object],
    ) -> Any:
        """What the call answers. Raises an AgenticError of the server's own."""

        async def caught() -> Any:
            try:
                return await call()
            except AgenticError as error:
                return _refusal(error)

        try:
            answer = await self._calls.result(caught, timeout_s, fields)
        except CallFailed as failure:
            raise self._failed(fields, failure) from None
        if isinstance(answer, AgenticError):
            raise answer
        return answer

    def _failed(self, fields: Mapping[str, object], failure: CallFailed) -> ApplicationUnavailable:
        """Log a failure; what the client is told of it."""
        self._kpi.failed(self.loaded.id)
        log.error("application failed", extra={**fields, "error": failure.error, "where": failure.where})
        content = f"The application '{self.loaded.title}' has failed."
        return ApplicationUnavailable(content, retryable=failure.was_away)


def _told(error: Exception) -> str:
    """The error's type, and its words if they are the server's own."""
    is_ours = isinstance(error, NewerRecord | AgenticError)
    return f"{type(error).__name__}: {error}" if is_ours else type(error).__name__


def _refusal(error: AgenticError) -> AgenticError | CallFailed:
    """The refusal in values of the server's own. One that would tell the client to sign in again is none."""
    # By identity: an author's class may say that it equals anything.
    known = next((each for each in KNOWN_ERRORS if each is type(error)), None)
    if known is None or known.http_status == 401:
        return CallFailed("UnknownError" if known is None else known.__name__)
    if isinstance(error, ApprovalRequired):
        return _asked_approval(error)
    content = error.args[0] if error.args and type(error.args[0]) is str else known.default
    told = content[:_LONGEST_TEXT].encode(errors="replace").decode()
    retry_s = error.retry_after_s
    is_time = is_number(retry_s) and 0 < retry_s <= _LONGEST_RETRY_S
    retryable = error.retryable if known in _SAY_WHETHER and type(error.retryable) is bool else None
    return known(told, retry_after_s=retry_s if is_time else None, retryable=retryable)


def _asked_approval(error: ApprovalRequired) -> AgenticError | CallFailed:
    """The same in values of the server's own, which `require_consent` has made."""
    asked_by, title, data, sha256 = error.asked_by, error.title, error.data, error.sha256
    is_ours = is_name(asked_by) and type(sha256) is str and HASH.fullmatch(sha256)
    if not is_ours or not can_be_shown(title, data):
        return CallFailed("ApprovalRequired")
    return ApprovalRequired(asked_by=asked_by, title=title, data=from_json(to_json(data)), sha256=sha256)


class _HookModule(ChatModule):
    """A hook of an application, as a module."""

    def __init__(
        self, hosted: HostedApplication, hook: DeclaredHook, settings: ModuleSettings, services: ModuleServices
    ) -> None:
        super().__init__(settings, services)
        self._hosted = hosted
        self._hook = hook

    async def _called(self, context: HookContext) -> HookResult:
        if not self._hosted.is_serving:
            raise NotServing
        result: HookResult = await self._hook.work(context)
        return result

    session_start = session_end = on_message = before_ai = after_ai = tool_result = _called
