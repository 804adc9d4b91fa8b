"""Applications that do what an author's may do: raise, hang, flood, answer anything, declare anything."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any

from pydantic import ConfigDict, model_serializer, model_validator
from starlette.responses import StreamingResponse

from agentic_backend.application import (
    Application,
    ApplicationSettings,
    ApplicationUnavailable,
    Call,
    Forbidden,
    Frame,
    NotFound,
    User,
    Value,
)
from agentic_backend.errors import Unauthenticated

PATH = "support.hostile_applications"


class Done(Value):
    """What was done."""

    done: str = "yes"


class Unprintable(Done):
    @model_serializer
    def _no(self) -> str:
        raise SystemExit("no")


class ExplodingBody(Frame):
    """A body that stops the process while it is read."""

    word: str

    @model_validator(mode="after")
    def _no(self) -> "ExplodingBody":
        raise KeyboardInterrupt


class OwnRefusal(NotFound):
    code = "anything"
    http_status = 299

    @property
    def content(self) -> str:
        raise RuntimeError("no words")


class Odd:
    def __str__(self) -> str:
        raise RuntimeError("no text")


class BadName(type):
    @property
    def __name__(cls) -> str:  # type: ignore[override]
        raise RuntimeError("no name")


class Nameless(Exception, metaclass=BadName):
    pass


async def endless() -> None:
    """Swallows its cancellations, as some libraries do, but not the last one, by which the test's loop ends."""
    for _ in range(2):
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(3600)
    await asyncio.sleep(3600)


def _raising(error: Callable[[], BaseException]) -> Callable[[], Awaitable[Any]]:
    async def act() -> Any:
        raise error()

    return act


def _answering(answer: Callable[[], object]) -> Callable[[], Awaitable[Any]]:
    async def act() -> Any:
        return answer()

    return act


async def _cancel() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(0)


def _with_cause() -> BaseException:
    error = ValueError("hunter2")
    error.__cause__ = error
    return error


ACTS: dict[str, Callable[[], Awaitable[Any]]] = {
    "raise": _raising(lambda: ValueError("hunter2")),
    "exit": _raising(lambda: SystemExit(3)),
    "interrupt": _raising(KeyboardInterrupt),
    "generator_exit": _raising(GeneratorExit),
    "stop_iteration": _raising(lambda: StopAsyncIteration("x")),
    "nameless": _raising(Nameless),
    "group": _raising(lambda: BaseExceptionGroup("many", [SystemExit(1), ValueError("hunter2")])),
    "circle": _raising(_with_cause),
    "own_refusal": _raising(lambda: OwnRefusal("hunter2")),
    "unauthenticated": _raising(lambda: Unauthenticated("sign in at evil.example")),
    "cancelled": _raising(asyncio.CancelledError),
    "cancel": _cancel,
    "hang": endless,
    "text": _answering(lambda: "text"),
    "dict": _answering(dict),
    "none": _answering(lambda: None),
    "class": _answering(lambda: Done),
    "stream": _answering(lambda: StreamingResponse(iter(()))),
    "unprintable": _answering(Unprintable),
    "large": _answering(lambda: Done(done="x" * 17 * 1024 * 1024)),
}


class Hostile(Application):
    id = "hostile"
    title = "Hostile"
    version = "0"

    def calls(self) -> Sequence[Call]:
        return [
            Call("POST", "/acts/{act}", self.act, timeout_s=0.3),
            Call("POST", "/bodies", self.read, timeout_s=0.3),
            Call("POST", "/refusals/{refusal}", self.refuse),
        ]

    async def act(self, user: User, act: str) -> Done:
        answer: Done = await ACTS[act]()
        return answer

    async def read(self, user: User, body: ExplodingBody) -> Done:
        return Done()

    async def refuse(self, user: User, refusal: str) -> Done:
        if refusal == "odd":
            raise Forbidden(Odd())  # type: ignore[arg-type]
        if refusal == "long":
            raise Forbidden("x" * 100_000, retry_after_s=float("nan"))
        raise ApplicationUnavailable("Come back later.", retry_after_s=7)


class Unimportable(Application):
    id = "unimportable"
    title = "Unimportable"
    version = "0"

    def __init__(self, settings: Any) -> None:
        raise SystemExit("not here")


class NeverStarts(Application):
    id = "never-starts"
    title = "Never"
    version = "0"

    def calls(self) -> Sequence[Call]:
        return [Call("GET", "/time", self.tell)]

    async def tell(self, user: User) -> Done:
        return Done()

    async def start(self) -> None:
        await endless()


class Unreachable(NeverStarts):
    id = "unreachable"

    async def start(self) -> None:
        pass

    async def check(self) -> None:
        raise ConnectionRefusedError(111, "Connection refused")


class FailsToStart(NeverStarts):
    id = "fails-to-start"

    async def start(self) -> None:
        raise SystemExit(1)

    async def aclose(self) -> None:
        raise KeyboardInterrupt


class OddSettings(Application):
    id = "odd-settings"
    title = "Odd"
    version = "0"

    class Settings(ApplicationSettings):
        model_config = ConfigDict(arbitrary_types_allowed=True)
        word: str
        odd: Odd | None = None


class Again(Application):
    id = "glossary"
    title = "Another glossary"
    version = "0"
