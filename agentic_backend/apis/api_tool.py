"""ApiTool: one operation of an API as a tool."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any

from jsonschema import Draft202012Validator, ValidationError  # type: ignore[import-untyped]
from jsonschema.validators import extend  # type: ignore[import-untyped]
from langchain_core.tools import BaseTool, ToolException
from pydantic import ConfigDict

from agentic_backend.apis.api_client import ApiClient
from agentic_backend.apis.operation import BadArgument, Operation

_MOST_MISTAKES = 5
_LONGEST_MISTAKE = 200


def _properties(validator: Any, allowed: Any, instance: Any, schema: Mapping[str, Any]) -> Iterator[ValidationError]:
    if "patternProperties" not in schema:
        yield from _ADDITIONAL(validator, allowed, instance, schema)


_ADDITIONAL = Draft202012Validator.VALIDATORS["additionalProperties"]
_Validator = extend(
    Draft202012Validator,
    {
        "additionalProperties": _properties,
        # Python's search for some patterns takes as good as for ever, and holds all threads up. The API checks them.
        **dict.fromkeys(("pattern", "patternProperties", "unevaluatedProperties"), lambda *_: None),
    },
)


class ApiTool(BaseTool):
    client: ApiClient
    operation: Operation
    key_of: Callable[[str], str]
    """Makes the idempotency key of a call, by its id."""
    # A failed result, which the model can react to.
    handle_tool_error: Any = True
    model_config = ConfigDict(arbitrary_types_allowed=True)

    def _to_args_and_kwargs(
        self, tool_input: str | dict[str, Any], tool_call_id: str | None
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        # All arguments as one value: LangChain reserves some names.
        _, arguments = super()._to_args_and_kwargs(tool_input, tool_call_id)
        return (), {"arguments": arguments, "call_id": tool_call_id}

    async def _arun(self, arguments: dict[str, Any], call_id: str | None) -> str:
        # What compares much runs beside the event loop.
        told = await asyncio.to_thread(_mistakes, self.operation.schema, arguments)
        if told:
            raise ToolException(f"The arguments don't fit: {'; '.join(told)}")
        try:
            request = self.operation.request(arguments)
        except BadArgument as error:
            raise ToolException(f"The arguments don't fit: {error}.") from error
        return await self.client.send(request, self.key_of(call_id) if call_id is not None else None)

    def _run(self, /, **arguments: Any) -> Any:
        raise NotImplementedError("Call operations of APIs with ainvoke.")


def _mistakes(schema: Mapping[str, Any], arguments: dict[str, Any]) -> list[str]:
    """The first ones, in words."""
    found = islice(_Validator(schema).iter_errors(arguments), _MOST_MISTAKES)
    try:
        return [f"{mistake.json_path}: {mistake.message[:_LONGEST_MISTAKE]}" for mistake in found]
    except ArithmeticError:
        return ["a number is too large to be checked"]
