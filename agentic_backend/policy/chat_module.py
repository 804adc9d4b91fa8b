"""ChatModule: the base class of a module, which sees and may change or block what passes.

A module is one line of `config/modules.yaml`: its class, its points and its settings. The server makes one instance per
process; it serves all exchanges, several at a time. A method that a module does not override is not called.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict

from agentic_backend.policy.hook_context import HookContext
from agentic_backend.policy.hook_result import CONTINUE, HookResult


class ModuleSettings(BaseModel):
    """The base of a module's own settings: unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)


@dataclass(frozen=True, slots=True)
class ModuleServices:
    """What the server gives to modules."""

    ask_model: Callable[[str | None, str, str], Awaitable[str]]
    """Asks a model of the settings (None: the default one) with a system prompt and a text; its usage is recorded."""


class ChatModule:
    reads_messages: bool = False
    """Whether it reads `context.conversation.messages`: they cost each exchange a read of the store.

    The server looks once, when it has made the module.
    """
    Settings: ClassVar[type[ModuleSettings]] = ModuleSettings
    """The model of the module's settings in modules.yaml."""

    def __init__(self, settings: Any, services: ModuleServices) -> None:
        self.settings = settings
        self.services = services

    async def start(self) -> None:
        """Open what the module needs. Awaited once, before the server serves."""

    async def session_start(self, context: HookContext) -> HookResult:
        """A session was opened. Runs beside the server's work; only extractions of the result count."""
        return CONTINUE

    async def session_end(self, context: HookContext) -> HookResult:
        """A session was completed. As `session_start`."""
        return CONTINUE

    async def on_message(self, context: HookContext) -> HookResult:
        """A user's message is stored. Runs beside the exchange; only extractions of the result count."""
        return CONTINUE

    async def before_ai(self, context: HookContext) -> HookResult:
        """Before the user's message is stored and the agent starts, or before what they say in decisions is."""
        return CONTINUE

    async def after_ai(self, context: HookContext) -> HookResult:
        """Before a text of the agent, or a title, is stored: `context.response` has it."""
        return CONTINUE

    async def tool_result(self, context: HookContext) -> HookResult:
        """Before the agent's model is given the result of a tool: `context.response` has it."""
        return CONTINUE

    async def aclose(self) -> None:
        """Close what `start` opened. Awaited once."""
