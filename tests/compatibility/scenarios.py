"""What clients do, one scenario for each way in which a server answers them."""

from collections.abc import Awaitable, Callable
from typing import Any

from compatibility.recording import Recording
from support.approval_agents import calls

Json = dict[str, Any]
Scenario = Callable[[Recording], Awaitable[None]]

SESSIONS = "/agentic/v1/sessions"
HANGS = "hang after 20 tokens"
MAIL = {"to": "ann@example.org", "body": "Hello", "copies": 1}


def _has_words(count: int) -> Callable[[list[Json]], bool]:
    return lambda events: len(events[-1]["text"].split()) >= count


def _resume(waiting: Json, *decisions: Json, **answers: Any) -> Json:
    payload = {"decisions": list(decisions), "answers": answers}
    ids = {"session_id": waiting["session_id"], "exchange_id": waiting["exchange_id"]}
    return {"type": "human_resume", **ids, "payload": payload}


def _decision(waiting: Json, action: str, **more: Any) -> Json:
    [request] = waiting["payload"]["requests"]
    return {"call_id": request["call_id"], "args_sha256": request["args_sha256"], "action": action, **more}


async def streamed_text(talk: Recording) -> None:
    await talk.connect()
    await talk.send({"type": "ask", "message": "write 30 words", "client_exchange_id": "text-1"})
    final = await talk.until("final")
    await talk.send({"message": "hello", "session_id": final["session_id"], "runtime_context": {"page": 7}})
    await talk.until("final")


async def tools(talk: Recording) -> None:
    await talk.connect()
    await talk.send({"message": "tell me what you do: what is 12*34?"})
    await talk.until("final")


async def thoughts(talk: Recording) -> None:
    await talk.connect()
    await talk.send({"message": "think about what is 12*34?"})
    await talk.until("final")


async def parts_and_activities(talk: Recording) -> None:
    await talk.connect()
    await talk.send({"message": "go", "agent_id": "showing"})
    await talk.until("final")


async def _approval(talk: Recording, action: str, **more: Any) -> None:
    await talk.connect()
    await talk.send({"message": calls(("send_email", MAIL)), "agent_id": "approving"})
    waiting = await talk.until("awaiting_human")
    await talk.send(_resume(waiting, _decision(waiting, action, **more)))
    await talk.until("final")


async def approved(talk: Recording) -> None:
    await _approval(talk, "approve")


async def rejected(talk: Recording) -> None:
    await _approval(talk, "reject", message="Not today.")


async def edited(talk: Recording) -> None:
    await _approval(talk, "edit", args={**MAIL, "to": "bob@example.org"})


async def approval_of_something_else(talk: Recording) -> None:
    await talk.connect()
    await talk.send({"message": calls(("send_email", MAIL)), "agent_id": "approving"})
    waiting = await talk.until("awaiting_human")
    await talk.send(_resume(waiting, _decision(waiting, "approve") | {"args_sha256": "0" * 64}))
    await talk.until("error")
    await talk.send({"type": "stop", "session_id": waiting["session_id"]})
    await talk.until("final")
    await talk.send(_resume(waiting, _decision(waiting, "approve")))
    await talk.until("error")


async def answered(talk: Recording) -> None:
    await talk.connect()
    await talk.send({"message": "go", "agent_id": "choosing"})
    waiting = await talk.until("awaiting_human")
    [request] = waiting["payload"]["requests"]
    await talk.send(_resume(waiting, **{request["interrupt_id"]: "l"}))
    await talk.until("final")


async def stopped(talk: Recording) -> None:
    await talk.connect()
    await talk.send({"message": HANGS})
    event = await talk.until("delta", when=_has_words(20))
    await talk.send({"type": "stop", "session_id": event["session_id"], "exchange_id": event["exchange_id"]})
    await talk.until("final")
    await talk.send({"type": "stop", "session_id": event["session_id"]})
    await talk.until("idle")


async def failed_with_partial_text(talk: Recording) -> None:
    await talk.connect()
    await talk.send({"message": "fail after 20 tokens"})
    await talk.until("final")


async def followed(talk: Recording) -> None:
    await talk.connect()
    await talk.connect("tab")
    await talk.send({"message": HANGS, "client_exchange_id": "follow-1"})
    event = await talk.until("delta", when=_has_words(20))
    ids = {"session_id": event["session_id"], "exchange_id": event["exchange_id"]}
    await talk.send({"type": "follow", **ids}, "tab")
    await talk.until("delta", socket="tab", when=_has_words(20))
    await talk.send({"type": "follow", **ids, "after_seq": 1_000_000}, "tab")
    await talk.until("reset", socket="tab")
    # An ask that is sent again begins nothing.
    await talk.connect("again")
    await talk.send({"message": HANGS, "client_exchange_id": "follow-1"}, "again")
    await talk.until("delta", socket="again", when=_has_words(20))
    await talk.send({"type": "stop", **ids})
    await talk.until("final")
    await talk.until("final", socket="tab")
    await talk.until("final", socket="again")
    await talk.send({"type": "follow", "session_id": event["session_id"]})
    await talk.until("idle")
    await talk.send({"type": "unfollow", "session_id": event["session_id"]})
    await talk.send({"type": "ping"})
    await talk.until("pong")


async def named(talk: Recording) -> None:
    await talk.connect()
    await talk.send({"message": "hello"})
    await talk.until("session")


async def refused(talk: Recording) -> None:
    await talk.connect()
    frames: list[Json] = [
        {"type": "wizard"},
        {"message": "hello", "wizard": 1},
        {"message": 5, "client_exchange_id": "refused-1"},
        {"message": "hello", "agent_id": "nobody"},
        {"message": "hello", "session_id": "no-such-session"},
        {"type": "stop", "exchange_id": "no-such-exchange"},
        {"message": "hello", "runtime_context": {"api_key": "k"}},
    ]
    for frame in frames:
        await talk.send(frame)
        await talk.until("error")


async def session_busy(talk: Recording) -> None:
    await talk.connect()
    await talk.send({"message": HANGS})
    event = await talk.until("delta", when=_has_words(20))
    await talk.send({"message": "hello", "session_id": event["session_id"]})
    await talk.until("error")
    await talk.send({"type": "stop", "session_id": event["session_id"]})
    await talk.until("final")


async def query(talk: Recording) -> None:
    await talk.connect()
    await talk.send({"message": "what is 12*34?", "mode": "query"})
    await talk.until("final")
    await talk.call("POST", "/agentic/v1/query", body={"content": "hello"})


async def classic(talk: Recording) -> None:
    await talk.connect(classic=True)
    await talk.send({"type": "ask", "message": "write 30 words", "session_id": None, "client_exchange_id": "classic-1"})
    final = await talk.until("final")
    session = final["session_id"]
    await talk.send(
        {"type": "ask", "message": "fail after 20 tokens", "session_id": session, "agent_name": "assistant"}
    )
    await talk.until("final")
    await talk.call("GET", f"/agentic/v1/chatbot/session/{session}/history")
    await talk.call("GET", "/agentic/v1/chatbot/sessions")
    await talk.call("DELETE", f"/agentic/v1/chatbot/session/{session}")


async def classic_approval(talk: Recording) -> None:
    await talk.connect(classic=True)
    await talk.send(
        {"message": calls(("send_email", MAIL)), "agent_id": "approving", "client_exchange_id": "classic-2"}
    )
    waiting = await talk.until("awaiting_human")
    payload = {"choice_id": "approve", "checkpoint_id": waiting["payload"]["checkpoint_id"]}
    ids = {"session_id": waiting["session_id"], "exchange_id": waiting["exchange_id"]}
    await talk.send({"type": "human_resume", **ids, "payload": payload})
    await talk.until("final")


async def asked_over_sse(talk: Recording) -> None:
    session = await talk.call("POST", SESSIONS, body={"agent_id": "assistant", "title": "Sums"})
    await talk.call("POST", f"{SESSIONS}/{session['id']}/messages", body={"content": "what is 12*34?"})
    waiting = await talk.call("POST", SESSIONS, body={"agent_id": "asking"})
    await talk.call("POST", f"{SESSIONS}/{waiting['id']}/complete", body={})
    await talk.call("POST", f"{SESSIONS}/{waiting['id']}/messages", body={"content": "more"})


async def sessions_and_messages(talk: Recording) -> None:
    for title in ("One", "Two", "Three"):
        session = await talk.call("POST", SESSIONS, body={"title": title})
    await talk.call("POST", f"{SESSIONS}/{session['id']}/messages", body={"content": "what is 12*34?"})
    await talk.call("GET", f"{SESSIONS}/{session['id']}/messages")
    await talk.call("GET", f"{SESSIONS}/{session['id']}/messages", params={"after_rank": 0, "limit": 2})
    page = await talk.call("GET", SESSIONS, params={"limit": 2})
    await talk.call("GET", SESSIONS, params={"limit": 2, "cursor": page["next_cursor"]})
    await talk.call("PATCH", f"{SESSIONS}/{session['id']}", body={"title": "Four"})
    await talk.call("POST", f"{SESSIONS}/{session['id']}/cancel", body={})
    await talk.call("DELETE", f"{SESSIONS}/{session['id']}/state")
    await talk.call("DELETE", f"{SESSIONS}/{session['id']}")
    await talk.call("GET", f"{SESSIONS}/{session['id']}")
    await talk.call("GET", SESSIONS, params={"limit": 0})
    await talk.call("GET", "/agentic/v1/agents")


async def session_stream(talk: Recording) -> None:
    session = await talk.call("POST", "/sessions", body={"toolId": "assistant"})
    path = f"/sessions/{session['id']}"
    await talk.call("POST", f"{path}/messages", body={"content": "what is 12*34?"})
    await talk.call("POST", f"{path}/messages", body={"content": "fail after 20 tokens"})
    await talk.call("GET", path)
    await talk.call("GET", "/sessions")
    await talk.call("GET", f"{path}/messages")
    await talk.call("POST", f"{path}/cancel", body={})
    await talk.call("POST", f"{path}/complete", body={})
    await talk.call("POST", f"{path}/messages", body={"content": "more"})


async def chat_run(talk: Recording) -> None:
    await talk.call("POST", "/api/chat", body={"message": "what is 12*34?", "agentId": "assistant", "runId": "run-1"})
    await talk.call("POST", "/api/chat", body={"message": "fail after 20 tokens", "agentId": "assistant"})
    message = calls(("send_email", MAIL))
    events = await talk.call("POST", "/api/chat", body={"message": message, "agentId": "approving", "runId": "run-2"})
    [asked] = [event for event in events if event["type"] == "tool_approval_requested"]
    decision = {"runId": "run-2", "toolCallId": asked["toolCallId"], "action": "approve"}
    await talk.call("POST", "/api/chat/tool-approval", body=decision)
    await talk.call("POST", "/api/chat/resume", body={"runId": "run-2"})


async def list_of_sessions(talk: Recording) -> None:
    await talk.connect()
    await talk.send({"type": "follow_sessions"})
    await talk.until("following_sessions")
    session = await talk.call("POST", SESSIONS, body={"agent_id": "assistant", "title": "Sums"})
    await talk.until("session")
    await talk.call("DELETE", f"{SESSIONS}/{session['id']}")
    await talk.until("session_deleted")


SCENARIOS: dict[str, Scenario] = {
    scenario.__name__: scenario
    for scenario in (
        streamed_text,
        tools,
        thoughts,
        parts_and_activities,
        approved,
        rejected,
        edited,
        approval_of_something_else,
        answered,
        stopped,
        failed_with_partial_text,
        followed,
        named,
        refused,
        session_busy,
        query,
        classic,
        classic_approval,
        asked_over_sse,
        sessions_and_messages,
        list_of_sessions,
        session_stream,
        chat_run,
    )
}
