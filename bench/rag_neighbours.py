"""What others wait for their first token while a person's documents are read and embedded.

`python rag_neighbours.py --data DIR [--rounds 4]`: one server with the retrieval application and an agent that asks no
documents. In each round the same turns are asked twice, five at a time: while nothing is read, and while the texts in
DIR are, whose chunks a second are told too. Some minutes.
"""

import argparse
import asyncio
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import load_client
from figures import median
from servers import Server, product

TURNS, AT_ONCE, AGENT = 60, 5, "five-ms"
APPLICATION = '[{"class_path": "agentic_backend.applications.retrieval.application:Retrieval"}]'
_LONGEST_S = 900


class Collection:
    """A collection at the server, into which the same texts are put again and again."""

    def __init__(self, rest: httpx.AsyncClient, id_: str, texts: Sequence[Path]) -> None:
        self._rest, self._documents, self._texts = rest, f"/collections/{id_}/documents", texts
        self._number = 0

    async def put(self) -> None:
        for each in self._texts:
            self._number += 1
            # No content is like another.
            content = f"{self._number}\n\n{each.read_text()}".encode()
            put = await self._rest.post(self._documents, files={"file": (f"{self._number}.md", content)})
            put.raise_for_status()

    async def documents(self) -> list[dict[str, Any]]:
        page = await self._rest.get(self._documents, params={"limit": 200})
        found: list[dict[str, Any]] = page.raise_for_status().json()["documents"]
        return found

    async def chunks_when_ready(self) -> int:
        async with asyncio.timeout(_LONGEST_S):
            while {each["state"] for each in await self.documents()} != {"ready"}:
                await asyncio.sleep(0.2)
        return sum(each["chunks"] for each in await self.documents())


async def measured(server: Server, texts: Sequence[Path], rounds: int) -> None:
    found: dict[str, list[float]] = {}
    async with httpx.AsyncClient(base_url=f"{server.address}/apps/retrieval", timeout=60) as rest:
        made = (await rest.post("/collections", json={"title": "Bench"})).raise_for_status().json()
        collection = Collection(rest, made["id"], texts)
        # The worker starts with the first ones.
        await collection.put()
        chunks = await collection.chunks_when_ready()
        began = time.monotonic()
        await collection.put()
        more = await collection.chunks_when_ready() - chunks
        print(f"{more / (time.monotonic() - began):.1f} chunks a second while nobody asks")
        for _ in range(rounds):
            alone = await load_client.measure(server, AGENT, AT_ONCE, TURNS)
            # More than is read meanwhile.
            for _ in range(4):
                await collection.put()
            beside = await load_client.measure(server, AGENT, AT_ONCE, TURNS)
            assert any(each["state"] == "waiting" for each in await collection.documents()), "all was read too soon"
            await collection.chunks_when_ready()
            for name in ("first_token_p50", "first_token_p95", "turn_p50"):
                found.setdefault(name, []).append(beside[name] / alone[name])
                print(f"  {name}: alone {alone[name]:.1f} ms, beside {beside[name]:.1f} ms")
    for name, ratios in found.items():
        print(f"{name}: {median(ratios):.2f} x")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=4)
    given = parser.parse_args()
    texts = [each.resolve() for each in sorted(given.data.iterdir()) if each.suffix in (".md", ".txt")]
    with tempfile.TemporaryDirectory() as directory:
        environment = {"AGENTIC_APPLICATIONS": APPLICATION}
        with product(Path(directory), environment=environment) as server:
            asyncio.run(measured(server, texts, given.rounds))


if __name__ == "__main__":
    main()
