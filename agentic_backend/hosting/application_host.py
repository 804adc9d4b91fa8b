"""ApplicationHost: starts the applications beside the server, calls them, and closes them.

Whatever an application does, also while it reads its input or its answer is rendered, ends as its answer, as a refusal
of the server's own classes, or as ApplicationUnavailable. One that starts slowly holds nobody up.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace

from starlette.responses import Response

from agentic_backend.agents.run.authors_calls import AuthorsCalls, CallFailed
from agentic_backend.auth.user import User
from agentic_backend.errors import AgenticError, ApplicationUnavailable, Forbidden
from agentic_backend.hosting.declared_calls import KNOWN_ERRORS, OPENAPI, DeclaredCall, prefix_of
from agentic_backend.hosting.loading import Applications, LoadedApplication
from agentic_backend.kpi import Kpi
from agentic_backend.transports.calls.users.info_api import ApplicationView
from agentic_backend.transports.contract.contract_api import document_answer, document_response
from agentic_backend.transports.rest.operation import Border, Operation

log = logging.getLogger(__name__)

_START_S, _CLOSE_S = 30.0, 2.0
_MOST_ANSWER_BYTES = 16 * 1024 * 1024
_LONGEST_TEXT = 1_000
_LONGEST_RETRY_S = 3_600


class HostedApplication:
    def __init__(self, loaded: LoadedApplication, kpi: Kpi) -> None:
        self.loaded = loaded
        self.is_serving = False
        """Whether it has started, and is not closed."""
        self._kpi = kpi.applications
        self._author: AuthorsCalls[Response | AgenticError | None] = AuthorsCalls(f"application:{loaded.id}")
        self._show(is_serving=False)

    @property
    def view(self) -> ApplicationView:
        loaded = self.loaded
        path = prefix_of(loaded.id) + OPENAPI
        return ApplicationView(id=loaded.id, title=loaded.title, version=loaded.version, openapi=path)

    def operations(self) -> list[Operation]:
        async def get_openapi() -> Response:
            """The OpenAPI 3.1 document of the application's calls."""
            return document_response(self.loaded.openapi)

        calls = [replace(call.operation, border=self._border_of(call)) for call in self.loaded.calls]
        answer = document_answer("An OpenAPI 3.1 document.")
        return [*calls, Operation("GET", self.view.openapi, get_openapi, answer=answer, public=True)]

    async def start(self) -> None:
        """Start the application, and serve it if it could be."""
        if await self._managed("start", self.loaded.application.start, _START_S):
            self._show(is_serving=True)

    async def aclose(self) -> None:
        """Close what it has opened. One that fails or takes too long holds nobody up."""
        self._show(is_serving=False)
        await self._managed("close", self.loaded.application.aclose, _CLOSE_S)
        await self._author.aclose(_CLOSE_S)

    async def _managed(self, what: str, method: Callable[[], Awaitable[None]], timeout_s: float) -> bool:
        """Whether a method of its lifetime has ended well."""

        async def call() -> None:
            await method()

        try:
            await self._author.result(call, timeout_s, {"application": self.loaded.id})
        except CallFailed as error:
            told = {"application": self.loaded.id, "step": what, "error": error.error, "where": error.where}
            log.error("application failed", extra=told)
            return False
        return True

    def _show(self, *, is_serving: bool) -> None:
        self.is_serving = is_serving
        self._kpi.up(self.loaded.id, is_up=is_serving)

    def _border_of(self, declared: DeclaredCall) -> Border:
        async def border(user: User, answered: Callable[[], Awaitable[Response]]) -> Response:
            if not self.is_serving:
                raise ApplicationUnavailable(f"The application '{self.loaded.title}' is not available.")
            if declared.roles and not declared.roles & user.roles:
                raise Forbidden(f"You may not make this call of the application '{self.loaded.title}'.")
            fields = {"application": self.loaded.id, "operation": declared.operation.id, "user_id": user.id}
            return await self._answer(answered, declared.timeout_s, fields)

        return border

    async def _answer(
        self, answered: Callable[[], Awaitable[Response]], timeout_s: float, fields: Mapping[str, object]
    ) -> Response:
        async def call() -> Response | AgenticError | CallFailed:
            try:
                return _checked(await answered())
            except AgenticError as error:
                return _refusal(error)

        try:
            answer = await self._author.result(call, timeout_s, fields)
        except CallFailed as error:
            self._kpi.failed(self.loaded.id)
            log.error("application failed", extra={**fields, "error": error.error, "where": error.where})
            content = f"The application '{self.loaded.title}' has failed."
            raise ApplicationUnavailable(content, retryable=error.was_away) from None
        if isinstance(answer, AgenticError):
            raise answer
        assert answer is not None, "a call is answered"
        return answer


def _checked(response: Response) -> Response | CallFailed:
    # What the server itself has made of a model; another Response could stream for ever.
    if type(response) is not Response:
        return CallFailed("InvalidAnswer")
    return response if len(response.body) <= _MOST_ANSWER_BYTES else CallFailed("AnswerTooLarge")


def _refusal(error: AgenticError) -> AgenticError | CallFailed:
    """The refusal in values of the server's own. One that would tell the client to sign in again is none."""
    known = type(error)
    if known not in KNOWN_ERRORS or known.http_status == 401:
        return CallFailed(known.__name__ if known in KNOWN_ERRORS else "UnknownError")
    content = error.args[0] if error.args and type(error.args[0]) is str else known.default
    retry_s = error.retry_after_s
    is_time = type(retry_s) in (int, float) and retry_s is not None and 0 < retry_s <= _LONGEST_RETRY_S
    return known(content[:_LONGEST_TEXT], retry_after_s=retry_s if is_time else None)


class ApplicationHost:
    def __init__(self, applications: Applications, kpi: Kpi) -> None:
        self._hosted = [HostedApplication(loaded, kpi) for loaded in applications.loaded]
        for class_path in applications.refused:
            kpi.applications.up(class_path, is_up=False)

    def serving(self) -> list[ApplicationView]:
        """Those that serve now."""
        return [hosted.view for hosted in self._hosted if hosted.is_serving]

    def operations(self) -> list[Operation]:
        """The operations of all that were loaded; those of one that does not serve are refused."""
        return [operation for hosted in self._hosted for operation in hosted.operations()]

    @asynccontextmanager
    async def started(self) -> AsyncIterator[None]:
        """Start the applications beside what goes on; leaving the context closes them."""
        starts = [asyncio.create_task(hosted.start()) for hosted in self._hosted]
        try:
            yield
        finally:
            # A start that is cut short is closed like the others.
            for start in starts:
                start.cancel()
            await asyncio.gather(*starts, return_exceptions=True)
            await asyncio.gather(*(hosted.aclose() for hosted in self._hosted))
