"""The tool `search_sessions`: full text over the user's own earlier sessions, with citations that open them."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

from langchain_core.tools import BaseTool, ToolException

from agentic_backend.agents.runtime_context import current_context
from agentic_backend.errors import RateLimited, StoreUnavailable
from agentic_backend.protocol.parts import text_of
from agentic_backend.stores.base import Store
from agentic_backend.stores.protocol.message_search import MessageSearch
from agentic_backend.stores.records import MessageRecord
from agentic_backend.stores.rows import folded
from agentic_backend.tools.tool_making import checked, tool_of

_MOST_WORDS, _MOST_HITS = 8, 10
_AROUND = 200
"""Characters of a snippet on each side of the first word."""
_TITLE = 80


def search_tools(store: Store) -> Sequence[BaseTool]:
    async def search_sessions(query: str) -> tuple[str, dict[str, Any]]:
        """Search what was said in the user's own earlier conversations.

        Args:
            query: Words that a message must all contain, such as "photosynthesis light".
        """
        context = current_context()
        words = list(dict.fromkeys(checked("query", query).split()))[:_MOST_WORDS]
        try:
            found = await store.find_messages(MessageSearch(context.user_id, words, context.session_id, _MOST_HITS))
        except (RateLimited, StoreUnavailable) as error:
            raise ToolException(error.content) from error
        # In a thread, because messages may be long.
        hits = await asyncio.to_thread(lambda: [_hit(message, words) for message in found])
        told = json.dumps({"found": hits}, ensure_ascii=False)
        return told, {"parts": [_citation(message, hit) for message, hit in zip(found, hits, strict=True)]}

    return [tool_of(search_sessions, "sessions:read:self", response_format="content_and_artifact")]


def _hit(message: MessageRecord, words: Sequence[str]) -> dict[str, Any]:
    return {
        "session_id": message.session_id,
        "rank": message.rank,
        "role": message.role.value,
        "said_at": message.timestamp.isoformat(timespec="seconds"),
        "snippet": _snippet(text_of(message.parts), words),
    }


def _snippet(text: str, words: Sequence[str]) -> str:
    """The text around the first of the words; its place is that in the folded text, which is about the same."""
    searched = folded(text)
    places = [place for word in words if (place := searched.find(folded(word))) >= 0]
    start = max(0, min(places, default=0) - _AROUND)
    end = start + 2 * _AROUND
    return f"{'…' if start else ''}{' '.join(text[start:end].split())}{'…' if end < len(text) else ''}"


def _citation(message: MessageRecord, hit: dict[str, Any]) -> dict[str, Any]:
    """A link that opens the session in the chat page."""
    return {
        "type": "link",
        "kind": "citation",
        "href": f"#s={message.session_id}",
        "title": hit["snippet"][:_TITLE],
        "source_id": f"{message.session_id}:{message.rank}",
    }
