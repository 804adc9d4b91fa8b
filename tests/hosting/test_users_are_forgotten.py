"""An application lets go of what it holds of a user elsewhere, before the user's records are deleted."""

from typing import Any

import pytest

from agentic_backend.application import Application, Kind, Record, StoreUnavailable
from agentic_backend.testing import OpenedApplication, open_application

ME = "http://127.0.0.1/agentic/v1/me"


class Kept(Record):
    place: str


KEPT = Kind("kept", Kept)


class Elsewhere(Application):
    """Keeps something of its users elsewhere."""

    id = "elsewhere"
    title = "Elsewhere"
    version = "1.0.0"
    records = (KEPT,)

    def __init__(self, settings: Any) -> None:
        super().__init__(settings)
        self.forgot: list[tuple[str, list[str]]] = []
        self.failures: list[Exception] = []

    async def forget(self, user_id: str) -> None:
        if self.failures:
            raise self.failures.pop(0)
        kept = await self.records_of(KEPT).of_user(user_id).find()
        self.forgot.append((user_id, [each.value.place for each in kept.records]))


async def kept(opened: OpenedApplication[Elsewhere], user_id: str) -> int:
    return len((await opened.application.records_of(KEPT).of_user(user_id).find()).records)


async def test_it_is_told_while_the_records_are_there() -> None:
    async with open_application(Elsewhere) as opened, opened.client("ann") as ann:
        for user_id in ("ann", "bob"):
            await opened.application.records_of(KEPT).of_user(user_id).add(Kept(place=f"{user_id}'s"))
        assert (await ann.delete(ME)).status_code == 204
        assert opened.application.forgot == [("ann", ["ann's"])]
        assert (await kept(opened, "ann"), await kept(opened, "bob")) == (0, 1)


async def test_one_that_fails_holds_no_deletion_up(caplog: pytest.LogCaptureFixture) -> None:
    async with open_application(Elsewhere) as opened, opened.client("ann") as ann:
        await opened.application.records_of(KEPT).of_user("ann").add(Kept(place="there"))
        opened.application.failures.append(ValueError("secret"))
        assert (await ann.delete(ME)).status_code == 204
        assert await kept(opened, "ann") == 0
    [told] = [record for record in caplog.records if record.message == "application failed"]
    assert (vars(told)["step"], vars(told)["error"]) == ("forget", "ValueError")


async def test_where_the_store_was_away_for_it_its_records_stay_and_the_deletion_comes_again() -> None:
    async with open_application(Elsewhere) as opened, opened.client("ann") as ann:
        await opened.application.records_of(KEPT).of_user("ann").add(Kept(place="there"))
        opened.application.failures.append(StoreUnavailable())
        assert (await ann.delete(ME)).status_code == 503
        assert (await kept(opened, "ann"), opened.application.forgot) == (1, [])
        assert (await ann.delete(ME)).status_code == 204
        assert opened.application.forgot == [("ann", ["there"])]
