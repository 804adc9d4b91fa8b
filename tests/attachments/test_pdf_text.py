"""The program that reads PDFs stands back behind the server that has started it."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from agentic_backend.attachments import pdf_text


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
async def test_the_program_stands_back_behind_the_server() -> None:
    started = [sys.executable, "-I", pdf_text.__file__, "1", "1000", "5"]
    program = await asyncio.create_subprocess_exec(*started, stdin=asyncio.subprocess.PIPE)
    score = Path(f"/proc/{program.pid}/oom_score_adj")
    try:
        async with asyncio.timeout(20):
            while await asyncio.to_thread(score.read_text) != "1000\n":
                await asyncio.sleep(0.01)
        own = os.getpriority(os.PRIO_PROCESS, 0)
        assert os.getpriority(os.PRIO_PROCESS, program.pid) == min(own + 10, 19)
    finally:
        program.kill()
        await program.wait()
