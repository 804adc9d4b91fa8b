"""Collections of the retrieval application, filled for tests."""

import asyncio
from typing import Any

import httpx

PATH = "agentic_backend.applications.retrieval.application:Retrieval"

BY_WORDS = {"embeddings": False}
"""Settings: the model takes its time, and most tests are of something else."""

FLOOD = """# Home insurance

## Exclusions

Damage by flood is covered only if the building stands outside of zone 4. Damage by groundwater is never covered.

## Deductible

The deductible is 500 euros for each event. It falls to 250 euros after five years without a claim.
"""
LEAVE = """# Leave

Every employee has 28 days of paid leave a year. Leave that is not taken expires on 31 March of the next year.
"""


async def serving(client: httpx.AsyncClient) -> None:
    """Wait until the application has started."""
    async with asyncio.timeout(30):
        while (await client.get("/collections")).status_code != 200:
            await asyncio.sleep(0.02)


async def collection(client: httpx.AsyncClient, title: str, shared_with: str | None = None, **files: str) -> str:
    """A collection with these files, as Markdown; its id. All of them have been read."""
    made = await client.post("/collections", json={"title": title, "shared_with": shared_with})
    assert made.status_code == 201, made.text
    collection_id: str = made.json()["id"]
    for name, text in files.items():
        await put(client, collection_id, f"{name}.md", text.encode())
    await settled(client, collection_id)
    return collection_id


async def put(client: httpx.AsyncClient, collection_id: str, name: str, content: bytes) -> dict[str, Any]:
    answer = await client.post(f"/collections/{collection_id}/documents", files={"file": (name, content)})
    assert answer.status_code == 202, answer.text
    [put] = answer.json()["documents"]
    return dict(put)


async def settled(client: httpx.AsyncClient, collection_id: str) -> dict[str, dict[str, Any]]:
    """The collection's documents by name, once none of them waits."""
    async with asyncio.timeout(60):
        while True:
            found = (await client.get(f"/collections/{collection_id}/documents?limit=200")).json()["documents"]
            if all(each["state"] in ("ready", "failed") for each in found):
                return {each["name"]: each for each in found}
            await asyncio.sleep(0.02)


async def found(client: httpx.AsyncClient, collection_id: str, query: str) -> list[dict[str, Any]]:
    answer = await client.get(f"/collections/{collection_id}/search", params={"q": query})
    assert answer.status_code == 200, answer.text
    passages: list[dict[str, Any]] = answer.json()["passages"]
    return passages
