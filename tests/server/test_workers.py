"""The processes of workers, apart from what they serve."""

import asyncio
import sys
from pathlib import Path

from support.log_lines import log_lines

FAILING = """
import sys
from agentic_backend.config.loading import load_settings
from agentic_backend.server.reload.hangups import Hangups
from agentic_backend.server.process import bind
from agentic_backend.server.service_notify import ServiceNotify
from agentic_backend.server.workers.workers import Workers
from agentic_backend.telemetry import configure_logging

def work(*arguments):
    raise RuntimeError("said by a person")

needs = {"server.workers": "2", "broadcast.url": "redis://127.0.0.1:1/0", "store.url": "mongodb://127.0.0.1:1/chat"}
configure_logging("info", form="json")
sys.exit(Workers(load_settings(None, needs), bind("127.0.0.1", 0), None, work, ServiceNotify(), Hangups()).run())
"""


async def test_an_error_that_ends_a_worker_is_a_line_of_the_log_without_its_text(tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", FAILING, cwd=tmp_path, stderr=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(120):
        _, stderr = await process.communicate()
    assert process.returncode == 1
    assert b"said by a person" not in stderr
    lines = log_lines(stderr.decode())
    assert {line["message"] for line in lines} == {"uncaught error"}
    assert lines[0]["exception"][0]["type"] == "builtins.RuntimeError"
