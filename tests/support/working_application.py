"""An application with a worker process."""

from collections.abc import Sequence
from typing import Any

from agentic_backend.application import Application, ApplicationSettings, Call, User, Value, Worker
from support.worker_code import PATH as CODE

PATH = "support.working_application:Working"


class Done(Value):
    """What the worker has answered."""

    answer: Any


class Working(Application):
    """Counts in a process of its own."""

    id = "working"
    title = "Working"
    version = "1"

    class Settings(ApplicationSettings):
        start: int = 0
        fails: bool = False

    def workers(self) -> Sequence[Worker]:
        return [Worker("counter", f"{CODE}:Counter", arguments={"start": self.settings.start})]

    def calls(self) -> Sequence[Call]:
        return [Call("POST", "/{method}", self.work)]

    async def work(self, user: User, method: str) -> Done:
        return Done(answer=await self.in_worker("counter", method, timeout_s=10))

    async def check(self) -> None:
        if self.settings.fails:
            await self.in_worker("counter", "fail")
        await self.in_worker("counter", "count")
