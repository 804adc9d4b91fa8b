"""The tool `search_documents`: searches a folder of Markdown, and returns its findings as numbered sources."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

from langchain_core.tools import BaseTool, StructuredTool, ToolException

from agentic_backend.experts.documentation.document_index import Passage, documents_in
from agentic_backend.experts.documentation.numbers import Numbers


def search_tool(
    folder: Path,
    about: str,
    links: str = "",
    exchange_id: Callable[[], str] = lambda: "",
    numbers: Numbers | None = None,
) -> BaseTool:
    """A tool that searches `folder`. `about` tells the model the topic of the documents.

    `links` is the address of a document, with `{file}` for its path below the folder; empty if they have none.
    `exchange_id` is that of the exchange that calls, in which `numbers` tells the sources apart.
    """
    known = numbers or Numbers()

    # Synchronous, so that LangChain runs it in a thread: it reads files.
    def search_documents(query: str) -> tuple[str, dict[str, Any] | None]:
        try:
            documents = documents_in(folder)
        except OSError as error:
            raise ToolException("The documents can't be read.") from error
        if passages := documents.search(query):
            numbered = [(known.of(exchange_id(), passage), passage) for passage in passages]
            found = json.dumps(
                [{"number": number, **passage.shown()} for number, passage in numbered], ensure_ascii=False
            )
            return found, {"parts": [_source(number, passage, links) for number, passage in numbered]}
        titles = ", ".join(documents.titles)
        return f"The documents say nothing about {query.strip()[:200]!r}. They are: {titles}.", None

    return StructuredTool.from_function(
        search_documents,
        name="search_documents",
        description=f"Search the documents about {about}. Returns the best passages as a JSON list of objects with "
        "number, title, heading, file and text; the number is how to cite it.",
        args_schema=_ARGUMENTS,
        response_format="content_and_artifact",
        handle_tool_error=True,
    )


_ARGUMENTS: dict[str, Any] = {
    "type": "object",
    "properties": {"query": {"type": "string", "description": "A few words to look for."}},
    "required": ["query"],
}


def _source(number: int, passage: Passage, links: str) -> dict[str, str]:
    """A link part for the source with this number."""
    heading = f": {passage.heading}" if passage.heading != passage.title else ""
    source = {"type": "link", "kind": "citation", "title": f"{passage.title}{heading}", "file_name": passage.file}
    address = {"href": links.replace("{file}", quote(passage.file))} if links else {}
    return {**source, **address, "source_id": str(number)}
