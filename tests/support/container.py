"""A built stage of a Dockerfile, run as its user in its directory, with only its own environment."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from support.dockerfile import Stage
from support.processes import children
from support.server_process import PATIENCE_S, ServerProcess


@asynccontextmanager
async def container(image: Stage, environment: Mapping[str, str], *command: str) -> AsyncIterator[ServerProcess]:
    """The image's process, which is its init; killed at the end if it still runs, with what it has started."""
    pipes = {"stdout": asyncio.subprocess.PIPE, "stderr": asyncio.subprocess.PIPE}
    running = ServerProcess(await _start(image, [*command] or image.start, environment, **pipes))
    try:
        yield running
    finally:
        if running.process.returncode is None:
            for child in children(running.pid):
                os.kill(child, signal.SIGKILL)
            running.process.kill()
        await running.ended()


async def health(image: Stage, environment: Mapping[str, str]) -> int:
    """The exit status of the image's health check, in a container that was started with `environment`."""
    nothing = {"stdout": asyncio.subprocess.DEVNULL, "stderr": asyncio.subprocess.DEVNULL}
    check = await _start(image, image.health_check, environment, **nothing)
    async with asyncio.timeout(PATIENCE_S):
        return await check.wait()


async def _start(
    image: Stage, command: list[str], environment: Mapping[str, str], **options: Any
) -> asyncio.subprocess.Process:
    user, group = image.user
    return await asyncio.create_subprocess_exec(
        *command,
        cwd=image.directory,
        env={"HOME": "/", "TMPDIR": str(image.root / "tmp"), **image.environment, **environment},
        user=user,
        group=group,
        extra_groups=[],
        stdin=asyncio.subprocess.DEVNULL,
        **options,
    )
