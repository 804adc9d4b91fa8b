"""The measure itself: a server that answers is felt as quick, one that is stopped for a while as slow."""

import asyncio
import signal
from pathlib import Path

from support.bystander import bystander
from support.server_process import serving

STOPPED_S = 1.0


async def test_it_feels_a_server_that_stands_still(directory: Path) -> None:
    async with serving(cwd=directory) as server, bystander(server.address, server.internal) as felt:
        server.process.send_signal(signal.SIGSTOP)
        await asyncio.sleep(STOPPED_S)
        server.process.send_signal(signal.SIGCONT)
        await asyncio.sleep(0.3)
    assert felt.answers > 1
    assert max(felt.slowest_s.values()) > STOPPED_S / 2
