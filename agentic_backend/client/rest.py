"""Rest: the REST calls of a user, with typed answers."""

import asyncio
import ssl
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, BinaryIO, Literal, TypeVar
from urllib.parse import quote

import httpx
from pydantic import BaseModel

from agentic_backend.client.errors import ChatError, Refused, Unreachable, Unreadable
from agentic_backend.client.reading import event_in, json_object, value_in
from agentic_backend.client.tokens import Tokens
from agentic_backend.protocol.events import ErrorInfo, Started
from agentic_backend.protocol.messages import ChatMessage, Session, SessionState
from agentic_backend.protocol.trust import TrustSummary
from agentic_backend.protocol.views import (
    AgentsView,
    AgentView,
    AttachmentView,
    BranchesView,
    CancelledView,
    CompletedView,
    CreatedShareView,
    FeedbackView,
    ListedSession,
    MessagesView,
    SessionFeedbackView,
    SessionsView,
    SharedSessionView,
    SharesView,
    ShareView,
)
from agentic_backend.system_errors import summary_of

PREFIX = "/agentic/v1"
_CALL_TIMEOUT_S = 30
_UPLOAD_TIMEOUT_S = 300
_BODY_BYTES_AT_MOST = 64 * 1024 * 1024

Answer = TypeVar("Answer", bound=BaseModel)


class _Bearer(httpx.Auth):
    """Signs each call with the newest token; if that is refused, once more with a renewed one."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens

    async def async_auth_flow(self, request: httpx.Request) -> AsyncGenerator[httpx.Request, httpx.Response]:
        _sign(request, await self._tokens.newest())
        response = yield request
        if response.status_code == httpx.codes.UNAUTHORIZED and self._tokens.renewable:
            _sign(request, await self._tokens.renewed())
            yield request


def _sign(request: httpx.Request, token: str | None) -> None:
    if token is not None:
        request.headers["Authorization"] = f"Bearer {token}"


class Rest:
    """Each call raises Refused if the server refuses it, and Unreachable if it fails on the way."""

    def __init__(self, url: str, tokens: Tokens, ssl_context: ssl.SSLContext | None) -> None:
        # Without TLS the certificates of all authorities need not be read.
        verify = ssl_context or url.startswith("https:")
        self._http = httpx.AsyncClient(
            base_url=url + PREFIX, auth=_Bearer(tokens), timeout=_CALL_TIMEOUT_S, verify=verify
        )

    async def aclose(self) -> None:
        await self._http.aclose()

    async def agents(self) -> list[AgentView]:
        """The agents that the user may talk to."""
        return (await self._call(AgentsView, "GET", "/agents")).agents

    async def open_session(
        self, agent_id: str | None = None, *, title: str | None = None, chat_profile: str | None = None
    ) -> Session:
        """Open a session. An ask without a session opens one too."""
        body = {"agent_id": agent_id, "title": title, "chat_profile": chat_profile}
        return await self._call(Session, "POST", "/sessions", json=body)

    async def sessions(
        self,
        *,
        agent_id: str | None = None,
        state: SessionState | None = None,
        text: str | None = None,
        pinned: bool | None = None,
        archived: bool | None = None,
    ) -> AsyncIterator[ListedSession]:
        """The user's sessions, the most recently used first; `text` is searched in titles and messages."""
        given = {"agent_id": agent_id, "state": state, "q": text, "pinned": pinned, "archived": archived}
        query: dict[str, Any] = {name: value for name, value in given.items() if value not in (None, "")}
        while True:
            page = await self._call(SessionsView, "GET", "/sessions", params=query)
            for session in page.sessions:
                yield session
            if page.next_cursor is None:
                return
            query["cursor"] = page.next_cursor

    async def session(self, session_id: str) -> Session:
        return await self._call(Session, "GET", f"/sessions/{_segment(session_id)}")

    async def rename_session(self, session_id: str, title: str) -> Session:
        return await self._call(Session, "PATCH", f"/sessions/{_segment(session_id)}", json={"title": title})

    async def fork(self, session_id: str, rank: int) -> Session:
        """Open a branch: a session that shares the messages of this one below `rank` and goes on on its own.

        `rank` is the first rank of an exchange, whose question is then asked anew or differently, or the next rank.
        """
        return await self._call(Session, "POST", f"/sessions/{_segment(session_id)}/fork", json={"rank": rank})

    async def branches(self, session_id: str) -> list[Session]:
        """The session, what it comes from, and what comes from these; the oldest first."""
        return (await self._call(BranchesView, "GET", f"/sessions/{_segment(session_id)}/branches")).branches

    async def mark_session(
        self, session_id: str, *, pinned: bool | None = None, archived: bool | None = None
    ) -> Session:
        """Pin or archive a session with its branches, or take that back; None leaves it as it is."""
        marks = {"pinned": pinned, "archived": archived}
        return await self._call(Session, "PATCH", f"/sessions/{_segment(session_id)}", json=marks)

    async def complete_session(self, session_id: str) -> None:
        """Stop what runs in a session, and end it for good."""
        await self._call(CompletedView, "POST", f"/sessions/{_segment(session_id)}/complete")

    async def cancel_session(self, session_id: str) -> bool:
        """Stop what runs in a session; return, once it has ended, whether anything did."""
        return (await self._call(CancelledView, "POST", f"/sessions/{_segment(session_id)}/cancel")).cancelled

    async def delete_session(self, session_id: str) -> None:
        """Stop what runs in a session, and delete all of it."""
        async with self._answered("DELETE", f"/sessions/{_segment(session_id)}"):
            pass

    async def messages(self, session_id: str, *, after_rank: int = -1) -> AsyncIterator[ChatMessage]:
        """The stored messages of a session above a rank, in rank order."""
        while True:
            page = await self._call(
                MessagesView, "GET", f"/sessions/{_segment(session_id)}/messages", params={"after_rank": after_rank}
            )
            for message in page.messages:
                yield message
            if not page.messages or page.messages[-1].rank <= after_rank:
                return
            after_rank = page.messages[-1].rank
            if after_rank + 1 >= page.next_rank:
                return

    async def upload(self, name: str, content: bytes | BinaryIO) -> AttachmentView:
        """Upload a file, to be attached to an ask by its id: an image, a document or a text."""
        files = {"file": (name, content, "application/octet-stream")}
        return await self._call(AttachmentView, "POST", "/attachments", timeout_s=_UPLOAD_TIMEOUT_S, files=files)

    async def attachment(self, attachment_id: str) -> bytes:
        """The content of an attachment."""
        async with self._answered("GET", f"/attachments/{_segment(attachment_id)}") as response:
            return await _body(response)

    async def delete_attachment(self, attachment_id: str) -> None:
        """Delete an attachment that was not sent."""
        async with self._answered("DELETE", f"/attachments/{_segment(attachment_id)}"):
            pass

    async def give_feedback(
        self, session_id: str, rank: int, rating: Literal["up", "down"], comment: str = ""
    ) -> FeedbackView:
        """Say what the answer at `rank` was like; it replaces what was said of it before."""
        path = f"/sessions/{_segment(session_id)}/messages/{rank}/feedback"
        return await self._call(FeedbackView, "PUT", path, json={"rating": rating, "comment": comment})

    async def withdraw_feedback(self, session_id: str, rank: int) -> None:
        """Take back what was said of the answer at `rank`."""
        async with self._answered("DELETE", f"/sessions/{_segment(session_id)}/messages/{rank}/feedback"):
            pass

    async def feedback(self, session_id: str) -> list[FeedbackView]:
        """What the user has said of the session's answers, by rank."""
        path = f"/sessions/{_segment(session_id)}/feedback"
        return (await self._call(SessionFeedbackView, "GET", path)).feedback

    async def export_session(self, session_id: str, format: Literal["md", "json"] = "md") -> AsyncIterator[bytes]:
        """The session as a file, piece by piece. Raises Unreachable if it breaks off."""
        path = f"/sessions/{_segment(session_id)}/export"
        # Each piece has its own time: one for all of them would run, and end, in what its reader does between them.
        async with self._answered("GET", path, timeout_s=None, params={"format": format}) as response:
            async for piece in response.aiter_bytes():
                yield piece

    async def share_session(self, session_id: str, *, expires_in_days: int | None = None) -> CreatedShareView:
        """A link to what has ended in the session; its secret is told only here."""
        body = {"expires_in_days": expires_in_days}
        return await self._call(CreatedShareView, "POST", f"/sessions/{_segment(session_id)}/shares", json=body)

    async def shares(self, session_id: str) -> list[ShareView]:
        """The open links to the session, the last first."""
        return (await self._call(SharesView, "GET", f"/sessions/{_segment(session_id)}/shares")).shares

    async def revoke_share(self, session_id: str, share_id: str) -> None:
        """Close a link for good."""
        async with self._answered("DELETE", f"/sessions/{_segment(session_id)}/shares/{_segment(share_id)}"):
            pass

    async def shared(self, secret: str, *, after_rank: int = -1) -> SharedSessionView:
        """A page of what somebody shares; its `next_after_rank` is the `after_rank` of the next one."""
        return await self._call(
            SharedSessionView, "GET", f"/shares/{_segment(secret)}", params={"after_rank": after_rank}
        )

    async def trust(self, exchange_id: str) -> TrustSummary:
        """What the answer of an exchange rests on."""
        return await self._call(TrustSummary, "GET", f"/exchanges/{_segment(exchange_id)}/trust")

    async def resume(self, exchange_id: str) -> str:
        """Continue an interrupted exchange from its last checkpoint; return the id of the new exchange."""
        path = f"/exchanges/{_segment(exchange_id)}/resume"
        async with self._answered("POST", path, json={}) as response:
            data = b""
            async for piece in response.aiter_bytes():
                data += piece
                if len(data) > _BODY_BYTES_AT_MOST:
                    break
                for line in data.splitlines()[:-1]:
                    event = event_in(json_object(line[5:])) if line.startswith(b"data:") else None
                    if isinstance(event, Started):
                        return event.exchange_id
        raise Unreadable("The server did not tell which exchange continues.")

    async def _call(self, answer: type[Answer], method: str, path: str, **options: Any) -> Answer:
        async with self._answered(method, path, **options) as response:
            return value_in(json_object(await _body(response)), answer)

    @asynccontextmanager
    async def _answered(
        self, method: str, path: str, *, timeout_s: float | None = _CALL_TIMEOUT_S, **options: Any
    ) -> AsyncIterator[httpx.Response]:
        """The answer to a call, whose body has not been read. Raises Refused and Unreachable."""
        try:
            async with asyncio.timeout(timeout_s), self._http.stream(method, path, **options) as response:
                if not response.is_success:
                    raise await _refusal(response)
                yield response
        except ChatError:
            raise
        except (httpx.HTTPError, OSError, TimeoutError) as failed:
            raise Unreachable(f"The call failed on the way: {summary_of(failed, with_host=False)}.") from failed


def _segment(text: str) -> str:
    return quote(text, safe="")


async def _body(response: httpx.Response) -> bytes:
    data = bytearray()
    async for piece in response.aiter_bytes():
        data += piece
        if len(data) > _BODY_BYTES_AT_MOST:
            raise Unreadable("The server's answer is too large.")
    return bytes(data)


async def _refusal(response: httpx.Response) -> ChatError:
    """The error in the answer of a refused call; a proxy's has none."""
    try:
        return Refused.of(value_in(json_object(await _body(response))["error"], ErrorInfo))
    except (Unreadable, KeyError, TypeError):
        return Unreachable(f"The call was answered with {response.status_code}.")
