"""`open_application`: an application as a server serves it, without a socket, on either store."""

import pytest
from services.mongodb import ON_MONGODB, fresh_database, server_url
from support.glossary import Glossary
from support.hostile_applications import FailsToStart, Unimportable
from support.watching_application import Watching

from agentic_backend.testing import ApplicationProblems, open_application


async def test_its_calls_are_made_as_a_user() -> None:
    async with open_application(Glossary, {"terms": {"ask": "A frame."}}) as opened, opened.client("ann") as client:
        assert (await client.get("/terms")).json() == {
            "terms": [{"term": "ask", "meaning": "A frame."}],
            "asked_by": "ann",
        }
        refused = await client.delete("/terms/ask")
        assert (refused.status_code, refused.json()["error"]["code"]) == (403, "forbidden")
        opened.application.settings.terms.clear()
        assert (await client.get("/terms/ask")).status_code == 404


@pytest.mark.parametrize("kind", ON_MONGODB)
async def test_it_can_be_on_a_database(kind: str, request: pytest.FixtureRequest) -> None:
    async with fresh_database(server_url(kind, request)) as url, open_application(Watching, store=url) as opened:
        await opened.application.sweep()
        assert len(opened.application.swept) == 1


async def test_what_keeps_it_from_serving_is_said() -> None:
    with pytest.raises(ApplicationProblems, match=r"applications\[0\].settings.trems"):
        async with open_application(Glossary, {"trems": {}}):
            pass
    with pytest.raises(ApplicationProblems, match="SystemExit: not here"):
        async with open_application(Unimportable):
            pass
    with pytest.raises(ApplicationProblems, match="'fails-to-start' does not start"):
        async with open_application(FailsToStart):
            pass
