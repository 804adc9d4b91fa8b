"""An application with commands: on its records, with a model, and ones that fail."""

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

from agentic_backend.application import Application, Command, Index, Kind, LimitReached, Record, User

PATH = "support.commanded_application:Commanded"


class Line(Record):
    text: str


LINES = Kind("line", Line, owner="application", indexes={"by_text": Index("text")})


class Commanded(Application):
    """Keeps lines of files."""

    id = "commanded"
    title = "Commanded"
    version = "1"
    records = (LINES,)

    def commands(self) -> Sequence[Command]:
        failing = (self.fail, self.refuse, self.await_cancelled, self.wait, self.leave)
        return [Command(each) for each in (self.keep_lines, self.ask, self.tell, self.greet, *failing)]

    async def keep_lines(self, file: Path, times: int = 1, *, prefix: str | None = None, dry_run: bool = False) -> None:
        """Keep the lines of a file, 100 % of them.

        They are told.
        """
        lines = self.records_of(LINES).of_application()
        for _ in range(times):
            for text in file.read_text().splitlines():
                line = Line(text=(prefix or "") + text)
                if not dry_run:
                    await lines.add(line)
                print(line.text)
        print(len((await lines.find()).records), "are kept")

    async def ask(self, text: str, *, purpose_of: str) -> None:
        """Ask a model."""
        print(purpose_of, await self.ask_model("", text))

    async def tell(self, command: str) -> None:
        print(command)

    async def greet(self, *, user: User) -> None:
        print("Hello,", user.id)

    async def await_cancelled(self) -> None:
        task = asyncio.create_task(asyncio.sleep(60))
        task.cancel()
        await task

    async def fail(self) -> None:
        raise ValueError("this one")

    async def refuse(self) -> None:
        raise LimitReached("No more today.")

    async def wait(self) -> None:
        print("waiting", flush=True)
        await asyncio.sleep(600)

    async def leave(self) -> None:
        sys.exit(7)
