"""Its calls, as a server answers them."""

import asyncio

from agentic_backend.testing import open_application

from new_agent import NewAgent


async def greeted() -> str:
    async with open_application(NewAgent, {"greeting": "Welcome"}) as opened:
        async with opened.client("ann") as client:
            return (await client.get("/greetings/Ben")).json()["text"]


def test_it_greets():
    assert asyncio.run(greeted()) == "Welcome, Ben!"
