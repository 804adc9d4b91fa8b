"""Conversation: holds one case's conversation with an agent, and decides where a person is needed."""

import asyncio
import contextlib
import time
from fnmatch import fnmatchcase
from typing import Any

from agentic_backend.client import (
    Answer,
    AwaitingHuman,
    Chat,
    ChatError,
    Exchange,
    HumanRequest,
    TryLater,
    answer,
    approve,
    reject,
)
from agentic_backend.client.chat import AskOptions
from agentic_backend.client.errors import rule_broken
from agentic_backend.evals.eval_file import Case
from agentic_backend.evals.observation import Observation
from agentic_backend.protocol.frames import Decision
from agentic_backend.protocol.messages import ExchangeStatus

_STOP_TIMEOUT_S = 10
_AGAIN_AFTER_S = 1.0
_REJECTED = "The eval does not approve of this call."


class _NoAnswer(Exception):
    """The agent asks more than the case answers; the text is the question."""


class Conversation:
    def __init__(self, chat: Chat, case: Case) -> None:
        self._chat = chat
        self._case = case
        self._seen = Observation()
        self._answers = list(case.answers)
        self._running: Exchange | None = None

    async def hold(self) -> Observation:
        """Put the case's asks, one after the other, until one does not end with `ok`."""
        try:
            async with asyncio.timeout(self._case.timeout_s):
                for text in self._case.asks:
                    await self._ask(text)
                    if self._seen.status is not ExchangeStatus.OK:
                        break
        except TimeoutError:
            self._seen.fault = f"has not ended within {self._case.timeout_s:g} s"
        except _NoAnswer as question:
            self._seen.fault = f"the agent asks what the case's 'answers' don't answer: {question}"
        except ChatError as error:
            self._seen.fault = str(error)
        except ValueError as error:
            # What the file asks can't be sent.
            self._seen.fault = f"can't be asked: {rule_broken(error)}"
        if self._seen.fault is not None:
            await self._stop()
        return self._seen

    async def _ask(self, text: str) -> None:
        while True:
            began = time.monotonic()
            try:
                await self._read(self._begin(text))
            except TryLater as busy:
                if self._running is not None and self._running.exchange_id is not None:
                    raise
                await asyncio.sleep(busy.retry_after_s or _AGAIN_AFTER_S)
                continue
            except asyncio.CancelledError:
                # The case's time is up: reports tell how long it was waited for.
                self._seen.latencies_s.append(time.monotonic() - began)
                raise
            self._seen.latencies_s.append(time.monotonic() - began)
            return

    def _begin(self, text: str) -> Exchange:
        options: AskOptions = {}
        if self._case.agent is not None:
            options["agent_id"] = self._case.agent
        if self._seen.session_id is not None:
            options["session_id"] = self._seen.session_id
        self._running = self._chat.ask(text, **options)
        return self._running

    async def _read(self, exchange: Exchange) -> None:
        decided: set[str] = set()
        async for event in exchange:
            self._seen.session_id = exchange.session_id
            self._seen.see(event)
            if isinstance(event, AwaitingHuman):
                asked = [request for request in event.payload.requests if request.interrupt_id not in decided]
                decided |= {request.interrupt_id for request in asked}
                if asked:
                    await self._chat.decide(event, *map(self._decision, asked))
        self._seen.answer = exchange.text
        self._running = None

    def _decision(self, request: HumanRequest) -> Decision | Answer:
        if request.call_id is None:
            return answer(request, self._next_answer(request))
        if any(fnmatchcase(request.name or "", pattern) for pattern in self._case.approve):
            return approve(request)
        return reject(request, _REJECTED)

    def _next_answer(self, request: HumanRequest) -> Any:
        if not self._answers:
            raise _NoAnswer(request.question or repr(request.value))
        return self._answers.pop(0)

    async def _stop(self) -> None:
        """Stop what runs, as far as that can be told to the server in time."""
        if self._running is None:
            return
        exchange_id = self._running.exchange_id
        self._running.close()
        if exchange_id is not None:
            with contextlib.suppress(ChatError, TimeoutError):
                async with asyncio.timeout(_STOP_TIMEOUT_S):
                    await self._chat.stop(exchange_id=exchange_id)
