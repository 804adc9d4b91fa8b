"""The tool `search_documents`: searches a folder of Markdown, and returns its findings as sources."""

import json
from pathlib import Path
from typing import Any

from langchain_core.tools import BaseTool, StructuredTool, ToolException

from agentic_backend.experts.documentation.document_index import Passage, documents_in


def search_tool(folder: Path, about: str) -> BaseTool:
    """A tool that searches `folder`. `about` tells the model the topic of the documents."""

    # Synchronous, so that LangChain runs it in a thread: it reads files.
    def search_documents(query: str) -> tuple[str, dict[str, Any] | None]:
        try:
            documents = documents_in(folder)
        except OSError as error:
            raise ToolException("The documents can't be read.") from error
        if passages := documents.search(query):
            found = json.dumps([passage.shown() for passage in passages], ensure_ascii=False)
            return found, {"parts": [_source(passage) for passage in passages]}
        titles = ", ".join(documents.titles)
        return f"The documents say nothing about {query.strip()[:200]!r}. They are: {titles}.", None

    return StructuredTool.from_function(
        search_documents,
        name="search_documents",
        description=f"Search the documents about {about}. Returns the best passages as a JSON list of objects with "
        "title, heading, file and text.",
        args_schema=_ARGUMENTS,
        response_format="content_and_artifact",
        handle_tool_error=True,
    )


_ARGUMENTS: dict[str, Any] = {
    "type": "object",
    "properties": {"query": {"type": "string", "description": "A few words to look for."}},
    "required": ["query"],
}


def _source(passage: Passage) -> dict[str, str]:
    """A link part that is shown with the result."""
    heading = f": {passage.heading}" if passage.heading != passage.title else ""
    return {"type": "link", "kind": "citation", "title": f"{passage.title}{heading}", "file_name": passage.file}
