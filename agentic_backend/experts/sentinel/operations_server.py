"""The MCP server `operations`: health, metrics and log of a server, read from its internal listener.

A separate process, started by an agent's MCP runtime; it speaks MCP over stdio and ends when its standard input closes.
Its results are bounded, because a model has to read them.
"""

import argparse
import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Literal

import httpx
from mcp.server.fastmcp import FastMCP
from mcp.server.fastmcp.exceptions import ToolError
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample
from pydantic import Field

from agentic_backend.system_errors import summary_of

MAX_SAMPLES = 60
MAX_LOG_LINES = 100
_LONGEST_LOG_LINE = 800
_TIMEOUT_S = 5
_LEVELS = ("debug", "info", "warning", "error", "critical")
_LEVEL_OF_LINE = re.compile(r'"level":"(\w+)"')

Level = Literal["debug", "info", "warning", "error"]


def operations_server(internal_url: str) -> FastMCP:
    """The MCP server; an empty URL means that there is no internal listener."""
    server = FastMCP("operations")
    listener = _Listener(internal_url)

    @server.tool(structured_output=False)
    async def server_health() -> str:
        """Tell whether the server is alive, and whether it is ready for questions."""
        live, ready = await listener.get("/health/live"), await listener.get("/health/ready")
        alive = "The server is alive" if live.is_success else f"The server is not alive (HTTP {live.status_code})"
        if ready.is_success:
            return f"{alive} and ready."
        return f"{alive}, but not ready: {ready.json().get('status', 'no reason given')}."

    @server.tool(structured_output=False)
    async def list_metrics() -> str:
        """List the metrics that the server has: name, type, meaning."""
        families = _families(await listener.text("/metrics"))
        told = [family for family in families if not family.name.endswith("_created")]
        return "\n".join(f"{family.name} ({family.type}): {family.documentation}" for family in told)

    @server.tool(structured_output=False)
    async def query_metrics(
        name: Annotated[str, Field(description="A metric's name, or a part of it such as 'exchange'.")],
        labels: Annotated[
            dict[str, str] | None, Field(description="Only samples with these labels, such as {'agent_id': 'team'}.")
        ] = None,
    ) -> str:
        """Give the present values of metrics. Buckets of histograms come only where they are asked for by name."""
        families = _families(await listener.text("/metrics"))
        lines = [_line(sample) for sample in _samples(families, name.strip(), labels or {})]
        if not lines:
            raise ToolError(f"No metric has {name.strip()[:100]!r} in its name and these labels; try list_metrics.")
        more = f"\n[{len(lines) - MAX_SAMPLES} more samples left out]" if len(lines) > MAX_SAMPLES else ""
        return "\n".join(lines[:MAX_SAMPLES]) + more

    @server.tool(structured_output=False)
    async def tail_log(
        lines: Annotated[int, Field(ge=1, le=MAX_LOG_LINES, description="How many lines.")] = 20,
        level: Annotated[Level, Field(description="The least level that they have.")] = "info",
    ) -> str:
        """Give the latest lines of the server's log, the newest last. They are JSON, without texts of messages."""
        told = [line for line in (await listener.text("/log")).splitlines() if _is_at_least(level, line)]
        return "\n".join(line[:_LONGEST_LOG_LINE] for line in told[-lines:]) or f"No line of level {level} or above."

    return server


class _Listener:
    """The server's internal listener."""

    def __init__(self, url: str) -> None:
        self._url = url

    async def get(self, path: str) -> httpx.Response:
        if not self._url:
            raise ToolError("The server has no internal listener: the setting server.internal_port is 0.")
        # Plain HTTP on this machine: no proxy, and no certificates, which are slow to load.
        async with httpx.AsyncClient(base_url=self._url, timeout=_TIMEOUT_S, trust_env=False, verify=False) as client:
            try:
                return await client.get(path)
            except httpx.HTTPError as error:
                raise ToolError(f"The server's internal listener does not answer: {summary_of(error)}.") from error

    async def text(self, path: str) -> str:
        response = await self.get(path)
        if not response.is_success:
            raise ToolError(f"The server's internal listener answered {path} with HTTP {response.status_code}.")
        return response.text


def _families(exposition: str) -> list[Metric]:
    return list(text_string_to_metric_families(exposition))


def _samples(families: list[Metric], name: str, labels: Mapping[str, str]) -> Iterator[Sample]:
    for family in families:
        for sample in family.samples:
            is_asked_for = name == sample.name or (
                name in sample.name and not sample.name.endswith(("_bucket", "_created"))
            )
            if is_asked_for and labels.items() <= sample.labels.items():
                yield sample


def _line(sample: Sample) -> str:
    labels = ", ".join(f"{name}={value!r}" for name, value in sample.labels.items())
    return f"{sample.name}{{{labels}}} {sample.value:g}"


def _is_at_least(level: Level, line: str) -> bool:
    found = _LEVEL_OF_LINE.search(line)
    return found is not None and found[1] in _LEVELS[_LEVELS.index(level) :]


def main() -> None:
    parser = argparse.ArgumentParser(prog="operations_server", description="Health, metrics and log, over MCP.")
    parser.add_argument("--internal", required=True, metavar="URL", help="the server's internal listener")
    operations_server(parser.parse_args().internal).run("stdio")


if __name__ == "__main__":
    main()
