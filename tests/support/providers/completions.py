"""OpenAI's Chat Completions."""

from collections.abc import AsyncIterator
from typing import Any

from support.providers.reply import FAULT, INPUT_TOKENS, OUTPUT_TOKENS, USAGE, Asked, Reply, event


class Completions:
    path = "/v1/chat/completions"
    model = "gpt-of-the-tests"

    def asked(self, body: dict[str, Any]) -> Asked:
        first, *messages = body["messages"]
        if first["role"] != "system":
            messages, first = [first, *messages], {"content": ""}
        tools = [tool["function"]["name"] for tool in body.get("tools", [])]
        return Asked(str(first["content"]), messages, tools)

    async def writes(self, reply: Reply) -> AsyncIterator[str]:
        yield self._chunk({"role": "assistant", "content": ""})
        async for word in reply.words():
            yield self._chunk({"content": word})
        for piece in reply.declines.split():
            yield self._chunk({"refusal": f"{piece} "})
        if reply.error_after is not None:
            yield event({"error": {"message": FAULT, "type": "server_error", "code": 503}})
            return
        for index, call in enumerate(reply.calls):
            function = {"name": call.name, "arguments": ""}
            yield self._chunk(
                {"tool_calls": [{"index": index, "id": call.id, "type": "function", "function": function}]}
            )
            for piece in call.pieces:
                yield self._chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
        yield self._chunk({}, "length" if reply.at_limit else "tool_calls" if reply.calls else reply.finish_reason)
        yield "data: [DONE]\n\n"

    def whole(self, reply: Reply) -> dict[str, Any]:
        return self._completion("chat.completion", "stop", message={"role": "assistant", "content": reply.text})

    def refusal(self, told: str) -> dict[str, Any]:
        return {"error": {"message": told, "type": "test"}}

    def _chunk(self, delta: dict[str, Any], finish_reason: str | None = None) -> str:
        return event(self._completion("chat.completion.chunk", finish_reason, delta=delta))

    def _completion(self, kind: str, finish_reason: str | None, **choice: Any) -> dict[str, Any]:
        usage = {
            "prompt_tokens": INPUT_TOKENS,
            "completion_tokens": OUTPUT_TOKENS,
            "total_tokens": USAGE["total_tokens"],
        }
        return {
            "id": "chatcmpl-1",
            "object": kind,
            "created": 1,
            "model": self.model,
            "choices": [{"index": 0, "finish_reason": finish_reason, **choice}],
            "usage": usage if finish_reason else None,
        }
