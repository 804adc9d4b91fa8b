"""Deciding on what a graph asks, over sockets."""

from typing import Any

from support.chat_client import ChatClient, Event, check_exchange, final_text


def entries(module: str, *names: str) -> list[dict[str, Any]]:
    """The catalog's entries of these graphs of the tests."""
    return [{"id": name, "class_path": f"graphs.{module}:{name}"} for name in names]


async def waiting(client: ChatClient, agent_id: str, message: str = "go") -> Event:
    """Ask, and wait until the agent asks back."""
    await client.send({"message": message, "agent_id": agent_id})
    return await client.until("awaiting_human", "final", "error")


def requests(event: Event) -> list[dict[str, Any]]:
    assert event["type"] == "awaiting_human", event
    found: list[dict[str, Any]] = event["payload"]["requests"]
    return found


def only(event: Event) -> dict[str, Any]:
    [request] = requests(event)
    return request


def on(request: dict[str, Any], action: str, **fields: Any) -> dict[str, Any]:
    """A decision on the call that a request shows."""
    return {"call_id": request["call_id"], "args_sha256": request["args_sha256"], "action": action, **fields}


def frame(event: Event, *decisions: dict[str, Any], answers: dict[str, Any] | None = None) -> dict[str, Any]:
    payload = {"decisions": list(decisions), "answers": answers or {}}
    return {
        "type": "human_resume",
        "session_id": event["session_id"],
        "exchange_id": event["exchange_id"],
        "payload": payload,
    }


async def decide(client: ChatClient, event: Event, *decisions: dict[str, Any], **answers: Any) -> Event:
    """Decide; the next thing that the agent asks, the final, or the refusal of the decision."""
    await client.send(frame(event, *decisions, answers=answers))
    while True:
        came = await client.until("awaiting_human", "final", "error", exchange_id=event["exchange_id"])
        # A socket that is new to the exchange first gets again what it has waited for.
        if came["type"] != "awaiting_human" or came["seq"] > event["seq"]:
            return came


async def answer(client: ChatClient, event: Event, *answers: Any) -> Event:
    """Answer all questions in their order."""
    names = [request["interrupt_id"] for request in requests(event)]
    return await decide(client, event, **dict(zip(names, answers, strict=True)))


def said(client: ChatClient, final: Event) -> str:
    """The text of the final of an exchange that has ended well and kept the contract."""
    assert (final["type"], final.get("status")) == ("final", "ok"), final
    check_exchange([event for event in client.events if event.get("exchange_id") == final["exchange_id"]])
    return final_text([final])
