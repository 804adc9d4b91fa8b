"""Records all scenarios with this version.

A program: `python -m compatibility.record_all`, in tests/, writes the folder of this version anew.
"""

import asyncio
import shutil
import tempfile
from contextlib import AsyncExitStack
from importlib.metadata import version
from pathlib import Path

from compatibility.recording import Recording
from compatibility.scenarios import SCENARIOS, Scenario
from compatibility.served import served
from compatibility.transcripts import FOLDER, Json, known_events, write


async def record(name: str, scenario: Scenario, address: str) -> Json:
    async with AsyncExitStack() as stack:
        recording = Recording(address, name, stack)
        await scenario(recording)
    return {"events": sorted(known_events()), "steps": recording.steps}


async def record_all() -> None:
    folder = FOLDER / version("agentic-backend")
    shutil.rmtree(folder, ignore_errors=True)
    with tempfile.TemporaryDirectory() as directory:
        async with served(Path(directory)) as server:
            for name, scenario in SCENARIOS.items():
                write(folder / f"{name}.json", await record(name, scenario, server.address))


if __name__ == "__main__":
    asyncio.run(record_all())
