"""The whole of it with the model that comes with it: found by what is meant, in another language too."""

from support.collections_of_documents import FLOOD, LEAVE, collection, found, settled

from agentic_backend.applications.retrieval.application import Retrieval
from agentic_backend.testing import open_application


async def test_what_is_meant_is_found_in_another_language() -> None:
    async with open_application(Retrieval) as opened, opened.client("ann") as client:
        terms = await collection(client, "Terms", flood=FLOOD, leave=LEAVE)
        assert all(each["is_embedded"] for each in (await settled(client, terms)).values())
        [best, *_] = await found(client, terms, "Wie viel Urlaub bekommen Angestellte?")
        assert (best["name"], best["ranks"]["vectors"]) == ("leave.md", 1)
        await opened.application.check()
