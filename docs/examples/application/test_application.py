from team_notes import TeamNotes

from agentic_backend.testing import open_application


async def test_notes_are_shared_and_counted():
    async with open_application(TeamNotes) as opened, opened.client("ann") as ann, opened.client("bob") as bob:
        for text in ("Tea is in the cupboard.", "Coffee is out."):
            assert (await ann.post("/notes", json={"text": text, "topic": "kitchen"})).status_code == 204
        notes = (await bob.get("/notes?topic=kitchen")).json()["notes"]
        assert sorted(notes.values()) == ["Coffee is out.", "Tea is in the cupboard."]
        assert (await bob.delete(f"/notes/{next(iter(notes))}")).status_code == 404
        assert (await ann.delete(f"/notes/{next(iter(notes))}")).status_code == 204
        assert (await bob.get("/topics")).json() == {"topics": {"kitchen": 2}}
        await opened.application.count_again()
        assert (await bob.get("/topics")).json() == {"topics": {"kitchen": 1}}
