"""Chat: the client of one user, and how it is connected."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, TypedDict, Unpack
from urllib.parse import urlsplit
from uuid import uuid4

from agentic_backend.client.decisions import Answer, decided
from agentic_backend.client.errors import ChatError, Closed
from agentic_backend.client.exchange import Exchange
from agentic_backend.client.followers import Followers
from agentic_backend.client.line import Line
from agentic_backend.client.rest import PREFIX, Rest
from agentic_backend.client.session_feed import SessionFeed
from agentic_backend.client.session_list import SessionList
from agentic_backend.client.tokens import Tokens, TokenSource
from agentic_backend.protocol.events import AwaitingHuman
from agentic_backend.protocol.frames import (
    Ask,
    Decision,
    FollowSessions,
    HumanResume,
    PastMessage,
    Stop,
    Unfollow,
    UnfollowSessions,
)

_SOCKET_PATH = f"{PREFIX}/chatbot/query/ws"
_PATIENCE_S = 60


class AnyOptions(TypedDict, total=False):
    """What an ask or a query may say beside its message. `scope` counts for a new session, and for a query."""

    agent_id: str
    chat_profile: str
    scope: dict[str, str]
    runtime_context: dict[str, Any]
    client_exchange_id: str
    """Sent again, by whichever client of the user, it starts nothing, and shows the exchange that it began."""


class QueryOptions(AnyOptions, total=False):
    """What a query may say beside its message."""

    history: list[PastMessage]
    """What was said before it, the oldest first."""


class AskOptions(AnyOptions, total=False):
    """What an ask may say beside its message."""

    session_id: str
    """Without it the ask opens a session."""
    attachments: list[str]
    """The ids of files that `Rest.upload` has brought to the server."""


class Chat:
    """Any number of exchanges at the same time, over one socket. Made by `connect`.

    All methods raise the ChatError that has ended the client, once that has happened.
    """

    def __init__(self, line: Line, followers: Followers, rest: Rest, patience_s: float) -> None:
        self.rest = rest
        self._line = line
        self._followers = followers
        self._patience_s = patience_s

    def ask(self, message: str, **options: Unpack[AskOptions]) -> Exchange:
        """Ask, in an earlier session or a new one. Raises ValueError if the server could not understand it."""
        return self._ask(Ask(message=message, **_identified(options)))

    async def ask_text(self, message: str, **options: Unpack[AskOptions]) -> str:
        """Ask; return the text of the answer. Raises what `Exchange.answer` does."""
        return await self.ask(message, **options).answer()

    def query(self, message: str, **options: Unpack[QueryOptions]) -> Exchange:
        """Ask without a session: nothing is stored, nothing remembered, and a lost connection stops it."""
        return self._ask(Ask(message=message, mode="query", **_identified(options)))

    def follow(self, session_id: str) -> SessionFeed:
        """All that happens in a session: what runs, from its beginning, and every later exchange."""
        feed = SessionFeed(session_id, send=self._line.send, forget=self._unfollow)
        self._line.send(feed.frame)
        self._followers.add_feed(feed)
        return feed

    def follow_sessions(self) -> SessionList:
        """What changes in the list of the user's sessions, whoever changes it."""
        sessions = SessionList(send=self._line.send, forget=self._forget_list)
        self._line.send(FollowSessions())
        self._followers.add_list(sessions)
        return sessions

    def follow_exchange(self, exchange_id: str) -> Exchange:
        """One exchange, from its beginning."""
        exchange = self._exchange(exchange_id=exchange_id)
        self._line.send(exchange.follow())
        self._followers.add(exchange)
        return exchange

    async def resume(self, exchange_id: str) -> Exchange:
        """Continue an exchange that was interrupted, as a new exchange, from its last checkpoint."""
        return self.follow_exchange(await self.rest.resume(exchange_id))

    async def decide(self, waiting: AwaitingHuman, *decisions: Decision | Answer) -> None:
        """Decide on some or all of what waits: see `approve`, `reject`, `edit` and `answer`.

        Raises Refused; then none of them counts.
        """
        if waiting.session_id is None:
            raise ValueError("A query never waits for a person.")
        await self._line.request(
            HumanResume(session_id=waiting.session_id, exchange_id=waiting.exchange_id, payload=decided(decisions))
        )

    async def stop(self, *, session_id: str | None = None, exchange_id: str | None = None) -> None:
        """Stop an exchange, or what runs in a session. Its `final` tells that it has ended."""
        await self._line.request(Stop(session_id=session_id, exchange_id=exchange_id))

    def _ask(self, ask: Ask) -> Exchange:
        exchange = self._exchange(ask=ask)
        self._followers.add(exchange)
        try:
            self._line.send(ask)
        except (ChatError, ValueError):
            # A later connection would send it.
            self._followers.remove(exchange)
            raise
        return exchange

    def _exchange(self, *, ask: Ask | None = None, exchange_id: str | None = None) -> Exchange:
        return Exchange(
            ask=ask,
            exchange_id=exchange_id,
            send=self._line.send,
            forget=self._followers.remove,
            patience_s=self._patience_s,
        )

    def _forget_list(self, sessions: SessionList) -> None:
        self._followers.remove_list(sessions)
        if self._line.error is None and not self._followers.has_list:
            self._line.send(UnfollowSessions())

    def _unfollow(self, feed: SessionFeed) -> None:
        self._followers.remove_feed(feed)
        if self._line.error is not None or self._followers.has_feed(feed.session_id):
            return
        self._line.send(Unfollow(session_id=feed.session_id))
        # It ends them too, for the socket.
        for exchange in self._followers.in_session(feed.session_id):
            exchange.show_anew()


def _identified(options: AskOptions | QueryOptions) -> dict[str, Any]:
    return {"client_exchange_id": uuid4().hex, **options}


@asynccontextmanager
async def connect(
    url: str,
    *,
    token: TokenSource = None,
    patience_s: float = _PATIENCE_S,
    ssl_context: ssl.SSLContext | None = None,
) -> AsyncIterator[Chat]:
    """A client of the server at `url` (`https://host[:port]`, and the path before `/agentic/v1`, if there is one).

    `patience_s`: how long it tries to reach a server, now and whenever the connection is lost, before it ends with
    Unreachable; and how long a server may take to answer. Raises ChatError if it can't connect, and ValueError if `url`
    is none.
    """
    scheme, host, path, query, fragment = urlsplit(url)
    if scheme not in ("http", "https") or not host or query or fragment:
        raise ValueError("expected a URL such as https://chat.example.org")
    base = f"{host}{path.rstrip('/')}"
    tokens, followers = Tokens(token), Followers()
    line = Line(f"{scheme.replace('http', 'ws')}://{base}{_SOCKET_PATH}", tokens, followers, patience_s, ssl_context)
    rest = Rest(f"{scheme}://{base}", tokens, ssl_context)
    running = asyncio.create_task(line.run())
    try:
        await line.opened()
        yield Chat(line, followers, rest, patience_s)
    finally:
        running.cancel()
        await asyncio.wait({running})
        line.end(Closed("The client has been closed."))
        await rest.aclose()
