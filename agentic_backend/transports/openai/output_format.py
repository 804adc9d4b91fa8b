"""OutputFormat: JSON as an answer, by a schema that the client gives.

The agent is asked for it in words, beside the message, since an agent may have any graph. Its answer is checked before
the client has any of it.
"""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agentic_backend.errors import AnswerInvalid
from agentic_backend.sessions.waiting.input_check import flaw

_ASKED = "Answer with nothing but one JSON object, without any words or marks around it."
_BY_SCHEMA = " It follows this JSON Schema:\n\n{}"
_FENCE, _LANGUAGE = "```", "json"


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
        found = _unfenced(text.strip())
        problem = await asyncio.to_thread(self._problem, found)
        if problem is not None:
            raise AnswerInvalid(f"The answer is not what the request's format asks for: {problem}")
        return found

    def _problem(self, text: str) -> str | None:
        try:
            value = json.loads(text, parse_constant=_refuse)
        except (ValueError, RecursionError):
            return "it is no JSON"
        if not isinstance(value, dict):
            return "it is no JSON object"
        return None if self.schema is None else flaw(value, self.schema)


def _unfenced(text: str) -> str:
    """What is within the fence of Markdown that is all of `text`; `text` if there is none."""
    first, _, rest = text.partition("\n")
    is_begun = first.startswith(_FENCE) and first.removeprefix(_FENCE).strip() in ("", _LANGUAGE)
    return rest.removesuffix(_FENCE).strip() if is_begun and rest.endswith(_FENCE) else text


def _refuse(constant: str) -> Any:
    """NaN and the infinities, which only Python takes for JSON."""
    raise ValueError(constant)
