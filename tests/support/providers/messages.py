"""Anthropic's Messages."""

from collections.abc import AsyncIterator
from typing import Any

from support.providers.reply import FAULT, INPUT_TOKENS, OUTPUT_TOKENS, Asked, Reply, event, text_in


class Messages:
    path = "/v1/messages"
    model = "claude-of-the-tests"

    def asked(self, body: dict[str, Any]) -> Asked:
        messages: list[dict[str, Any]] = []
        for message in body["messages"]:
            blocks = message["content"] if isinstance(message["content"], list) else []
            uses = [{"id": block["id"]} for block in blocks if block["type"] == "tool_use"]
            results = [block for block in blocks if block["type"] == "tool_result"]
            if results:
                messages += [
                    {"role": "tool", "content": text_in(block["content"]), "tool_call_id": block["tool_use_id"]}
                    for block in results
                ]
            else:
                calls = {"tool_calls": uses} if uses else {}
                messages.append({"role": message["role"], "content": text_in(message["content"])} | calls)
        return Asked(text_in(body.get("system", "")), messages, [tool["name"] for tool in body.get("tools", [])])

    async def writes(self, reply: Reply) -> AsyncIterator[str]:
        # One write, because neither has text yet.
        yield _sent("message_start", message=self._message([], None)) + _sent(
            "content_block_start", index=0, content_block={"type": "text", "text": ""}
        )
        async for word in reply.words():
            yield _sent("content_block_delta", index=0, delta={"type": "text_delta", "text": word})
        if reply.error_after is not None:
            yield _sent("error", error={"type": "overloaded_error", "message": FAULT})
            return
        yield _sent("content_block_stop", index=0)
        for index, call in enumerate(reply.calls, 1):
            block = {"type": "tool_use", "id": call.id, "name": call.name, "input": {}}
            yield _sent("content_block_start", index=index, content_block=block)
            for piece in call.pieces:
                yield _sent(
                    "content_block_delta", index=index, delta={"type": "input_json_delta", "partial_json": piece}
                )
            yield _sent("content_block_stop", index=index)
        reason = "max_tokens" if reply.at_limit else "tool_use" if reply.calls else "end_turn"
        stopped = {"stop_reason": reason, "stop_sequence": None}
        yield _sent("message_delta", delta=stopped, usage=_usage(OUTPUT_TOKENS))
        yield _sent("message_stop")

    def whole(self, reply: Reply) -> dict[str, Any]:
        return self._message([{"type": "text", "text": reply.text}], "end_turn")

    def refusal(self, told: str) -> dict[str, Any]:
        return {"type": "error", "error": {"type": "api_error", "message": told}}

    def _message(self, content: list[dict[str, Any]], stop_reason: str | None) -> dict[str, Any]:
        return {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": self.model,
            "content": content,
            "stop_reason": stop_reason,
            "stop_sequence": None,
            "usage": _usage(OUTPUT_TOKENS if stop_reason else 0),
        }


def _usage(output_tokens: int) -> dict[str, int]:
    return {"input_tokens": INPUT_TOKENS, "output_tokens": output_tokens}


def _sent(kind: str, **payload: Any) -> str:
    return event({"type": kind, **payload}, kind)
