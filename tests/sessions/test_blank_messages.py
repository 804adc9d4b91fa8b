"""Messages without a word: a session that begins with them goes on."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain_core.messages import AIMessageChunk, BaseMessage, ToolMessage
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGenerationChunk
from langchain_core.tools import tool
from support.chat_client import final_text
from support.sessions import open_sessions

from agentic_backend.offline.model import OfflineChatModel


class BlankModel(OfflineChatModel):
    """Says only a line break before it calls its tool, then that it is done."""

    async def _astream(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        if isinstance(messages[-1], ToolMessage):
            yield ChatGenerationChunk(message=AIMessageChunk("done"))
            return
        yield ChatGenerationChunk(message=AIMessageChunk("\n"))
        call = tool_call_chunk(name="work", args="{}", id=f"call-{len(messages)}", index=0)
        yield ChatGenerationChunk(message=AIMessageChunk("", tool_call_chunks=[call]))


@tool
def work() -> str:
    """Work."""
    return "worked"


async def test_after_a_blank_question_and_a_blank_text_beside_calls_the_session_goes_on(tmp_path: Path) -> None:
    async with open_sessions(tmp_path, {"blank": create_agent(BlankModel(), tools=[work])}) as sessions:
        first = await sessions.ask(" ")
        stored = await sessions.stored(first[0]["session_id"])
        assert [(row["channel"], row["parts"][0].get("text")) for row in stored[:2]] == [
            ("final", " "),
            ("observation", "\n"),
        ]
    # A new process: the history is read from the store.
    async with open_sessions(tmp_path, {"blank": create_agent(BlankModel(), tools=[work])}) as sessions:
        second = await sessions.ask("hello", session_id=first[0]["session_id"])
        assert (second[-1]["status"], final_text(second)) == ("ok", "done")
        third = await sessions.ask("again", session_id=first[0]["session_id"])
        assert (third[-1]["status"], final_text(third)) == ("ok", "done")
