"""A Firefox as it comes from its makers, driven by WebDriver BiDi (https://w3c.github.io/webdriver-bidi)."""

import asyncio
import itertools
import json
import re
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from websockets.asyncio.client import ClientConnection, connect

from support.chat_client import PATIENCE_S
from support.services import require

_LISTENS = re.compile(r"WebDriver BiDi listening on (ws://\S+)")
_START_S = 60
# From one frame to the next; what follows an answer, or is shown in steps, moves what is below.
_STANDS_STILL = """await new Promise((tell) => {
  const top = () => document.querySelector(`%s`)?.getBoundingClientRect().top;
  const before = top();
  requestAnimationFrame(() => requestAnimationFrame(() => tell(before !== undefined && top() === before)));
})"""
_EACH_S = 0.1


class FirefoxTab:
    """One tab. `problems` are the errors that its console has shown so far."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._ids = itertools.count(1)
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._context = ""
        self.problems: list[str] = []

    async def begin(self) -> None:
        await self._call("session.new", capabilities={})
        await self._call("session.subscribe", events=["log.entryAdded"])
        tree = await self._call("browsingContext.getTree")
        self._context = tree["contexts"][0]["context"]

    async def open(self, url: str) -> None:
        await self._call("browsingContext.navigate", context=self._context, url=url, wait="interactive")

    async def reload(self) -> None:
        await self._call("browsingContext.reload", context=self._context, wait="interactive")

    async def click(self, selector: str) -> None:
        """With the mouse, as a person does, who clicks nothing that moves."""
        await self.until(_STANDS_STILL % selector)
        found = await self._call(
            "browsingContext.locateNodes", context=self._context, locator={"type": "css", "value": selector}
        )
        [node, *_] = found["nodes"]
        origin = {"type": "element", "element": {"sharedId": node["sharedId"]}}
        moves = [
            {"type": "pointerMove", "x": 0, "y": 0, "origin": origin},
            {"type": "pointerDown", "button": 0},
            {"type": "pointerUp", "button": 0},
        ]
        await self._act({"type": "pointer", "id": "mouse", "actions": moves})

    async def type(self, text: str) -> None:
        """By keys; a line feed is Enter."""
        keys = [{"type": kind, "value": sign} for sign in text.replace("\n", "\ue007") for kind in ("keyDown", "keyUp")]
        await self._act({"type": "key", "id": "keyboard", "actions": keys})

    async def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression that is a text, a number or a truth value."""
        target = {"context": self._context}
        done = await self._call("script.evaluate", expression=expression, target=target, awaitPromise=True)
        assert done["type"] == "success", done
        return done["result"].get("value")

    async def until(self, condition: str) -> None:
        """Wait until the JavaScript expression holds."""
        async with asyncio.timeout(PATIENCE_S):
            while not await self.evaluate(f"(async () => Boolean({condition}))()"):
                await asyncio.sleep(_EACH_S)

    async def listen(self) -> None:
        async for data in self._socket:
            message = json.loads(data)
            if message["type"] == "event":
                entry = message["params"]
                if entry["level"] == "error":
                    self.problems.append(entry["text"] or "")
            elif (answer := self._answers.pop(message.get("id", 0), None)) is not None and not answer.done():
                answer.set_result(message)

    async def _act(self, *actions: dict[str, Any]) -> None:
        await self._call("input.performActions", context=self._context, actions=list(actions))

    async def _call(self, method: str, **parameters: Any) -> Any:
        number = next(self._ids)
        self._answers[number] = asyncio.get_running_loop().create_future()
        await self._socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        async with asyncio.timeout(PATIENCE_S):
            answer = await self._answers[number]
        assert answer["type"] == "success", answer
        return answer["result"]


@asynccontextmanager
async def firefox(directory: Path) -> AsyncIterator[FirefoxTab]:
    """A new Firefox with its own profile in `directory`. Skips or fails the test if there is none (see `require`)."""
    program = shutil.which("firefox-esr") or shutil.which("firefox")
    require("Firefox", program is not None, "there is no `firefox-esr` or `firefox`")
    assert program is not None
    profile = directory / "profile"
    profile.mkdir()
    process = await asyncio.create_subprocess_exec(
        *(
            program,
            "--headless",
            "--no-remote",
            "--profile",
            str(profile),
            "--remote-debugging-port",
            "0",
            "about:blank",
        ),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        env={"HOME": str(directory), "PATH": "/usr/bin:/bin"},
    )
    try:
        assert process.stderr is not None
        async with asyncio.timeout(_START_S):
            while (listens := _LISTENS.search((await process.stderr.readline()).decode(errors="replace"))) is None:
                assert not process.stderr.at_eof(), "Firefox has ended"
        reading = asyncio.create_task(process.stderr.read())
        async with connect(f"{listens[1]}/session", max_size=None) as socket:
            tab = FirefoxTab(socket)
            listening = asyncio.create_task(tab.listen())
            await tab.begin()
            yield tab
        await listening
    finally:
        process.kill()
        await process.wait()
    await reading
