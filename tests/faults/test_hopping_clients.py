"""Clients that go from one instance to the next in the midst of an answer: no word twice, none missing."""

import asyncio
import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from faults.fleet import Fleet, fleet
from faults.sizes import SIZES
from support.contract_client import ContractClient
from support.fault_agents import words
from support.figures import figure
from support.rest_client import rest
from support.stored_session import stored_session

pytestmark = [pytest.mark.redis, pytest.mark.mongodb]

INSTANCES, AT_ONCE = 3, 8
LAST = 150
SCRIPTS = [
    f"words {LAST} 100",
    f"words 20 50 | note {{name}} | words {LAST} 120",
    f"words 30 0 | send {{name}} | words {LAST} 100",
]
TEXTS = {words(count) for count in range(LAST + 1)}


@pytest.fixture
async def instances(directory: Path, mongodb_url: str, redis_url: str) -> AsyncIterator[Fleet]:
    async with fleet(directory, INSTANCES, mongodb_url, AGENTIC_BROADCAST__URL=redis_url) as instances:
        yield instances


async def test_clients_that_hop_between_instances_show_each_word_once(instances: Fleet) -> None:
    resets = lower = hops = 0
    for first in range(0, SIZES.hopping, AT_ONCE):
        numbers = range(first, min(first + AT_ONCE, SIZES.hopping))
        for client, hopped in await asyncio.gather(*(hopping(instances, number) for number in numbers)):
            resets, lower, hops = resets + client.resets, lower + client.lower, hops + hopped
    figure(
        f"{SIZES.hopping} exchanges, each followed by a client that went to another of {INSTANCES} instances at random "
        f"points, {hops} times in all: no word twice, none missing; {resets} resets, {lower} of them below a seq seen"
    )


async def hopping(instances: Fleet, number: int) -> tuple[ContractClient, int]:
    """See one exchange through at instances taken at random; the client, and how often it went on to another."""
    choice = random.Random(number)
    client = Checked(f"user-{number}", simple=bool(number % 2))
    script = SCRIPTS[number % len(SCRIPTS)].format(name=number)
    ask = {"message": script, "client_exchange_id": f"hop-{number}", "agent_id": "approved"}
    hops = 0
    async with asyncio.timeout(60):
        while client.final is None:
            address, for_s = choice.choice(instances.instances).address, choice.expovariate(8)
            if client.exchange_id is None:
                await client.visit(address, ask, for_s)
            elif client.awaiting is not None:
                await client.visit(address, approval(client), for_s)
            else:
                await client.go_on(address, for_s)
            hops += 1
    async with rest(choice.choice(instances.instances), f"dev:user-{number}") as http:
        [exchange] = await stored_session(http, client.session_id or "")
    assert exchange.status == "ok" and exchange.answer == words(LAST)
    assert [client.messages[rank] for rank in sorted(client.messages)] == exchange.messages
    return client, hops


def approval(client: ContractClient) -> dict[str, object]:
    assert client.awaiting is not None
    [request] = client.awaiting["requests"]
    decision = {"call_id": request["call_id"], "args_sha256": request["args_sha256"], "action": "approve"}
    ids = {"session_id": client.session_id, "exchange_id": client.exchange_id}
    return {"type": "human_resume", **ids, "payload": {"decisions": [decision]}}


class Checked(ContractClient):
    """Each text, while it is written, is one that the agent has written so far."""

    def take(self, event: dict[str, object]) -> None:
        if event.get("refused") == "human_resume":
            # Taken already, by a socket that was lost before it could say so.
            self.awaiting = None
            return
        super().take(event)
        for text in self.written.values():
            assert text.strip() in TEXTS, f"shown {text[-60:]!r} after {event['type']} {event.get('seq')}"
