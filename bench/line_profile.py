"""Where a turn's time goes: a sampled line profile of the server under load, written to PROFILE.md.

Every few milliseconds of processor time the stack of the main thread is noted; a sampling profile does not slow the
small functions down that a tracing one would blow up. What a person has written below `<!-- by hand -->` stays. Run as
`python line_profile.py`.
"""

import asyncio
import os
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import uvloop
from servers import HERE

from agentic_backend.agents.agent_manager import AgentManager
from agentic_backend.agents.models.chat_models import load_models
from agentic_backend.config.loading import load_settings
from agentic_backend.server.memory import collect_rarely
from agentic_backend.server.process import running
from agentic_backend.telemetry.configuration import configure_logging

CASES = (("one-token", 50, 1500), ("no-delay", 50, 600), ("five-ms", 50, 300))
# The kernel's clock ticks no faster.
_INTERVAL_S = 0.004
_SHOWN = 25
# Functions that take less of a turn are not shown.
_LEAST_MS = 0.05
_BY_HAND = "<!-- by hand -->"
_ABOUT = """\
Made by `make profile`: processor time of the server, sampled in its main thread. Where other threads run, above all
the database's, that is found in the event loop (`asyncio/runners.py`) or behind `os.urandom`, which lets them run."""


class Sampler:
    """Counts, per sample, the line that runs and the functions of ours on the stack above it.

    While another thread runs, the main one is found in the event loop (`asyncio/runners.py`) or where it takes the
    interpreter's lock again, such as behind `os.urandom`.
    """

    def __init__(self) -> None:
        self.samples = 0
        self.cpu_s = 0.0
        self.lines: Counter[str] = Counter()
        self.functions: Counter[tuple[str, ...]] = Counter()
        """By the path of our functions down to one."""
        self.packages: Counter[str] = Counter()

    def __enter__(self) -> "Sampler":
        signal.signal(signal.SIGPROF, self._note)
        signal.setitimer(signal.ITIMER_PROF, _INTERVAL_S, _INTERVAL_S)
        self.cpu_s = time.process_time()
        return self

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)
        self.cpu_s = time.process_time() - self.cpu_s

    def _note(self, _: int, frame: FrameType | None) -> None:
        self.samples += 1
        if frame is not None:
            self.lines[f"{_short(frame)}:{frame.f_lineno}"] += 1
            self.packages[_package(frame)] += 1
        path: list[str] = []
        while frame is not None:
            if "agentic_backend" in frame.f_code.co_filename:
                path.insert(0, f"{_short(frame)} {frame.f_code.co_qualname}")
            frame = frame.f_back
        self.functions.update(tuple(path[: place + 1]) for place in range(len(path)))

    def tables(self, turns: int) -> str:
        """Packages and lines by their own time, our functions below those that call them, in ms per turn."""
        per_turn_ms = self.cpu_s * 1000 / turns
        parts = [f"{self.samples} samples, {per_turn_ms:.1f} ms of processor time per turn."]
        for title, counter in (("package", self.packages), ("line", self.lines)):
            rows = [
                f"| {count / self.samples * per_turn_ms:.2f} | {100 * count / self.samples:.1f} % | `{name}` |"
                for name, count in counter.most_common(_SHOWN)
            ]
            parts.append("\n".join([f"| ms/turn | share | {title} |", "|---|---|---|", *rows]))
        least = _LEAST_MS * self.samples / per_turn_ms
        rows = [
            f"{self.functions[path] * per_turn_ms / self.samples:6.2f} {'  ' * (len(path) - 1)}{path[-1]}"
            for path in self._paths((), least)
        ]
        return "\n\n".join([*parts, "\n".join(["```", *rows, "```"])])

    def _paths(self, above: tuple[str, ...], least: float) -> Iterator[tuple[str, ...]]:
        """The paths of our functions that go on from this one, the dearest first, each before those below it."""
        below = [path for path in self.functions if path[:-1] == above and self.functions[path] >= least]
        for path in sorted(below, key=lambda path: self.functions[path], reverse=True):
            yield path
            yield from self._paths(path, least)


def _short(frame: FrameType) -> str:
    name = frame.f_code.co_filename
    return name.partition("site-packages/")[2] or name.partition("python3.")[2].partition("/")[2] or Path(name).name


def _package(frame: FrameType) -> str:
    name = frame.f_code.co_filename
    if "agentic_backend" in name:
        return "agentic_backend/" + name.partition("agentic_backend/")[2].partition("/")[0]
    return _short(frame).partition("/")[0]


async def profile(agent: str, concurrency: int, turns: int, data: Path) -> str:
    settings = load_settings(None, {"server.port": "0", "data.directory": str(data)})
    agents = AgentManager.load(HERE / "catalog.yaml", settings.models.keys())
    async with running(settings, agents, load_models(settings.models, settings.openai_model)) as addresses:
        with Sampler() as sampler:
            arguments = ["load_client.py", addresses.public, agent, str(concurrency), str(turns)]
            load = await asyncio.create_subprocess_exec(sys.executable, *arguments, cwd=HERE)
            await asyncio.wait_for(load.wait(), 300)
    return f"## {agent}, {concurrency} at a time\n\n{sampler.tables(turns)}\n"


def by_hand(page: str) -> str:
    """The part of the page that is kept, with the mark above it; empty if there is none."""
    _, mark, kept = page.partition(_BY_HAND)
    return f"\n{mark}{kept}" if mark else ""


def main() -> None:
    texts = []
    # As the command `serve` does.
    collect_rarely()
    sys.path.insert(0, str(HERE))
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
    logs = configure_logging("info", form="json")
    logs.limits_floods = True
    with tempfile.TemporaryDirectory() as name, logs.in_background():
        for agent, concurrency, turns in CASES:
            data = Path(name) / agent
            data.mkdir()
            texts.append(uvloop.run(profile(agent, concurrency, turns, data)))
    text = f"# Where a turn's time goes\n\n{_ABOUT}\n\n"
    page = HERE / "PROFILE.md"
    page.write_text(text + "\n".join(texts) + by_hand(page.read_text() if page.exists() else ""))


if __name__ == "__main__":
    main()
