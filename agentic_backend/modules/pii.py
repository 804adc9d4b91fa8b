"""PiiRedaction: replaces personal data in messages and answers, blocks it, or keeps it from models only.

With `round_trip`, models are given placeholders, and people see the values: a placeholder in the model's answer
is shown as its value. The values are found again in the conversation, so that nothing has to be kept. A value is one
value in whatever form it is typed; people see the form that was typed last.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from agentic_backend.modules.placeholders import has_placeholder, placeholder, restore
from agentic_backend.modules.texts import replaced, replaced_in, search
from agentic_backend.policy.chat_module import ChatModule, ModuleServices, ModuleSettings
from agentic_backend.policy.hook_context import HookContext
from agentic_backend.policy.hook_result import CONTINUE, Audit, Extraction, HookResult, Modifications, blocked
from agentic_backend.protocol.messages import Role
from agentic_backend.protocol.parts import text_of
from agentic_backend.text.pii_detectors import PII_TYPES, Found, PiiType, find_pii

_REASON = "personal data"


class PiiSettings(ModuleSettings):
    types: tuple[PiiType, ...] = Field(PII_TYPES, min_length=1, description="The kinds of data to look for.")
    strategy: Literal["redact", "mask", "hash", "block", "round_trip"] = Field(
        "redact",
        description="`redact`: `[REDACTED_EMAIL]`. `mask`: `****` and the last four characters. `hash`: a hash keyed "
        "by the session. `block`: nothing passes. `round_trip`: placeholders for models, the values for people.",
    )
    apply_to: tuple[Literal["message", "response"], ...] = Field(
        ("message", "response"), min_length=1, description="Whose texts; `round_trip` needs both."
    )
    direct_response: str = Field(
        "Please leave out personal data, such as e-mail addresses or card numbers.",
        max_length=2_000,
        description="What the user is shown where the strategy is `block`.",
    )


class PiiRedaction(ChatModule):
    Settings = PiiSettings
    settings: PiiSettings

    def __init__(self, settings: PiiSettings, services: ModuleServices) -> None:
        super().__init__(settings, services)
        self.reads_messages = settings.strategy == "round_trip"
        """The values that placeholders stand for."""

    async def before_ai(self, context: HookContext) -> HookResult:
        current = context.conversation.current
        if current is None or not self._applies_to("message"):
            return CONTINUE
        found = await self._find(current.text)
        if not found:
            return CONTINUE
        if self.settings.strategy == "block":
            return self._blocked(found, "user_message")
        # As long as the search itself, where there are many.
        parts = await search(current.text, lambda _: replaced_in(current.parts, self._stand_ins(found, context)))
        if self.settings.strategy == "round_trip":
            return HookResult(
                modifications=Modifications(message_for_model=parts), extractions=[_extraction(found, "user_message")]
            )
        return HookResult(
            modifications=Modifications(message=parts),
            extractions=[_extraction(found, "user_message")],
            audit=Audit(_REASON, _types(found)),
        )

    async def after_ai(self, context: HookContext) -> HookResult:
        if context.response is None:
            return CONTINUE
        text = context.response.text
        if self.settings.strategy == "round_trip":
            return await self._restored(text, context)
        found = await self._find(text) if self._applies_to("response") else []
        if not found:
            return CONTINUE
        if self.settings.strategy == "block":
            return self._blocked(found, "response")
        return HookResult(
            modifications=Modifications(
                response=await search(text, lambda whole: replaced(whole, self._stand_ins(found, context)))
            ),
            extractions=[_extraction(found, "response")],
            audit=Audit(_REASON, _types(found)),
        )

    def _applies_to(self, what: Literal["message", "response"]) -> bool:
        return self.settings.strategy == "round_trip" or what in self.settings.apply_to

    async def _find(self, text: str) -> list[Found]:
        return await search(text, lambda whole: find_pii(whole, self.settings.types))

    def _blocked(self, found: Sequence[Found], location: str) -> HookResult:
        result = blocked(_REASON, self.settings.direct_response, patterns=_types(found))
        return HookResult(
            action=result.action,
            block_reason=result.block_reason,
            direct_response=result.direct_response,
            extractions=[_extraction(found, location)],
            audit=result.audit,
        )

    def _stand_ins(self, found: Sequence[Found], context: HookContext) -> list[tuple[int, int, str]]:
        return [(one.start, one.end, self._stand_in(one, context)) for one in found]

    def _stand_in(self, found: Found, context: HookContext) -> str:
        match self.settings.strategy:
            case "redact":
                return f"[REDACTED_{found.type.upper()}]"
            case "mask":
                return "****" + (found.key[-4:] if len(found.key) > 8 else "")
            case _:
                return placeholder(found, _session_of(context))

    async def _restored(self, text: str, context: HookContext) -> HookResult:
        if not await search(text, has_placeholder):
            return CONTINUE
        said = [text_of(message.parts) for message in context.conversation.messages if message.role is not Role.TOOL]
        said += context.conversation.decided
        if context.conversation.current is not None:
            said.append(context.conversation.current.text)
        # No value goes beyond an empty line.
        values = await self._find("\n\n".join(said))
        restored = await search(text, lambda whole: restore(whole, values, _session_of(context)))
        if restored == text:
            return CONTINUE
        return HookResult(modifications=Modifications(response=restored, keep_response_for_model=True))


def _session_of(context: HookContext) -> str:
    """What keys placeholders: the session, or in query mode, which has none, the exchange."""
    current = context.conversation.current
    return context.session.id or (current.exchange_id if current else context.request.id)


def _types(found: Sequence[Found]) -> list[str]:
    return sorted({one.type for one in found})


def _extraction(found: Sequence[Found], location: str) -> Extraction:
    counts = Counter(one.type for one in found)
    return Extraction("pii_detected", {"location": location, "types": sorted(counts), "count": sum(counts.values())})
