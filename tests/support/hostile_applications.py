"""Applications that do what an author's may do: raise, hang, flood, answer anything, declare anything."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any

from pydantic import ConfigDict, Field, SecretStr, create_model, model_serializer, model_validator
from starlette.responses import Response, StreamingResponse

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


class EvilFuture:
    """What a task waits for is told first that it is cancelled: this one raises then, and ends the second time."""

    _asyncio_future_blocking = False

    def __init__(self) -> None:
        self._told = 0
        self._wake: Callable[[Any], object] = print

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    def add_done_callback(self, wake: Callable[[Any], object], **_: Any) -> None:
        self._wake = wake

    def __await__(self) -> Any:
        self._asyncio_future_blocking = True
        yield self

    def result(self) -> None:
        raise asyncio.CancelledError

    def cancel(self, *_: Any, **__: Any) -> bool:
        self._told += 1
        if self._told == 1:
            raise RuntimeError("no end")
        asyncio.get_running_loop().call_soon(self._wake, self)
        return True


async def _await_evil() -> None:
    await EvilFuture()


class SecretText(Value):
    """Another value than the one that is declared."""

    secret: str = "hunter2"


class EqualsAll(type):
    def __eq__(cls, other: object) -> bool:
        return True

    def __hash__(cls) -> int:
        return hash(NotFound)


class Masked(NotFound, metaclass=EqualsAll):
    @property
    def content(self) -> str:
        raise RuntimeError("no words")


class OddNumber(float, metaclass=EqualsAll):
    def __ceil__(self) -> int:
        raise RuntimeError("no number")


def _unsound() -> Done:
    return Done.model_construct(done={"hunter2": 1})  # type: ignore[arg-type]


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
    "evil_future": _await_evil,
    "masked": _raising(lambda: Masked("hunter2")),
    "page": _answering(lambda: Response("<script>", media_type="text/html", headers={"set-cookie": "a=b"})),
    "other_value": _answering(SecretText),
    "unsound": _answering(_unsound),
    "text": _answering(lambda: "text"),
    "dict": _answering(dict),
    "none": _answering(lambda: None),
    "class": _answering(lambda: Done),
    "stream": _answering(lambda: StreamingResponse(iter(()))),
    "large": _answering(lambda: Done(done="x" * 17 * 1024 * 1024)),
}


class Tree(Value):
    """A tree."""

    name: str
    branches: list["Tree"] = Field(default_factory=list)


class Hostile(Application):
    id = "hostile"
    title = "Hostile"
    version = "0"

    def calls(self) -> Sequence[Call]:
        return [
            Call("POST", "/acts/{act}", self.act, timeout_s=0.3),
            Call("POST", "/bodies", self.read, timeout_s=0.3),
            Call("POST", "/refusals/{refusal}", self.refuse),
            Call("POST", "/scopes", self.change_scope),
            Call("GET", "/tree", self.tree),
            Call("GET", "/unprintable", self.print),
        ]

    async def act(self, user: User, act: str) -> Done:
        answer: Done = await ACTS[act]()
        return answer

    async def read(self, user: User, body: ExplodingBody) -> Done:
        return Done()

    async def change_scope(self, user: User) -> Done:
        """Changes what it can of its user, and says what it was given."""
        given = f"{user.id} {sorted(user.roles)} {dict(user.scope)}"
        user.scope["organisation"] = "acme"  # type: ignore[index]
        object.__setattr__(user, "id", "bob")
        object.__setattr__(user, "roles", frozenset({"boss"}))
        return Done(done=given)

    async def print(self, user: User) -> Unprintable:
        return Unprintable()

    async def tree(self, user: User) -> Tree:
        return Tree(name="root", branches=[Tree(name="leaf")])

    async def refuse(self, user: User, refusal: str) -> Done:
        if refusal == "odd":
            raise Forbidden(Odd())  # type: ignore[arg-type]
        if refusal == "surrogate":
            raise NotFound("no \ud800 such")
        if refusal == "odd_number":
            raise Forbidden("Later.", retry_after_s=OddNumber(3))
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


class TellsNothing(Again):
    """Made by raising what can't be described."""

    def __init__(self, settings: Any) -> None:
        class Silent(Exception):
            def __str__(self) -> str:
                raise SystemExit(3)

        raise Silent


class Classless:
    @property
    def __class__(self) -> Any:
        raise SystemExit("no class")


classless = Classless()


class Method(str):
    def upper(self) -> str:
        raise RuntimeError("no case")


class OddMethod(NeverStarts):
    id = "odd-method"

    def calls(self) -> Sequence[Call]:
        return [Call(Method("GET"), "/time", self.tell)]  # type: ignore[arg-type]


class TwoFaced(NeverStarts):
    """Changes its declarations once they were read, and can't be closed."""

    id = "two-faced"

    def calls(self) -> Sequence[Call]:
        async def tell(user: User) -> Done:
            return Done()

        self.told = tell
        return [Call("GET", "/time", tell)]

    async def start(self) -> None:
        self.told.__annotations__["user"] = "NoSuchName"

    @property
    def aclose(self) -> Any:
        raise SystemExit("no end")


class Endless(Value):
    """Refers to another model twice, and so on."""

    name: str


def _nested(depth: int) -> type[Value]:
    model: type[Value] = Endless
    for level in range(depth):
        model = create_model(f"Nested{level}", __base__=Value, left=(model, ...), right=(model, ...))
    return model


class Deep(NeverStarts):
    """Its answer has two of the next model at each of many levels."""

    id = "deep"

    def calls(self) -> Sequence[Call]:
        model = _nested(25)

        async def tell(user: User) -> Value:
            raise NotFound

        tell.__annotations__["return"] = model
        return [Call("GET", "/deep", tell)]

    async def start(self) -> None:
        pass


class Guarded(Again):
    class Settings(ApplicationSettings):
        pin: SecretStr
