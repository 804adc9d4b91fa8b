"""Waits for a moment in which no exchange of this process waits for its first token.

Work that nobody waits for is done then: on a busy event loop it would come between a person's ask and the answer.
"""

import asyncio

from agentic_backend.relay.relay import Relay

# How often a task looks whether there is such a moment, in seconds.
_EVERY_S = 0.05
# How long other work waits at most for such a moment, in seconds.
_LONGEST_S = 10.0


async def wait_for_first_tokens(relay: Relay, longest_s: float = _LONGEST_S) -> None:
    """Wait until no exchange waits for its first token, for at most `longest_s` seconds."""
    clock = asyncio.get_running_loop().time
    gives_up_at = clock() + longest_s
    while relay.awaits_first_token and clock() < gives_up_at:
        await asyncio.sleep(_EVERY_S)
