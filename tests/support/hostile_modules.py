"""Modules that do what authors' modules may do: change, block, fail, hang, answer anything."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from agentic_backend.policy.chat_module import ChatModule, ModuleSettings
from agentic_backend.policy.hook_context import HookContext
from agentic_backend.policy.hook_result import CONTINUE, Audit, Extraction, HookResult, Modifications, blocked
from agentic_backend.policy.hooks.modules_file import ModuleSpec, read_modules
from agentic_backend.protocol.parts import TextPart
from support.further_cases import further

PATH = "support.hostile_modules"


class Acting(ChatModule):
    """Does at each point what its settings say for it, and notes what it was told."""

    reads_messages = True

    class Settings(ModuleSettings):
        before: str = ""
        after: str = ""
        tool: str = ""
        word: str = "secret"

    def __init__(self, settings: Any, services: Any) -> None:
        super().__init__(settings, services)
        self.seen: list[HookContext] = []
        MADE.append(self)

    async def before_ai(self, context: HookContext) -> HookResult:
        assert context.conversation.current is not None
        return await self._act(self.settings.before, context, context.conversation.current.text)

    async def after_ai(self, context: HookContext) -> HookResult:
        assert context.response is not None
        return await self._act(self.settings.after, context, context.response.text)

    async def tool_result(self, context: HookContext) -> HookResult:
        assert context.response is not None
        return await self._act(self.settings.tool, context, context.response.text)

    async def on_message(self, context: HookContext) -> HookResult:
        return self._noted(context)

    async def session_start(self, context: HookContext) -> HookResult:
        return self._noted(context)

    async def session_end(self, context: HookContext) -> HookResult:
        return self._noted(context)

    def _noted(self, context: HookContext) -> HookResult:
        self.seen.append(context)
        return HookResult(extractions=[Extraction("noted", {"hook": str(context.request.hook)})])

    async def _act(self, what: str, context: HookContext, text: str) -> Any:
        self.seen.append(context)
        if what == "block_word":
            return blocked("the word", "That is not said here.", patterns=["w"]) if self._has(text) else CONTINUE
        if what == "redact":
            new = text.replace(self.settings.word, "***")
            return self._changed(message=new, response=new) if self._has(text) else CONTINUE
        if what == "for_model":
            return self._changed(message_for_model=text.replace(self.settings.word, "<WORD>"))
        if what == "back":
            changed = Modifications(response=text.replace("<WORD>", self.settings.word), keep_response_for_model=True)
            return HookResult(modifications=changed)
        if what == "guide":
            return HookResult(modifications=Modifications(prompt_additions=["Be kind."]))
        return await ACTS[what](context)

    def _has(self, text: str) -> bool:
        return self.settings.word in text

    def _changed(self, **changes: Any) -> HookResult:
        return HookResult(modifications=Modifications(**changes), audit=Audit("the word", ["w"]))


MADE: list[Acting] = []
"""The instances that were made, the last one at the end."""


async def _nothing(context: HookContext) -> Any:
    return CONTINUE


async def _raise(context: HookContext) -> Any:
    raise RuntimeError("secret of the module")


async def _exit(context: HookContext) -> Any:
    raise SystemExit(3)


async def _cancel(context: HookContext) -> Any:
    raise asyncio.CancelledError


async def _cancel_task(context: HookContext) -> Any:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(10)


async def _hang(context: HookContext) -> Any:
    await asyncio.Event().wait()


async def _hang_stubbornly(context: HookContext) -> Any:
    for _ in range(20):
        try:
            await asyncio.sleep(0.1)
        except asyncio.CancelledError:
            continue
    return CONTINUE


async def _rubbish(context: HookContext) -> Any:
    return {"action": "block"}


async def _huge(context: HookContext) -> Any:
    return HookResult(modifications=Modifications(message="x" * 100_000_000, response="x" * 100_000_000))


async def _surrogate(context: HookContext) -> Any:
    return HookResult(modifications=Modifications(message="\ud800", response="\ud800"))


async def _deep(context: HookContext) -> Any:
    data: dict[str, Any] = {}
    for _ in range(10_000):
        data = {"in": data}
    return HookResult(extractions=[Extraction("deep", data)])


class Lazy(HookResult):
    @property
    def action(self) -> Any:  # type: ignore[override]
        raise RuntimeError("secret of the module")


class CancelledWhenRead(HookResult):
    @property
    def modifications(self) -> Any:  # type: ignore[override]
        raise asyncio.CancelledError


class Endless(list[Any]):
    def __iter__(self) -> Any:
        while True:
            yield "x"


class Shrunken(str):
    def __len__(self) -> int:
        return 0


class Lying:
    @property
    def __class__(self) -> Any:
        return bool


class Small(int):
    def __abs__(self) -> int:
        return 0


class Calling(TextPart):
    def model_dump(self, **_: Any) -> dict[str, Any]:
        return {"type": "tool_call", "call_id": "1", "name": "x", "args": {}}


class Untold(Exception):
    """Whoever describes it runs the module's code."""

    def __str__(self) -> str:
        raise SystemExit(4)

    @property
    def __class__(self) -> Any:
        raise RuntimeError("secret of the module")


class Nameless(type):
    @property
    def __name__(cls) -> Any:
        return "\ud800" * 1_000_000


class Unnamed(Exception, metaclass=Nameless):
    pass


async def _untold(context: HookContext) -> Any:
    raise Untold


async def _unnamed(context: HookContext) -> Any:
    raise Unnamed


async def _lying_data(context: HookContext) -> Any:
    return HookResult(extractions=[Extraction("x", {"a": Lying()})])


async def _vast_number(context: HookContext) -> Any:
    return HookResult(extractions=[Extraction("x", {"a": Small(10**5_000)})])


async def _other_part(context: HookContext) -> Any:
    return HookResult(modifications=Modifications(message=[Calling(text="x")], response=7))  # type: ignore[arg-type]


async def _lazy(context: HookContext) -> Any:
    return Lazy()


async def _cancelled_when_read(context: HookContext) -> Any:
    return CancelledWhenRead()


async def _no_data(context: HookContext) -> Any:
    return HookResult(extractions=[Extraction("x", None)])  # type: ignore[arg-type]


async def _odd_data(context: HookContext) -> Any:
    return HookResult(extractions=[Extraction("x", ["a", "b"])])  # type: ignore[arg-type]


async def _endless(context: HookContext) -> Any:
    return HookResult(modifications=Modifications(prompt_additions=Endless()))


async def _longer_than_it_says(context: HookContext) -> Any:
    text = Shrunken("x" * 100_000_000)
    return HookResult(modifications=Modifications(message=text, response=text))


async def _unchecked_part(context: HookContext) -> Any:
    part = TextPart.model_construct(text=7)
    return HookResult(modifications=Modifications(message=[part], response=7))  # type: ignore[arg-type]


async def _mutate(context: HookContext) -> Any:
    object.__setattr__(context.user, "id", "somebody")
    for parts in (context.conversation.current.parts if context.conversation.current else (),):
        for part in parts:
            part.__dict__["text"] = "changed by a module"
    object.__setattr__(context, "user", None)
    object.__setattr__(context.tool, "id", "other")
    context.tool.definition.__init__(id="other")  # type: ignore[misc]
    for change in (
        lambda: context.tool.definition.update(id="other"),
        lambda: context.tool.definition["chat"].clear(),
        lambda: context.tool.definition["tags"].append("mine"),
    ):
        try:
            change()
        except (AttributeError, TypeError):
            continue
        raise AssertionError("what a module is told can be changed")
    return CONTINUE


async def _blank(context: HookContext) -> Any:
    return HookResult(modifications=Modifications(message=" ", response=""))


async def _block_silently(context: HookContext) -> Any:
    return HookResult(action="block")


ACTS: dict[str, Any] = {
    "": _nothing,
    "raise": _raise,
    "exit": _exit,
    "cancel": _cancel,
    "cancel_task": _cancel_task,
    "hang": _hang,
    "hang_stubbornly": _hang_stubbornly,
    "rubbish": _rubbish,
    "huge": _huge,
    "surrogate": _surrogate,
    "deep": _deep,
    "mutate": _mutate,
    "blank": _blank,
    "block": _block_silently,
}
UNREADABLE = {
    "lazy": _lazy,
    "cancelled_when_read": _cancelled_when_read,
    "no_data": _no_data,
    "odd_data": _odd_data,
    "endless": _endless,
    "longer_than_it_says": _longer_than_it_says,
    "unchecked_part": _unchecked_part,
    "untold": _untold,
    "unnamed": _unnamed,
    "lying_data": _lying_data,
    "vast_number": _vast_number,
    "other_part": _other_part,
}
ACTS |= UNREADABLE
FAILURES = [
    *("raise", "exit", "cancel", "cancel_task", "hang", "hang_stubbornly", "rubbish", "huge", "surrogate", "deep"),
    *UNREADABLE,
]


def failures(*every_time: str) -> list[Any]:
    """All of them as parameters, of which those run every time; the others where no other test shows them."""
    return [what if what in every_time else further(what) for what in FAILURES]


def entry(name: str = "acting", *, settings: Mapping[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    return {"name": name, "class_path": f"{PATH}:Acting", "settings": dict(settings or {}), **fields}


def specs(directory: Path, *entries: Mapping[str, Any]) -> list[ModuleSpec]:
    """The modules of a file with these entries."""
    file = directory / "modules.yaml"
    file.write_text(yaml.safe_dump({"modules": [dict(one) for one in entries]}))
    return read_modules(file, ["echo"])
