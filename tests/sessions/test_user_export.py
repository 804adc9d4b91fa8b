"""All of a user's data come out at once, a page at a time, and nothing of anybody else."""

import json
from pathlib import Path
from typing import Any

import pytest
from support.noting_agent import noting_graph
from support.recorded_agents import echoing_graph, eventually
from support.sessions import USER, Sessions, open_sessions, until
from support.test_agents import asking_graph

from agentic_backend.auth.user import User
from agentic_backend.errors import StoreUnavailable
from agentic_backend.sessions.users import user_export
from agentic_backend.sessions.users.user_export import FOR_ADMINS
from agentic_backend.stores.protocol.items import SHARED, ItemBounds
from agentic_backend.stores.tables import OUTLIVE_USERS, PARTIAL_PIECES, TABLES
from tests.stores.samples import CONTENT, a_record, added, an_attachment, an_item, in_pieces
from tests.stores.trail_samples import one_of_each

AGENTS = {"echo": echoing_graph(), "asking": asking_graph, "noting": noting_graph()}
BOB = User(id="bob", name="Bob")
SECRET = "the others' secret"


async def export(sessions: Sessions, user_id: str = USER.id, *, for_admin: bool) -> list[dict[str, Any]]:
    return [json.loads(line) async for line in sessions.user_export.lines(user_id, for_admin=for_admin)]


async def fill(sessions: Sessions) -> None:
    store = sessions.store.real
    for user, word in ((USER, "mine"), (BOB, SECRET)):
        for number in range(3):
            begun = await sessions.begin(f"{word} {number}", user=user)
            await begun.wait_ended()
            await store.add_trail(one_of_each(begun.session_id or "", user.id, word))
            searched: dict[str, Any] = {"searched": f"{word} {number}", "words": f"1 {word}", "vector": b"\xff"}
            own = a_record(f"{number}", user.id, value={"text": word}, **searched)
            of_session = a_record(f"of {number}", user.id, value={"text": word}, session_id=begun.session_id)
            await store.write_application_records(added(own, of_session))
        await (await sessions.begin(f"note {word} 1", user=user, agent_id="noting")).wait_ended()
        asking = await sessions.begin(f"{word} to decide", user=user, agent_id="asking")
        await until(asking, "awaiting_human")
        await store.add_attachment(an_attachment(user_id=user.id, name=f"{word}.png"), in_pieces(CONTENT), 10_000_000)
        await store.put_items([an_item("a", "k", json.dumps(word), owner=user.id)], [], ItemBounds())
    await store.put_items([an_item("a", "shared", owner=SHARED)], [], ItemBounds())
    # A title may still be on its way.
    await eventually(lambda: not sessions.relay._tasks)


async def test_it_has_every_row_of_the_user_and_none_of_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user_export, "_ROWS", 2)
    async with open_sessions(tmp_path, AGENTS) as sessions:
        await fill(sessions)
        [head, *lines, end] = await export(sessions, for_admin=True)
        assert (head["version"], head["user_id"]) == (1, USER.id)
        assert end == {"rows": len(lines)}
        found: dict[str, list[Any]] = {}
        for line in lines:
            found.setdefault(line["table"], []).append(line["row"])
        # No answer was long.
        owned = {table.name for table in TABLES if table not in (*OUTLIVE_USERS, PARTIAL_PIECES)}
        assert set(found) == owned | {"checkpoints", "session_states"}
        for table in TABLES:
            if table.user is not None:
                stored = await sessions.store.real.page(table, None, 100, user_id=USER.id)
                keys = {str(getattr(row, table.key[0])) for row in stored}
                assert {row[table.key[0]] for row in found[table.name]} == keys
                assert len(found[table.name]) == len(stored)
        texts = [part["text"] for row in found["messages"] for part in row["parts"] if part["type"] == "text"]
        assert {"mine 0", "echo: mine 2", "mine to decide"} <= set(texts)
        assert "mine 1" in json.dumps(found["session_states"]) and "mine to decide" in json.dumps(found["checkpoints"])
        assert SECRET not in json.dumps(lines)
        # What is made of a record for searches is not the person's.
        assert not any({"words", "vector"} & {*row} for row in found["application_records"])


async def test_what_only_admins_see_is_not_in_a_persons_own(tmp_path: Path) -> None:
    async with open_sessions(tmp_path, AGENTS) as sessions:
        await fill(sessions)
        whole, own = await export(sessions, for_admin=True), await export(sessions, for_admin=False)
        hidden = {table.name for table in FOR_ADMINS} | {"checkpoints", "session_states"}
        assert [line for line in whole[1:-1] if line["table"] not in hidden] == own[1:-1]
        assert own[-1]["rows"] < whole[-1]["rows"]


async def test_of_nobody_there_is_nothing(tmp_path: Path) -> None:
    async with open_sessions(tmp_path, {"echo": echoing_graph()}) as sessions:
        assert (await export(sessions, "nobody", for_admin=True))[1:] == [{"rows": 0}]


async def test_without_a_store_it_ends_without_its_last_line(tmp_path: Path) -> None:
    async with open_sessions(tmp_path, AGENTS) as sessions:
        await fill(sessions)
        lines: list[bytes] = []
        with sessions.store.away("state_after"), pytest.raises(StoreUnavailable):
            async for line in sessions.user_export.lines(USER.id, for_admin=True):
                lines.append(line)
        assert len(lines) > 3 and b'{"rows"' not in lines[-1]
