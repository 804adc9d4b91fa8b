"""An application with hooks and chores, which notes what it was told."""

import asyncio
from collections.abc import Sequence
from typing import Any, ClassVar, Literal

from agentic_backend.application import (
    CONTINUE,
    Application,
    ApplicationSettings,
    Chore,
    Hook,
    HookContext,
    HookResult,
    Modifications,
    Point,
    blocked,
)

PATH = "support.watching_application:Watching"


class Watching(Application):
    """Watches sessions and exchanges."""

    id = "watching"
    title = "Watching"
    version = "1"
    made: ClassVar[list["Watching"]] = []

    class Settings(ApplicationSettings):
        agents: Literal["shipped", "all"] = "all"
        act: str = ""

    def __init__(self, settings: Any) -> None:
        super().__init__(settings)
        self.seen: list[str] = []
        self.swept: list[float] = []
        self.made.append(self)

    def hooks(self) -> Sequence[Hook]:
        every = self.settings.agents
        return [
            Hook(Point.SESSION_START, self.opened, agents=every),
            Hook(Point.BEFORE_AI, self.asked, agents=every, timeout_s=0.2, on_failure="block"),
            Hook(Point.AFTER_AI, self.answered, agents=every, timeout_s=0.2),
        ]

    def chores(self) -> Sequence[Chore]:
        return [Chore(self.sweep, every_s=1, timeout_s=0.5)]

    async def opened(self, context: HookContext) -> HookResult:
        self.seen.append("opened")
        return CONTINUE

    async def asked(self, context: HookContext) -> HookResult:
        self.seen.append("asked")
        if self.settings.act == "hang":
            await asyncio.sleep(60)
        if self.settings.act == "exit":
            raise SystemExit
        if self.settings.act == "block":
            return blocked("tested", "Not today.")
        return CONTINUE

    async def answered(self, context: HookContext) -> HookResult:
        self.seen.append("answered")
        return HookResult(modifications=Modifications(response="All is well."))

    async def sweep(self) -> None:
        self.swept.append(asyncio.get_running_loop().time())
        if self.settings.act == "exit":
            raise SystemExit
