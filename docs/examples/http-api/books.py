import httpx
from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.tools import ToolException, tool
from pydantic import BaseModel

from agentic_backend.agents.runtime_context import current_context


class BookFields(BaseModel, extra="forbid"):
    base_url: str
    timeout_s: float = 10


def build(model: BaseChatModel, fields: BookFields):
    @tool
    async def find_books(title: str) -> str:
        """Find books by words of their title; returns JSON."""
        # Read at each call: a token may have been renewed meanwhile.
        headers = {"Authorization": f"Bearer {current_context().access_token}"}
        try:
            async with httpx.AsyncClient(base_url=fields.base_url, timeout=fields.timeout_s) as client:
                answer = await client.get("/books", params={"title": title}, headers=headers)
                answer.raise_for_status()
        except httpx.HTTPError as error:
            raise ToolException(f"The library can't be asked: {type(error).__name__}.") from error
        return answer.text

    find_books.handle_tool_error = True
    return create_agent(model, tools=[find_books], system_prompt="You find books in the library.")
