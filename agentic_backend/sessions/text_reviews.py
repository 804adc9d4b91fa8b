"""TextReviews: lets modules look at texts that stand in no exchange, such as those of applications' calls.

They look as if the texts were said to an agent, or by it, in a query: which modules apply is what its entry, the user's
scopes and policies say, and nothing of what they find is stored.
"""

from dataclasses import dataclass, field
from uuid import uuid4

from agentic_backend.auth.user import User
from agentic_backend.errors import Blocked
from agentic_backend.policy.hook_context import Point, UserFacts
from agentic_backend.policy.hooks.context_building import Subject
from agentic_backend.policy.hooks.exchange_modules import ExchangeModules
from agentic_backend.policy.hooks.module_supervisor import ModuleSupervisor
from agentic_backend.policy.scopes.agents_in_scope import AgentsInScope
from agentic_backend.protocol.messages import Channel
from agentic_backend.protocol.parts import TextPart, text_of


@dataclass(frozen=True, slots=True)
class ReviewedText:
    """What modules have left of a text."""

    text: str = field(repr=False)
    """What people are shown."""
    for_model: str = field(repr=False)
    """What models are given."""
    prompt_additions: tuple[str, ...] = field(default=(), repr=False)
    """Sections for the system prompt, of a text that is said to the agent."""


class TextReviews:
    def __init__(self, agents: AgentsInScope, modules: ModuleSupervisor) -> None:
        self._agents = agents
        self._modules = modules

    async def review(
        self, user: User, agent_id: str, point: Point, text: str, question: str, tool: str, within: str | None
    ) -> ReviewedText:
        """See Application.review."""
        found = self._agents.seen(agent_id, user, {})
        subject = Subject(
            request_id="",
            user=UserFacts(user.id, user.name, user.email, user.roles, user.groups),
            scope=self._modules.scope_facts(found.scope),
            agent=found.agent.settings,
            session=None,
            exchange_id=within or uuid4().hex,
            scope_ids=tuple(found.scope.items()),
        )
        modules = self._modules.of(subject, found.effective.modules)
        if modules is None or not modules.has(point):
            return ReviewedText(text, text)
        match point:
            case Point.BEFORE_AI:
                return await _before(modules, text)
            case Point.AFTER_AI:
                return await _after(modules, text, question)
            case Point.TOOL_RESULT:
                left = str(await modules.tool_result(tool, [tool], text))
                return ReviewedText(left, left)
        raise ValueError(f"review: no text is looked at at {point}")


async def _before(modules: ExchangeModules, text: str) -> ReviewedText:
    looked = await modules.before_ai([TextPart(text=text)])
    if looked.blocked_response is not None:
        raise Blocked(looked.blocked_response)
    additions = tuple(addition.text for addition in looked.prompt_additions)
    return ReviewedText(text_of(looked.parts), text_of(looked.model_parts or looked.parts), additions)


async def _after(modules: ExchangeModules, text: str, question: str) -> ReviewedText:
    reviewed = await modules.after_ai(text, Channel.FINAL, [TextPart(text=question)], None)
    if reviewed.blocked_response is not None:
        raise Blocked(reviewed.blocked_response)
    return ReviewedText(reviewed.text, reviewed.for_model)
