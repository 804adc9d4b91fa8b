"""docs/doors.md: its chapters, the fields that it should list, and what its commands print."""

import asyncio
import os
import shutil
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from support.chat_client import PATIENCE_S
from support.running_server import RunningServer
from support.services import require

_GUIDE = (Path(__file__).parents[2] / "docs" / "doors.md").read_text()


def chapter(name: str) -> str:
    return _GUIDE.split(f"\n## {name}\n")[1].split("\n## ")[0]


def fields_of(model: type[Any]) -> str:
    """The names of the fields, with a mark where a field may be absent, as the guide lists them."""
    names = []
    for name, field in model.model_fields.items():
        is_constant = get_origin(field.annotation) is Literal and len(get_args(field.annotation)) == 1
        is_optional = not field.is_required() and not is_constant
        names.append(f"{field.alias or name}{'?' * is_optional}")
    return ", ".join(name for name in names if name != "type")


async def printed(command: str, server: RunningServer, **variables: str) -> str:
    """What a command of the guide prints."""
    require("curl", shutil.which("curl") is not None, "it is not on the PATH")
    command = command.replace("http://127.0.0.1:8000", server.address)
    environment = os.environ | {"TOKEN": "dev:alice"} | variables
    process = await asyncio.create_subprocess_shell(
        command, env=environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    async with asyncio.timeout(PATIENCE_S):
        output, _ = await process.communicate()
    return output.decode()
