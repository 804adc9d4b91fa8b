"""A model's patch is repaired once, with what was wrong in words, and then refused."""

import pytest

from agentic_backend.applications.negotiation.case.patches import PatchRefused
from agentic_backend.applications.negotiation.case.repairs import Ask, model_patched
from agentic_backend.applications.negotiation.case.snapshot import CaseSnapshot, Issue

SNAPSHOT = CaseSnapshot(domain="salary", template="raise", channel="phone", issues=[Issue(id="pay", title="Pay")])
GOOD = '[{"op": "replace", "path": "/goal", "value": "58"}]'
WRONG_STAGE = '[{"op": "replace", "path": "/stage", "value": "war"}]'


def answering(*answers: str) -> tuple[list[str], Ask]:
    """What is asked, and what asks a model that answers so."""
    asked: list[str] = []
    left = iter(answers)

    async def ask(text: str) -> str:
        asked.append(text)
        return next(left)

    return asked, ask


async def test_a_sound_patch_is_asked_for_once() -> None:
    asked, ask = answering(GOOD)
    assert (await model_patched(SNAPSHOT, "Patch it.", ask)).goal == "58"
    assert asked == ["Patch it."]


async def test_a_refused_patch_is_repaired_once_with_the_reason() -> None:
    asked, ask = answering(WRONG_STAGE, GOOD)
    after = await model_patched(SNAPSHOT, "Patch it.", ask)
    assert (after.goal, after.stage) == ("58", "preparing")
    assert len(asked) == 2 and asked[1].startswith("Patch it.")
    assert WRONG_STAGE in asked[1] and "refused: /stage" in asked[1]


async def test_a_second_refusal_is_the_end() -> None:
    asked, ask = answering("I can't.", WRONG_STAGE, GOOD)
    before = SNAPSHOT.model_dump_json()
    with pytest.raises(PatchRefused, match="/stage"):
        await model_patched(SNAPSHOT, "Patch it.", ask)
    assert len(asked) == 2 and SNAPSHOT.model_dump_json() == before
