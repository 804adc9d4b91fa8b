"""OpenAI's Responses, which its newer models need for tools. Each response starts with an empty reasoning item."""

from collections.abc import AsyncIterator
from itertools import count
from typing import Any

from support.providers.reply import FAULT, USAGE, Asked, Reply, ToolUse, event, text_in


class Responses:
    path = "/v1/responses"
    model = "gpt-that-reasons"

    def asked(self, body: dict[str, Any]) -> Asked:
        system, messages = str(body.get("instructions") or ""), []
        for item in body["input"]:
            if item.get("type") == "function_call":
                messages.append({"role": "assistant", "content": "", "tool_calls": [{"id": item["call_id"]}]})
            elif item.get("type") == "function_call_output":
                messages.append({"role": "tool", "content": item["output"], "tool_call_id": item["call_id"]})
            elif item.get("type") == "reasoning":
                continue
            elif item["role"] in ("system", "developer"):
                system += text_in(item["content"])
            else:
                messages.append({"role": item["role"], "content": text_in(item["content"])})
        return Asked(system, messages, [tool["name"] for tool in body.get("tools", [])])

    async def writes(self, reply: Reply) -> AsyncIterator[str]:
        numbers = count()

        def sent(kind: str, **payload: Any) -> str:
            return event({"type": kind, "sequence_number": next(numbers), **payload}, kind)

        reasoning = {"type": "reasoning", "id": "rs_1", "summary": []}
        yield sent("response.created", response=self._response("in_progress", [])) + sent(
            "response.output_item.added", output_index=0, item=reasoning
        )
        begun = False
        async for word in reply.words():
            opening = ""
            if not begun:
                begun = True
                item = {"type": "message", "id": "msg_1", "role": "assistant", "status": "in_progress", "content": []}
                opening = sent("response.output_item.added", output_index=1, item=item)
            place = {"item_id": "msg_1", "output_index": 1, "content_index": 0}
            yield opening + sent("response.output_text.delta", **place, delta=word, logprobs=[])
        if reply.error_after is not None:
            failed = self._response("failed", []) | {"error": {"code": "server_error", "message": FAULT}}
            yield sent("response.failed", response=failed)
            return
        output = [reasoning, *([_message(reply.text)] if begun else [])]
        for call in reply.calls:
            place = {"output_index": len(output), "item_id": f"fc_{call.name}"}
            yield sent("response.output_item.added", output_index=len(output), item=_function_call(call, ""))
            for piece in call.pieces:
                yield sent("response.function_call_arguments.delta", **place, delta=piece)
            output.append(_function_call(call, call.arguments))
        if reply.at_limit:
            cut = self._response("incomplete", output) | {"incomplete_details": {"reason": "max_output_tokens"}}
            yield sent("response.incomplete", response=cut)
        else:
            yield sent("response.completed", response=self._response("completed", output))

    def whole(self, reply: Reply) -> dict[str, Any]:
        return self._response("completed", [_message(reply.text)])

    def refusal(self, told: str) -> dict[str, Any]:
        return {"error": {"message": told, "type": "test"}}

    def _response(self, status: str, output: list[dict[str, Any]]) -> dict[str, Any]:
        details = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
        return {
            "id": "resp_1",
            "object": "response",
            "created_at": 1,
            "status": status,
            "error": None,
            "incomplete_details": None,
            "model": self.model,
            "output": output,
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "usage": {**USAGE, **details} if status == "completed" else None,
        }


def _message(text: str) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": content}


def _function_call(call: ToolUse, arguments: str) -> dict[str, Any]:
    return {
        "type": "function_call",
        "id": f"fc_{call.name}",
        "call_id": call.id,
        "name": call.name,
        "arguments": arguments,
        "status": "completed" if arguments else "in_progress",
    }
