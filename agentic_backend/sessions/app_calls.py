"""AppCalls: what a UI resource of an MCP server asks for in the page: calls of tools of that server, and to tell models
something with the user's next message.

Whose server it is, is known from the message that shows the resource. A call passes what a call by a model does: the
agents and tools that the user may use, the approval, the modules that look at results; it is recorded with the
exchange of that message. It uses the session with the server that the agent has, whether the agent works or not.

What a resource tells is looked at as a tool's result, and kept as an attachment that is not sent yet: so the person
sees it, and sends it or not.
"""

import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal
from uuid import uuid4

from langchain_core.messages import ToolMessage

from agentic_backend.agents.agent_factory import WarmAgent
from agentic_backend.agents.runtime_context import RuntimeContext
from agentic_backend.agents.tools.result_marks import FORBIDDEN
from agentic_backend.agents.tools.shown_parts import WithheldText
from agentic_backend.agents.tools.single_call import call_alone
from agentic_backend.agents.tools.tool_guard import allowance_of
from agentic_backend.auth.user import Tokens, User
from agentic_backend.errors import BadFrame, Forbidden, MessageTooLarge, NotFound, SessionCompleted
from agentic_backend.exact_json import can_be_kept
from agentic_backend.exchange.launcher import ExchangeLauncher
from agentic_backend.exchange.services import ExchangeServices
from agentic_backend.exchange.start import ExchangeStart
from agentic_backend.exchange.write.tool_calls import LONGEST, bounded_args
from agentic_backend.kpi.groups.agents import ToolError
from agentic_backend.mcp import APP_PART, POLICY_NAMES, TITLE, policy_metadata
from agentic_backend.policy.scopes.agents_in_scope import AgentsInScope
from agentic_backend.protocol.messages import SessionState
from agentic_backend.protocol.parts import CustomPart
from agentic_backend.sessions.access import asked_by, owned_exchange, owned_session
from agentic_backend.sessions.asking.ask_rate import AskRate
from agentic_backend.sessions.bulkhead import Bulkhead
from agentic_backend.sessions.users.attachments import Attachments
from agentic_backend.sessions.waiting.consent import can_be_shown, require_consent
from agentic_backend.stores.protocol.trail import ToolCallRecord, TrailRecord
from agentic_backend.stores.records import AttachmentRecord, MessageRecord, SessionRecord
from agentic_backend.streaming.content.conversion import bounded
from agentic_backend.text.fenced_code import fenced

# Whoever waits holds a place among the user's requests.
LONGEST_CONTEXT = 16_000
"""Characters of what a resource tells at once."""
_INTRODUCTION = (
    "The document in which the MCP server {server!r} shows the results of its tool {tool!r} tells this, not the user:"
    "\n\n"
)
PER_MINUTE, AT_ONCE, _WAIT_S = 120, 4, 1.0


@dataclass(frozen=True, slots=True)
class AppCall:
    """What a UI resource asks for."""

    tool: str
    arguments: Mapping[str, Any] = field(repr=False)


@dataclass(frozen=True, slots=True)
class AppContext:
    """What a UI resource tells models (`ui/update-model-context`); at least one of the two."""

    texts: Sequence[str] = field(repr=False)
    structured: Mapping[str, Any] | None = field(repr=False)

    def written(self) -> str:
        """As one text. Raises BadFrame, and MessageTooLarge beyond LONGEST_CONTEXT characters."""
        if not can_be_kept(self.structured):
            raise BadFrame("structured_content: it can't be kept as it is")
        told = [*self.texts]
        if self.structured is not None:
            # In one line first: with what each level is indented by, much may become very much.
            _require_short(json.dumps(self.structured, ensure_ascii=False))
            told.append(fenced(json.dumps(self.structured, ensure_ascii=False, indent=1), "json"))
        text = "\n\n".join(told)
        _require_short(text)
        return text


def _require_short(text: str) -> None:
    if len(text) > LONGEST_CONTEXT:
        raise MessageTooLarge(f"texts: with the rest longer than the limit of {LONGEST_CONTEXT} characters")


class AppCalls:
    def __init__(
        self,
        services: ExchangeServices,
        agents: AgentsInScope,
        launcher: ExchangeLauncher,
        attachments: Attachments,
    ) -> None:
        self._services = services
        self._store = services.store
        self._agents = agents
        self._launcher = launcher
        self._attachments = attachments
        self._rate = AskRate(PER_MINUTE, asyncio.get_running_loop().time)
        self._at_once = Bulkhead(
            per_user=AT_ONCE, in_all=None, wait_s=_WAIT_S, content="Too many tools are called at once; try again soon."
        )

    async def call(
        self, user: User, session_id: str, rank: int, call: AppCall, tokens: Tokens | None
    ) -> dict[str, Any]:
        """The result of the call, as MCP has it, for the resource in the message with this rank.

        Raises SessionNotFound, SessionCompleted, NotFound, Forbidden, BadFrame, ApprovalRequired, RateLimited, the
        errors of `AgentManager.get`, AgentUnavailable and StoreUnavailable.
        """
        arguments = dict(call.arguments)
        if not can_be_kept(arguments):
            raise BadFrame("arguments: they can't be kept as they are")
        self._rate.count(user.id)
        async with self._at_once.entered(user.id):
            session, message, part = await self._found(user, session_id, rank)
            return await self._call(user, session, message, part, call, tokens)

    async def tell(self, user: User, session_id: str, rank: int, told: AppContext) -> AttachmentRecord:
        """What the resource in the message with this rank tells, as modules have left it, to be attached to an ask.

        Raises SessionNotFound, SessionCompleted, NotFound, AgentNotFound, Forbidden, BadFrame, MessageTooLarge,
        LimitReached, RateLimited and StoreUnavailable.
        """
        text = told.written()
        self._rate.count(user.id)
        async with self._at_once.entered(user.id):
            session, message, part = await self._found(user, session_id, rank)
            server_id, tool = str(part.data.get("server")), str(part.data.get("tool"))
            text = _INTRODUCTION.format(server=server_id, tool=tool) + text
            start = await self._start_of(user, session, message)
            names = policy_metadata(server_id, tool, tool)[POLICY_NAMES]
            text = await self._looked_at(start, tool, names, text)
            return await self._attachments.add_text(user, f"From {part.data.get('title')} ({server_id}).txt", text)

    async def _looked_at(self, start: ExchangeStart, tool: str, names: Sequence[str], text: str) -> str:
        """What modules leave of it. Raises Forbidden if one has blocked it."""
        modules, trail = self._launcher.modules_of(start), list[TrailRecord]()
        if modules is None:
            return text
        modules.record = trail.extend
        looked = await modules.tool_result(tool, names, text)
        if trail:
            await self._store.add_trail(trail)
        if isinstance(looked, WithheldText):
            raise Forbidden(looked)
        return looked

    async def _found(self, user: User, session_id: str, rank: int) -> tuple[SessionRecord, MessageRecord, CustomPart]:
        """The user's session, and the message in it that shows a resource."""
        # Not before the caller may go on: meanwhile it may have been completed.
        session = await owned_session(self._store, user.id, session_id)
        if session.state is SessionState.COMPLETED:
            raise SessionCompleted
        return session, *await self._shown(session, rank)

    async def _start_of(self, user: User, session: SessionRecord, message: MessageRecord) -> ExchangeStart:
        """The message's exchange, as if the user asked for it now."""
        found = await owned_exchange(self._store, user.id, message.exchange_id)
        record = replace(found, policy=asked_by(user, found.policy))
        entry = self._agents.again(record, user)
        return ExchangeStart(record, entry.agent, session, message, effective=entry.effective)

    async def _shown(self, session: SessionRecord, rank: int) -> tuple[MessageRecord, CustomPart]:
        """The message of this rank, and the part of it that shows a resource."""
        messages = await self._store.messages_after(session.id, rank - 1, 1)
        for message in messages:
            for part in message.parts if message.rank == rank else ():
                if isinstance(part, CustomPart) and part.kind == APP_PART:
                    return message, part
        raise NotFound("This message shows no app.")

    async def _call(
        self,
        user: User,
        session: SessionRecord,
        message: MessageRecord,
        part: CustomPart,
        call: AppCall,
        tokens: Tokens | None,
    ) -> dict[str, Any]:
        start = await self._start_of(user, session, message)
        modules, trail = self._launcher.modules_of(start), list[TrailRecord]()
        if modules is not None:
            modules.record = trail.extend
        agent_id, server_id = str(part.data.get("agent")), str(part.data.get("server"))
        context = replace(self._launcher.context_of(start, tokens, modules), agent_id=agent_id)
        async with self._services.factory.lease(start.agent, context, beside=True) as warm:
            answered, noted = await self._made(warm, agent_id, server_id, call, context, start)
        if noted is not None:
            trail.append(noted)
        if trail:
            await self._store.add_trail(trail)
        if answered.additional_kwargs.get(FORBIDDEN):
            raise Forbidden(answered.text)
        return _result_of(answered)

    async def _made(
        self,
        warm: WarmAgent,
        agent_id: str,
        server_id: str,
        call: AppCall,
        context: RuntimeContext,
        start: ExchangeStart,
    ) -> tuple[ToolMessage, ToolCallRecord | None]:
        """The result, and the record of the call. What a document asks of its own server alone, as to follow what goes
        on there, is not recorded.
        """
        flow = next((agent for agent in warm.agents if agent.settings.id == agent_id), None)
        tool = flow.mcp.app_tool(server_id, call.tool) if flow is not None and flow.mcp is not None else None
        if flow is None or tool is None:
            raise NotFound("The app's server has no such tool for it.")
        is_gated = flow.settings.requires_approval_of(tool.name, tool.metadata)
        if is_gated and not context.permissions.lacking(agent_id, tool.name, tool.metadata):
            shown = {"tool": tool.name, "arguments": dict(call.arguments)}
            title = str((tool.metadata or {}).get(TITLE) or tool.name)
            if not can_be_shown(title, shown):
                raise BadFrame("arguments: they are too long for a person to approve of")
            require_consent(f"mcp:{server_id}", title, shown)
        call_id, at, began = f"app_{uuid4().hex}", self._store.now(), time.monotonic()
        message = await call_alone(tool, call.arguments, call_id, context)
        state, duration_s = _state_of(message), time.monotonic() - began
        told = bounded(message.text if state == "forbidden" else json.dumps(_result_of(message)), LONGEST)
        error: ToolError = "" if state == "success" else "forbidden" if state == "forbidden" else "tool_error"
        self._services.kpi.agents.tool_ended(tool.name, agent_id, duration_s, error)
        allowance = allowance_of(tool.name, tool.metadata) if state != "forbidden" else None
        if not (tool.is_for_models or is_gated or allowance is None or allowance.needs):
            return message, None
        return message, ToolCallRecord(
            id=f"{start.record.id}.{call_id}",
            at=at,
            session_id=start.record.session_id,
            exchange_id=start.record.id,
            user_id=context.user_id,
            agent_id=agent_id,
            call_id=call_id,
            name=tool.name,
            args=bounded_args(dict(call.arguments)),
            state=state,
            result=told if state == "success" else None,
            error=None if state == "success" else told,
            approved_by=context.user_id if is_gated else None,
            allowance=allowance,
            completed_at=self._store.now(),
            duration_ms=round(duration_s * 1000),
        )


def _state_of(message: ToolMessage) -> Literal["success", "error", "forbidden"]:
    if message.additional_kwargs.get(FORBIDDEN):
        return "forbidden"
    return "error" if message.status == "error" or _result_of(message).get("isError") else "success"


def _result_of(message: ToolMessage) -> dict[str, Any]:
    """The result, as MCP has it, as far as modules have left one."""
    parts = message.artifact["parts"] if isinstance(message.artifact, dict) else []
    for part in parts:
        if part["type"] == "custom":
            found: dict[str, Any] = part["data"]
            return found
    told = parts[0]["text"] if parts else message.text
    return {"content": [{"type": "text", "text": told}], "isError": True}
