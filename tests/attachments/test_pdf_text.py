"""The program that reads PDFs stands back behind the server that has started it, which may end it at any time."""

import asyncio
import os
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

from agentic_backend.attachments import examining, pdf_text
from agentic_backend.attachments.examining import Bounds, Examiner
from agentic_backend.errors import BadFrame


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


async def test_what_an_ended_program_has_begun_to_say_is_no_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, pdf = tmp_path / "program.py", tmp_path / "a.pdf"
    program.write_text('import os\nos.write(1, b\'{"text": "half\')\nos.kill(os.getpid(), 9)\n')
    pdf.write_bytes(b"%PDF-1.5")
    monkeypatch.setattr(examining, "_PROGRAM", program)
    with pdf.open("rb") as file, pytest.raises(BadFrame, match="too much time or memory"):
        await Examiner(Bounds(1_000, 1_000)).examine(file, nullcontext())
