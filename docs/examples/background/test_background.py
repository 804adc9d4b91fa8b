import asyncio
import re
from pathlib import Path

from agentic_backend.testing import open_agent

CATALOG = Path(__file__).with_name("agents_catalog.yaml")


async def built():
    """What the call of the tool gives at once, and what the model learns once the work has ended."""
    # The offline model calls what is written out.
    async with open_agent("reports", catalog=CATALOG) as agent, asyncio.timeout(60):
        first = await agent.ask('call build_report(topic="tea")')
        started = first.tool_uses[0].result
        [work] = re.findall(r"as (\S+)\. ", started)
        while True:
            run = await agent.ask(f'call background_result(id="{work}")')
            if "pending" not in run.tool_uses[0].result:
                return started, run.tool_uses[0].result


def test_the_exchange_ends_before_the_work():
    started, result = asyncio.run(built())
    assert "Its result is not known yet" in started
    assert "The report about tea." in result
