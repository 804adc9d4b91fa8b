"""Conversation: the session that the terminal client chats in, and its exchanges."""

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path

from agentic_backend.client import AwaitingHuman, Chat, ChatError, ChatMessage, Event, Exchange, Refused
from agentic_backend.client.errors import rule_broken
from agentic_backend.protocol.messages import TokenUsage
from agentic_backend.protocol.views import AgentView
from agentic_backend.terminal.human_form import HumanForm, NotDecidable
from agentic_backend.terminal.keyboard import Keyboard
from agentic_backend.terminal.loop_thread import LoopThread
from agentic_backend.terminal.screen import Screen
from agentic_backend.terminal.shown_exchange import ShownExchange

_STOP_S = 60
_LOOK_EVERY_S = 0.05


class Conversation:
    """`usage` is that of the last exchange, `total` that of all since the session began.

    Its methods raise ChatError where the server refuses what they need, or can't be reached.
    """

    def __init__(
        self, chat: Chat, thread: LoopThread, screen: Screen, keyboard: Keyboard, heard: Callable[[], None]
    ) -> None:
        """`heard` is called at each event."""
        self.agent: AgentView | None = None
        self.session_id: str | None = None
        self.usage = self.total = TokenUsage()
        self._chat = chat
        self._thread = thread
        self._screen = screen
        self._keyboard = keyboard
        self._form = HumanForm(screen, keyboard)
        self._heard = heard

    def agents(self) -> list[AgentView]:
        return self._thread.call(self._chat.rest.agents())

    def begin(self) -> None:
        """The next ask opens a session."""
        self.session_id = None
        self.usage = self.total = TokenUsage()

    def ask(self, message: str) -> bool:
        """Ask, and show the answer to its end; return whether there is one. Raises ChatError."""
        try:
            exchange = self._thread.call(self._begun(message))
        except ValueError as error:
            self._screen.fault(f"This can't be asked: {rule_broken(error)}")
            return False
        try:
            return self._follow(exchange)
        except Refused as refused:
            self._screen.fault(refused.content)
            return False

    def messages(self) -> list[ChatMessage]:
        """Those of the session."""
        session_id = self.session_id
        if session_id is None:
            return []

        async def read() -> list[ChatMessage]:
            return [message async for message in self._chat.rest.messages(session_id)]

        return self._thread.call(read())

    def export(self, file: Path | None) -> str:
        """Write the session to a new file, as JSON if its name ends so, else as Markdown; or return the Markdown.

        Raises OSError if the file can't be written, or is there.
        """
        session_id = self.session_id
        assert session_id is not None
        is_json = file is not None and file.suffix == ".json"

        async def read() -> bytes:
            pieces = self._chat.rest.export_session(session_id, "json" if is_json else "md")
            return b"".join([piece async for piece in pieces])

        content = self._thread.call(read())
        if file is None:
            return content.decode()
        with file.open("xb") as target:
            target.write(content)
        return ""

    def _follow(self, exchange: Exchange) -> bool:
        shown = ShownExchange(self._screen)
        with self._keyboard.interrupting(lambda: self._stop(exchange)):
            while (event := self._thread.call(_next(exchange))) is not None:
                self._heard()
                self.session_id = exchange.session_id or self.session_id
                shown.show(event)
                if isinstance(event, AwaitingHuman):
                    self._decide(exchange, event)
        final = exchange.final
        if final is None:
            return False
        self.usage = final.usage
        self.total += final.usage
        return final.status == "ok"

    def _decide(self, exchange: Exchange, waiting: AwaitingHuman) -> None:
        """Ask the person until the server takes the decisions, or nobody can decide: then stop the exchange."""
        while True:
            try:
                decisions = self._form.fill(waiting.payload)
            except (EOFError, KeyboardInterrupt, NotDecidable):
                self._screen.note("Nobody decides: stopping.")
                self._stop(exchange)
                return
            except ValueError as error:
                self._screen.fault(f"This can't be decided: {rule_broken(error)}")
                continue
            try:
                self._thread.call(self._chat.decide(waiting, *decisions))
                return
            except ValueError as error:
                self._screen.fault(f"This can't be sent: {rule_broken(error)}")
            except Refused as refused:
                self._screen.fault(refused.content)
                if refused.code.endswith("not_found"):
                    # It was decided elsewhere, or has expired; the exchange tells.
                    return

    def _stop(self, exchange: Exchange) -> None:
        async def stop() -> None:
            # A server that can't stop it tells in the exchange, or is away.
            with contextlib.suppress(ChatError, TimeoutError):
                async with asyncio.timeout(_STOP_S):
                    while exchange.exchange_id is None:
                        await asyncio.sleep(_LOOK_EVERY_S)
                    await self._chat.stop(exchange_id=exchange.exchange_id)

        self._thread.begin(stop())

    async def _begun(self, message: str) -> Exchange:
        options = {} if self.session_id is None else {"session_id": self.session_id}
        if self.agent is not None:
            options["agent_id"] = self.agent.id
        return self._chat.ask(message, **options)  # type: ignore[arg-type]


async def _next(exchange: Exchange) -> Event | None:
    """The next event; None after the last one."""
    return await anext(exchange, None)
