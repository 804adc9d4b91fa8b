"""A module that takes a name out of what tools find."""

from pathlib import Path

import yaml

from agentic_backend.policy.chat_module import ChatModule
from agentic_backend.policy.hook_context import HookContext
from agentic_backend.policy.hook_result import HookResult, Modifications

NAME = "Rumpelstilz"


class Censoring(ChatModule):
    async def tool_result(self, context: HookContext) -> HookResult:
        text = context.response.text if context.response is not None else ""
        return HookResult(modifications=Modifications(response=f"Found:\n{text.replace(NAME, '[name]')}\n"))


def modules_file(directory: Path) -> Path:
    """A file of modules with this one."""
    entry = {
        "name": "censoring",
        "class_path": "support.censoring_module.Censoring",
        "points": ["chat:tool_result"],
    }
    file = directory / "modules.yaml"
    file.write_text(yaml.safe_dump({"modules": [entry]}))
    return file
