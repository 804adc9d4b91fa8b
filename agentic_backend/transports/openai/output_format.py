"""OutputFormat: JSON as an answer, by a schema that the client gives.

The agent is asked for it in words, beside the message, since an agent may have any graph. Its answer is checked before
the client has any of it.
"""

import asyncio
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agentic_backend.errors import AnswerInvalid
from agentic_backend.sessions.waiting.input_check import flaw

_ASKED = "Answer with nothing but one JSON object, without any words or marks around it."
_BY_SCHEMA = " It follows this JSON Schema:\n\n{}"
_FENCE = re.compile(r"\s*```(?:json)?\s*\n(.*?)\n\s*```\s*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class OutputFormat:
    """Any object, without a `schema`."""

    schema: Mapping[str, Any] | None = field(default=None, repr=False)

    @property
    def instructions(self) -> str:
        if self.schema is None:
            return _ASKED
        return _ASKED + _BY_SCHEMA.format(json.dumps(self.schema, ensure_ascii=False))

    async def checked(self, text: str) -> str:
        """The JSON in an answer. Raises AnswerInvalid if it is none, or another than the schema asks for."""
        fenced = _FENCE.fullmatch(text)
        found = text.strip() if fenced is None else fenced[1].strip()
        problem = await asyncio.to_thread(self._problem, found)
        if problem is not None:
            raise AnswerInvalid(f"The answer is not what the request's format asks for: {problem}")
        return found

    def _problem(self, text: str) -> str | None:
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            return "it is no JSON"
        if not isinstance(value, dict):
            return "it is no JSON object"
        return None if self.schema is None else flaw(value, self.schema)
