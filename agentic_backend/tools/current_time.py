"""The tool `current_time`."""

import asyncio
from collections.abc import Sequence
from datetime import datetime
from zoneinfo import ZoneInfo

from langchain_core.tools import BaseTool, ToolException

from agentic_backend.tools.tool_making import checked, tool_of


def time_tools() -> Sequence[BaseTool]:
    return [tool_of(current_time)]


async def current_time(timezone: str = "UTC") -> dict[str, str]:
    """Tell the current date and time.

    Args:
        timezone: An IANA time zone such as "America/New_York".
    """
    name = checked("timezone", timezone, 64)
    try:
        # In a thread, because the first use of a zone reads its file.
        zone = await asyncio.to_thread(ZoneInfo, name)
    except (KeyError, ValueError, OSError) as error:
        raise ToolException(f"There is no time zone '{name}'; give one such as 'Europe/Paris' or 'UTC'.") from error
    now = datetime.now(zone)
    return {"iso": now.isoformat(timespec="seconds"), "formatted": f"{now:%A}, {now.day} {now:%B %Y, %H:%M %Z}"}
