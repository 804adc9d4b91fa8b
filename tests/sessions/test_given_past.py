"""A query with the conversation before it, and with what the client's program asks of the agent."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langgraph.graph import MessagesState
from support.hostile_modules import entry, specs
from support.recorded_agents import one_node
from support.sessions import USER, Sessions, open_sessions

from agentic_backend.agents.agent_flow import CompiledGraph
from agentic_backend.config.topics.limits import LimitsSettings
from agentic_backend.errors import MessageTooLarge
from agentic_backend.sessions.asking.attached import GivenFile
from agentic_backend.sessions.asking.turn import PastMessage
from agentic_backend.stores.records import AttachmentRecord

PAST = [PastMessage("user", "I am Ann, secret"), PastMessage("assistant", "Hello Ann"), PastMessage("user", "again")]


def hearing_graph() -> CompiledGraph:
    """Answers with all that it is given."""

    def answer(state: MessagesState) -> dict[str, Any]:
        heard = [f"{message.type}: {message.text}" for message in state["messages"]]
        return {"messages": [AIMessage(" | ".join(heard))]}

    return one_node(answer)


async def heard(sessions: Sessions, message: str, **fields: Any) -> str:
    [*_, final] = await sessions.ask(message, **fields)
    assert final["status"] == "ok"
    return str(final["messages"][-1]["parts"][0]["text"])


async def test_a_query_goes_on_from_what_its_client_tells_of_the_past(tmp_path: Path) -> None:
    async with open_sessions(tmp_path, {"hearing": hearing_graph()}) as sessions:
        told = await heard(sessions, "Who am I?", mode="query", history=PAST)
    assert told == "human: I am Ann, secret | ai: Hello Ann | human: again | human: Who am I?"


async def test_instructions_stand_beside_the_message_and_people_do_not_see_them(tmp_path: Path) -> None:
    async with open_sessions(tmp_path, {"hearing": hearing_graph()}) as sessions:
        told = await heard(sessions, "Who am I?", mode="query", instructions="Be short.")
        assert told.startswith("human: Who am I?\n") and told.endswith("keep to these instructions:\n\nBe short.")
        [*_, final] = await sessions.ask("hello", instructions="Be kind.")
        assert [part["text"] for part in final["messages"][0]["parts"]] == ["hello"]
        later = await heard(sessions, "and?", session_id=final["session_id"])
        assert "Be kind." in later, "later turns have what was asked with earlier ones"


@pytest.mark.parametrize(
    ("does", "past"),
    [
        ("redact", "human: I am Ann, *** | ai: Hello Ann | human: again"),
        ("for_model", "human: I am Ann, <WORD> | ai: Hello Ann | human: again"),
        ("block_word", "human: [blocked] | ai: Hello Ann | human: again"),
    ],
)
async def test_modules_look_at_the_past_too(tmp_path: Path, does: str, past: str) -> None:
    modules = specs(tmp_path, entry(settings={"before": does}))
    async with open_sessions(tmp_path, {"hearing": hearing_graph()}, modules=modules) as sessions:
        assert await heard(sessions, "Who am I?", mode="query", history=PAST) == f"{past} | human: Who am I?"


async def test_modules_look_at_instructions_too(tmp_path: Path) -> None:
    modules = specs(tmp_path, entry(settings={"before": "redact"}))
    async with open_sessions(tmp_path, {"hearing": hearing_graph()}, modules=modules) as sessions:
        assert (await heard(sessions, "hello", mode="query", instructions="a secret")).endswith("\n\na ***")


async def test_long_instructions_are_refused(tmp_path: Path) -> None:
    limits = LimitsSettings(message_bytes=1_024)
    async with open_sessions(tmp_path, {"hearing": hearing_graph()}, limits=limits) as sessions:
        with pytest.raises(MessageTooLarge, match=r"^instructions: "):
            await sessions.ask("hello", mode="query", instructions="a" * 1_025)


def plan() -> GivenFile:
    at = datetime(2026, 12, 1, tzinfo=UTC)
    named = {"id": "f" * 32, "user_id": USER.id, "name": "plan.txt", "mime": "text/plain", "sha256": "0" * 64}
    record = AttachmentRecord(**named, size=14, room=14, created_at=at, text="a secret plan")
    return GivenFile(record, b"a secret plan")


@pytest.mark.parametrize("does", ["redact", "for_model"])
async def test_modules_look_at_files_of_the_past_and_models_are_given_each_text_once(tmp_path: Path, does: str) -> None:
    modules = specs(tmp_path, entry(settings={"before": does}))
    past = [PastMessage("user", "the secret", [plan()]), PastMessage("assistant", "Thanks")]
    async with open_sessions(tmp_path, {"hearing": hearing_graph()}, modules=modules) as sessions:
        told = await heard(sessions, "And?", mode="query", history=past)
    hidden = {"redact": "***", "for_model": "<WORD>"}[does]
    assert told.count(f"the {hidden}") == 1 and told.count(f"a {hidden} plan") == 1 and "secret" not in told
