"""An application that streams events, well and otherwise."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Literal

from agentic_backend.application import Application, Call, NotFound, User, Value

PATH = "support.streaming_application:Streaming"


class Step(Value):
    """A step of a run."""

    type: Literal["step"] = "step"
    name: str


class Done(Value):
    """The run is over."""

    type: Literal["done"] = "done"
    by: str


class Streaming(Application):
    """Streams."""

    id = "streaming"
    title = "Streaming"
    version = "1.0.0"
    ended = 0
    """How many streams have ended."""

    def calls(self) -> Sequence[Call]:
        return [
            Call("GET", "/runs/{run}", self.follow_run, errors=[NotFound], timeout_s=0.3),
            Call("GET", "/api/run/{run}/stream", self.follow_at_root, at_root=True),
            Call("GET", "/ended", self.count_ended),
        ]

    async def follow_run(self, user: User, run: str) -> AsyncIterator[Step | Done]:
        """The steps of a run."""
        if run == "missing":
            raise NotFound("There is no such run.")
        try:
            yield Step(name="first \u2028 line")
            if run == "refuses":
                raise NotFound("It is gone.")
            if run == "raises":
                raise ValueError("hunter2")
            if run == "odd":
                yield Other(name="hunter2")  # type: ignore[misc]
            if run == "large":
                yield Step(name="a" * 2_000_000)
            if run == "hangs":
                await asyncio.sleep(30)
            while run == "endless":
                await asyncio.sleep(0.01)
                yield Step(name="more")
            yield Done(by=user.id)
        finally:
            type(self).ended += 1

    async def follow_at_root(self, user: User, run: str) -> AsyncIterator[Done]:
        """The end of a run."""
        yield Done(by=run)

    async def count_ended(self, user: User) -> Done:
        """How many have ended."""
        return Done(by=str(self.ended))


class Other(Step):
    """An event that is not declared."""
