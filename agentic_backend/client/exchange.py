"""Exchange: one exchange as its reader sees it, whatever happens to the connection."""

import asyncio
from collections.abc import Callable

from agentic_backend.client.errors import ChatError, PersonNeeded, Unanswered, Unreachable
from agentic_backend.client.places import Inbox, Place
from agentic_backend.client.shown import Shown
from agentic_backend.errors import Overloaded, RateLimited, TooManyRuns
from agentic_backend.protocol.events import AwaitingHuman, Event, ExchangeEvent, Final, FrameRefused, HumanRequests
from agentic_backend.protocol.frames import Ask, Follow
from agentic_backend.protocol.messages import ChatMessage

_FOR_THE_MOMENT = frozenset({RateLimited.code, TooManyRuns.code, Overloaded.code})


class Exchange:
    """An asynchronous iterator of the exchange's events, the last of which is its `final`.

    Each event comes once and in order. `Started` and `Reset` tell that the exchange is shown anew from there: after
    them forget what was shown of it. That happens where the server does not know the client's place any more, and
    where this reader was so slow that its unread events were dropped.

    It ends with a ChatError where the server refuses the ask, or can't be reached any more. `text`, `messages`,
    `awaiting` and `final` tell what has been read so far.
    """

    def __init__(
        self,
        *,
        ask: Ask | None = None,
        exchange_id: str | None = None,
        send: Callable[[Ask | Follow], None],
        forget: Callable[["Exchange"], None],
        patience_s: float,
    ) -> None:
        """Either `ask` begins it, or `exchange_id` names it."""
        self.ask = ask
        self.exchange_id = exchange_id
        self.session_id = ask.session_id if ask is not None else None
        self._send = send
        self._forget = forget
        self._patience_s = patience_s
        self._place = Place()
        self._inbox = Inbox()
        self._dropped = False
        """Whether unread events were dropped, and the reader has not come back since."""
        self._shown = Shown()
        self._asking_again: asyncio.TimerHandle | None = None
        """Asks again, once, at the time that the server has told."""
        self._heard = asyncio.Event()
        """Set with the first event, or the end."""

    def __aiter__(self) -> "Exchange":
        return self

    async def __anext__(self) -> Event:
        if not self._heard.is_set():
            await self._hear()
        if self._dropped:
            self._dropped = False
            self._send(self.follow())
        event = await self._inbox.get()
        if event is None:
            raise StopAsyncIteration
        self._shown.apply(event)
        return event

    @property
    def text(self) -> str:
        """The text of the answer, as far as it has been read."""
        return self._shown.text

    @property
    def messages(self) -> list[ChatMessage]:
        """The exchange's messages so far, by rank."""
        return sorted(self._shown.messages.values(), key=lambda message: message.rank)

    @property
    def awaiting(self) -> HumanRequests | None:
        """What waits for a person's decision."""
        return self._shown.awaiting

    @property
    def final(self) -> Final | None:
        return self._shown.final

    async def answer(self) -> str:
        """Read to the end; return the text of the answer.

        Raises Unanswered if the exchange ends otherwise, and PersonNeeded if it waits for a person.
        """
        async for event in self:
            if isinstance(event, AwaitingHuman):
                raise PersonNeeded(self, event)
        if self.final is None:
            raise ChatError("The exchange was closed before its end.")
        if self.final.status != "ok":
            raise Unanswered(self.final)
        return self.text

    def close(self) -> None:
        """Read no more of it. The exchange itself goes on: see `Chat.stop`."""
        self._forget(self)
        self._end(None)

    def follow(self) -> Follow:
        """What makes a server show the exchange from the reader's place on."""
        return Follow(exchange_id=self.exchange_id, session_id=self.session_id, after_seq=self._place.seq or 0)

    @property
    def is_due(self) -> bool:
        """Whether a new connection has to show it."""
        return not self._dropped

    @property
    def waits_to_ask(self) -> bool:
        """Whether the server has told to ask later, and that is not yet."""
        return self._asking_again is not None and self._asking_again.when() > asyncio.get_running_loop().time()

    def put_off(self, refused: FrameRefused) -> bool:
        """Ask again when the server will take it, which is told once; False if that is not to be waited for."""
        wait_s = refused.retry_after_s
        if self.ask is None or refused.code not in _FOR_THE_MOMENT or wait_s is None or wait_s > self._patience_s:
            return False
        if self._asking_again is not None:
            return False
        self._asking_again = asyncio.get_running_loop().call_later(wait_s, self._send, self.ask)
        return True

    def show_anew(self) -> None:
        """Ask for all of it: the connection may show it from another place."""
        self._place.seq = None
        self._send(self.follow())

    def take(self, event: ExchangeEvent, size: int) -> None:
        """Keep an event of this exchange, which came with `size` bytes, if it counts."""
        if not self._place.takes(event):
            return
        self.exchange_id, self.session_id = event.exchange_id, event.session_id
        self._heard.set()
        # What counts after a drop shows the exchange anew, or ends it.
        self._dropped = False
        if not self._inbox.put(event, size):
            self._inbox.clear()
            if isinstance(event, Final):
                # It has all that the others told.
                self._inbox.put(event, size)
            else:
                self._place.seq = None
                self._dropped = True
        if isinstance(event, Final):
            self._forget(self)
            self._end(None)

    def fail(self, error: ChatError) -> None:
        """End it with `error`, after what has come."""
        self._forget(self)
        self._end(error)

    def _end(self, error: ChatError | None) -> None:
        self._inbox.end(error)
        self._heard.set()
        if self._asking_again is not None:
            self._asking_again.cancel()

    async def _hear(self) -> None:
        try:
            async with asyncio.timeout(self._patience_s):
                await self._heard.wait()
        except TimeoutError:
            error = Unreachable("The server did not begin the exchange in time.")
            # A later connection would begin what nobody waits for.
            self.fail(error)
            raise error from None
