"""ExchangeModules: the modules that apply to one exchange, or to one event of a session, and what comes of them.

They run one after the other, from the lowest priority to the highest; each sees what the earlier ones have left. A
module that fails changes nothing, unless its entry says `on_failure: block`.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from uuid import uuid4

from agentic_backend.agents.tools.shown_parts import WithheldText
from agentic_backend.errors import StoreUnavailable
from agentic_backend.policy.hook_context import HookContext, Point, ResponseFacts
from agentic_backend.policy.hook_result import CONTINUE, HookResult, blocked
from agentic_backend.policy.hooks.context_building import HookContexts, Subject
from agentic_backend.policy.hooks.hook_checks import TEXT_BYTES, replaced
from agentic_backend.policy.hooks.supervised_module import ModuleFailed, SupervisedModule
from agentic_backend.protocol.messages import Channel
from agentic_backend.protocol.parts import Part, text_of
from agentic_backend.stores.base import Store
from agentic_backend.stores.protocol.trail import AuditRecord, ExtractionRecord, ModuleErrorRecord, TrailRecord
from agentic_backend.stores.records import PromptAddition

log = logging.getLogger(__name__)

BLOCKED_TEXT = "[blocked]"
"""What is stored of a text that a module has blocked."""
_UNCHECKED = "This could not be checked, so it is not shown. Please try again later."
_NO_ANSWER = "This can't be answered here."


@dataclass(frozen=True, slots=True)
class LookedAt:
    """What modules have left of the user's message, and the records of it."""

    parts: list[Part] = field(repr=False)
    model_parts: list[Part] = field(default_factory=list, repr=False)
    """What models are given instead; empty: the same."""
    prompt_additions: list[PromptAddition] = field(default_factory=list)
    blocked_response: str | None = field(default=None, repr=False)
    """What the user is shown instead of an answer, if a module has blocked the message."""
    blocked_by: str | None = None
    """The name of that module."""
    trail: list[TrailRecord] = field(default_factory=list, repr=False)

    def followed_by(self, files: "LookedAt") -> "LookedAt":
        """This message, and for models what modules have left of the texts of its files."""
        return replace(
            self,
            model_parts=[*(self.model_parts or self.parts), *(files.model_parts or files.parts)],
            prompt_additions=[*self.prompt_additions, *files.prompt_additions],
            blocked_response=files.blocked_response,
            blocked_by=files.blocked_by,
            trail=[*self.trail, *files.trail],
        )


@dataclass(frozen=True, slots=True)
class Reviewed:
    """What modules have left of a text of the agent, and the records of it."""

    text: str = field(repr=False)
    for_model: str = field(repr=False)
    """What models are later given instead of `text`."""
    blocked_response: str | None = field(default=None, repr=False)
    blocked_by: str | None = None
    """The name of the module that has blocked it."""
    trail: list[TrailRecord] = field(default_factory=list, repr=False)


class ExchangeModules:
    def __init__(
        self,
        modules: Sequence[SupervisedModule],
        subject: Subject,
        store: Store,
        point_timeout_s: float,
    ) -> None:
        """`modules` are those that apply, in the order in which they run."""
        self._modules = modules
        self._subject = subject
        self._store = store
        self._contexts = HookContexts(store, subject)
        self._point_timeout_s = point_timeout_s
        self._clock = asyncio.get_running_loop().time
        self._blocked_by: tuple[SupervisedModule, HookResult] | None = None
        """Which module has blocked a text of the agent, and what it answered."""
        self.record: Callable[[Sequence[TrailRecord]], None] = lambda records: None
        """Stores the records of tools' results with the exchange's next messages."""

    @property
    def holds_output(self) -> bool:
        """Whether people see a text of the agent only when `after_ai` has passed it."""
        return any(module.spec.entry.hold_output and Point.AFTER_AI in module.spec.points for module in self._modules)

    def has(self, point: Point) -> bool:
        """Whether a module applies at this point."""
        return any(point in module.spec.points for module in self._modules)

    async def before_ai(self, parts: Sequence[Part]) -> LookedAt:
        """Let the modules look at the user's message, before it is stored. Raises StoreUnavailable."""
        look = LookedAt(list(parts))
        ends_at = self._clock() + self._point_timeout_s
        makers: list[SupervisedModule] = []
        made_again = False
        for module in self._at(Point.BEFORE_AI):
            reads = module.reads_messages
            context = await self._contexts.at(Point.BEFORE_AI, look.parts, reads_messages=reads)
            before = text_of(look.parts)
            result = await self._call(module, context, ends_at, len(before), look.trail)
            name, changes = module.name, result.modifications
            if result.action == "block":
                return self._blocked_look(look, module, before, result)
            look.prompt_additions.extend(PromptAddition(module=name, text=text) for text in changes.prompt_additions)
            if makers and (changes.message is not None or changes.message_for_model is not None):
                made_again = True
            if changes.message is not None:
                look = replace(look, parts=replaced(look.parts, changes.message))
                look.trail.append(self._audit(module, Point.BEFORE_AI, before, result, None))
            if changes.message_for_model is not None:
                makers.append(module)
                look = replace(look, model_parts=replaced(look.parts, changes.message_for_model))
        return await self._make_model_parts(look, makers, ends_at) if made_again else look

    async def _make_model_parts(self, look: LookedAt, makers: Sequence[SupervisedModule], ends_at: float) -> LookedAt:
        """Let `makers` look once more, each at what the one before has left for models.

        What they made before was of a message that has been replaced, or lacks what another one has kept from models.
        """
        parts = look.parts
        for module in makers:
            context = await self._contexts.at(Point.BEFORE_AI, parts)
            before = text_of(parts)
            result = await self._call_again(module, context, ends_at, len(before), look.trail)
            if result.action == "block":
                return self._blocked_look(look, module, before, result)
            changes = result.modifications
            new = changes.message if changes.message_for_model is None else changes.message_for_model
            if new is not None:
                parts = replaced(parts, new)
        return replace(look, model_parts=[] if parts == look.parts else parts)

    def _blocked_look(self, look: LookedAt, module: SupervisedModule, before: str, result: HookResult) -> LookedAt:
        look.trail.append(self._audit(module, Point.BEFORE_AI, before, result, None))
        return replace(look, blocked_response=_response_of(result), blocked_by=module.name)

    async def after_ai(
        self, text: str, channel: Channel, parts: Sequence[Part], rank: int | None, within_s: float | None = None
    ) -> Reviewed:
        """Let the modules look at a text of the agent, before it is stored as the message with `rank`.

        `parts` are those of the user's message; `within_s` shortens the time that the modules have together.
        """
        return await self._review(Point.AFTER_AI, ResponseFacts(text, channel), parts, rank, within_s)

    async def title(self, title: str, parts: Sequence[Part]) -> Reviewed:
        """Let the modules look at a title that a model has given, as at an answer; `parts` are as in `after_ai`.

        The records are the session's: the exchange's answer is another text.
        """
        facts = ResponseFacts(title, is_title=True)
        reviewed = await self._review(Point.AFTER_AI, facts, parts, None, None)
        return replace(reviewed, trail=[_of_session(record) for record in reviewed.trail])

    def also_blocked(self, text: str, rank: int | None) -> list[TrailRecord]:
        """The records of a text of the agent that is not shown because an earlier one was blocked."""
        if self._blocked_by is None:
            return []
        module, result = self._blocked_by
        return [self._audit(module, Point.AFTER_AI, text, result, rank)]

    async def tool_result(self, tool: str, names: Sequence[str], text: str) -> str:
        """What the agent's model is given of the result of `tool`; a WithheldText if that is blocked. Never raises.

        `names` are all by which policy may mean the tool.
        """
        if not self.has(Point.TOOL_RESULT):
            return text
        facts = ResponseFacts(text, Channel.TOOL_RESULT, tool, tuple(names))
        reviewed = await self._review(Point.TOOL_RESULT, facts, None, None, None)
        self.record(reviewed.trail)
        return reviewed.text if reviewed.blocked_response is None else WithheldText(reviewed.blocked_response)

    async def beside(self, point: Point, parts: Sequence[Part] | None = None) -> None:
        """Call the modules of a point that is in nobody's way, and store what they have found. Never raises."""
        trail: list[TrailRecord] = []
        ends_at = self._clock() + self._point_timeout_s
        try:
            for module in self._at(point):
                context = await self._contexts.at(point, parts, reads_messages=module.reads_messages)
                await self._call(module, context, ends_at, 0, trail)
            if trail and self._subject.session is not None:
                await self._store.add_trail(trail)
        except StoreUnavailable:
            log.warning("findings of modules lost", extra={**self._subject.log_fields, "point": str(point)})

    async def _review(
        self,
        point: Point,
        facts: ResponseFacts,
        parts: Sequence[Part] | None,
        rank: int | None,
        within_s: float | None,
    ) -> Reviewed:
        review = Reviewed(facts.text, facts.text)
        rest_s = self._point_timeout_s if within_s is None else min(within_s, self._point_timeout_s)
        ends_at = self._clock() + rest_s
        for module in self._at(point):
            try:
                said, reads = replace(facts, text=review.text), module.reads_messages
                context = await self._contexts.at(point, parts, said, reads_messages=reads)
            except StoreUnavailable:
                # Without its past, the text can't be judged as the modules were to judge it.
                result = self._after_failure(module, point, "StoreUnavailable", None, 0, review.trail)
            else:
                result = await self._call(module, context, ends_at, len(review.text), review.trail)
            if result.action == "block":
                if point is Point.AFTER_AI:
                    self._blocked_by = module, result
                review.trail.append(self._audit(module, point, review.text, result, rank))
                return replace(review, blocked_response=_response_of(result), blocked_by=module.name)
            response = result.modifications.response
            if response is None or response == review.text:
                continue
            if result.modifications.keep_response_for_model:
                review = replace(review, text=response)
                continue
            review.trail.append(self._audit(module, point, review.text, result, rank))
            for_model = response
            if review.for_model != review.text:
                # What it has changed may have what an earlier module keeps from models.
                told = replace(context, response=replace(facts, text=review.for_model))
                again = await self._call_again(module, told, ends_at, len(review.for_model), review.trail)
                if again.action == "block":
                    review.trail.append(self._audit(module, point, review.for_model, again, rank))
                    return replace(review, blocked_response=_response_of(again), blocked_by=module.name)
                new = again.modifications.response
                for_model = review.for_model if new is None else new
            review = replace(review, text=response, for_model=for_model)
        return review

    def _at(self, point: Point) -> list[SupervisedModule]:
        return [module for module in self._modules if point in module.spec.points]

    async def _call(
        self,
        module: SupervisedModule,
        context: HookContext,
        ends_at: float,
        length: int,
        trail: list[TrailRecord],
    ) -> HookResult:
        """What the module answers, or what its failure comes to; adds the records of it to `trail`."""
        subject, point, began = self._subject, context.request.hook, self._clock()
        longest = max(TEXT_BYTES, 2 * length)
        try:
            result = await module.call(context, ends_at - began, longest, subject.payer, subject.log_fields)
        except ModuleFailed as error:
            took_ms = round(1000 * (self._clock() - began))
            return self._after_failure(module, point, error.error, error.where, took_ms, trail)
        trail.extend(
            ExtractionRecord(
                id=uuid4().hex,
                at=self._store.now(),
                session_id=subject.session_id or "",
                exchange_id=subject.exchange_id,
                user_id=subject.user.id,
                point=str(point),
                module=module.name,
                type=found.type,
                data=dict(found.data),
            )
            for found in result.extractions
        )
        return result

    async def _call_again(
        self, module: SupervisedModule, context: HookContext, ends_at: float, length: int, trail: list[TrailRecord]
    ) -> HookResult:
        """Call a module at another form of a text that it has seen; what it finds there it has told already."""
        told: list[TrailRecord] = []
        result = await self._call(module, context, ends_at, length, told)
        trail.extend(record for record in told if not isinstance(record, ExtractionRecord))
        return result

    def _after_failure(
        self,
        module: SupervisedModule,
        point: Point,
        error: str,
        where: str | None,
        took_ms: int,
        trail: list[TrailRecord],
    ) -> HookResult:
        blocks = module.spec.entry.on_failure == "block"
        told = {"chat_module": module.name, "point": str(point), "error": error, "where": where, "duration_ms": took_ms}
        log.warning("module failed", extra={**self._subject.log_fields, **told})
        trail.append(
            ModuleErrorRecord(
                id=uuid4().hex,
                at=self._store.now(),
                session_id=self._subject.session_id,
                exchange_id=self._subject.exchange_id,
                point=str(point),
                module=module.name,
                error=error,
                duration_ms=took_ms,
                outcome="blocked" if blocks else "continued",
            )
        )
        return blocked(f"the module failed: {error}", _UNCHECKED) if blocks else CONTINUE

    def _audit(
        self, module: SupervisedModule, point: Point, original: str, result: HookResult, rank: int | None
    ) -> AuditRecord:
        reason = result.block_reason or (result.audit.reason if result.audit is not None else "")
        return AuditRecord(
            id=uuid4().hex,
            at=self._store.now(),
            session_id=self._subject.session_id or "",
            exchange_id=self._subject.exchange_id or "",
            user_id=self._subject.user.id,
            rank=rank,
            point=str(point),
            module=module.name,
            action="blocked" if result.action == "block" else "modified",
            original=original,
            reason=reason,
            patterns=list(result.audit.patterns) if result.audit is not None else [],
        )


def _of_session(record: TrailRecord) -> TrailRecord:
    """A record of an exchange as one of its session alone."""
    match record:
        case AuditRecord():
            return replace(record, exchange_id="")
        case ExtractionRecord() | ModuleErrorRecord():
            return replace(record, exchange_id=None)
    return record


def _response_of(result: HookResult) -> str:
    """What the user is shown instead of a text that the module has blocked."""
    return result.direct_response.strip() or _NO_ANSWER
