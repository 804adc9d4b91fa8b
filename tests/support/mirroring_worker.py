"""A worker in a process of its own, which mirrors the exchange `e` up to its first message; tests can freeze it.

Started as `python -m support.mirroring_worker DIRECTORY NUMBER COUNT`, where the workers meet. It prints a line once it
has the first event, and one once it has the message.
"""

import asyncio
import sys
from pathlib import Path

from agentic_backend.kpi import Kpi
from agentic_backend.relay.zmq.broadcast import zmq_broadcast
from agentic_backend.relay.zmq.peers import Peers
from support.broadcasting import Instance, until

# Also while it stands still.
PATIENCE_S = 120


async def mirror(peers: Peers) -> None:
    kpi = Kpi()
    async with zmq_broadcast(peers, "mirroring", lambda _: None, kpi.broadcast) as broadcast:
        client = Instance(broadcast, [], kpi).follow("e")
        await until(lambda: client.log.last_seq, PATIENCE_S)
        print("follows", flush=True)
        await until(lambda: client.log.messages, PATIENCE_S)
        print("has the message", flush=True)


if __name__ == "__main__":
    directory, number, count = sys.argv[1:]
    asyncio.run(mirror(Peers(Path(directory), int(number), int(count))))
