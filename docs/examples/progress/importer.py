import asyncio

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.tools import tool
from langgraph.config import get_stream_writer

from agentic_backend.agents.parts import CodePart, LinkPart, emit_parts


@tool
async def import_rows(count: int) -> str:
    """Import some rows."""
    tell = get_stream_writer()
    for row in range(1, count + 1):
        await asyncio.sleep(0.01)  # your work
        tell({"message": f"row {row} of {count}"})
    emit_parts(
        LinkPart(kind="related", title="The import", href="https://example.org/imports/1"),
        CodePart(language="sql", code="SELECT * FROM rows"),
    )
    return f"Imported {count} rows."


def build(model: BaseChatModel):
    return create_agent(model, tools=[import_rows], system_prompt="You import rows with your tool.")
