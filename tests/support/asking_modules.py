"""A module that asks a model wherever it is called."""

from pathlib import Path
from typing import Any

import yaml

from agentic_backend.policy.chat_module import ChatModule
from agentic_backend.policy.hook_context import HookContext
from agentic_backend.policy.hook_result import CONTINUE, HookResult

POINTS = ["session:start", "session:end", "chat:on_message", "chat:before_ai", "chat:after_ai"]


class AskingModule(ChatModule):
    async def _ask(self, context: HookContext) -> HookResult:
        await self.services.ask_model(None, "You are a module.", f"hello at {context.request.hook}")
        return CONTINUE

    session_start = session_end = on_message = before_ai = after_ai = _ask


def modules_file(directory: Path) -> Path:
    """A file of modules with this one at all points."""
    entry: dict[str, Any] = {"name": "asking", "class_path": "support.asking_modules.AskingModule", "points": POINTS}
    file = directory / "modules.yaml"
    file.write_text(yaml.safe_dump({"modules": [entry]}))
    return file
