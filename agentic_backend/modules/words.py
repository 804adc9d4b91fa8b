"""WordFilter: blocks texts with listed words or patterns, or replaces these."""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from agentic_backend.modules.folded_text import fold
from agentic_backend.modules.linear_pattern import LinearPattern
from agentic_backend.modules.texts import search, with_texts
from agentic_backend.modules.word_list import WordList
from agentic_backend.policy.chat_module import ChatModule, ModuleServices, ModuleSettings
from agentic_backend.policy.hook_context import HookContext
from agentic_backend.policy.hook_result import CONTINUE, Audit, HookResult, Modifications, blocked
from agentic_backend.protocol.parts import Part, text_of

_REASON = "a listed word or pattern"


def _compiles(pattern: str) -> str:
    LinearPattern(pattern)
    return pattern


def _is_visible(word: str) -> str:
    if not fold(word).text.strip():
        raise ValueError("has no visible character")
    return word


class WordSettings(ModuleSettings):
    words: tuple[Annotated[str, Field(max_length=200), AfterValidator(_is_visible)], ...] = Field(
        (), max_length=10_000, description="Words and phrases. Case, width and invisible characters make no difference."
    )
    patterns: tuple[Annotated[str, Field(max_length=1_000), AfterValidator(_compiles)], ...] = Field(
        (), max_length=40, description="Regular expressions of RE2, without regard to case."
    )
    action: Literal["block", "replace"] = Field("block", description="What happens to a text that has one.")
    replacement: str = Field(
        "***", pattern=r"\S", max_length=20, description="What replaces each, where the action is `replace`."
    )
    apply_to: tuple[Literal["message", "response"], ...] = Field(
        ("message", "response"), min_length=1, description="Whose texts."
    )
    direct_response: str = Field(
        "I can't help with that.", max_length=2_000, description="What the user is shown where the action is `block`."
    )


class WordFilter(ChatModule):
    Settings = WordSettings
    settings: WordSettings

    def __init__(self, settings: Any, services: ModuleServices) -> None:
        super().__init__(settings, services)
        self._words = WordList(self.settings.words)
        self._patterns = {pattern: LinearPattern(pattern) for pattern in self.settings.patterns}

    async def before_ai(self, context: HookContext) -> HookResult:
        current = context.conversation.current
        if current is None or "message" not in self.settings.apply_to:
            return CONTINUE
        matched = await search(current.text, self._matched)
        if not matched:
            return CONTINUE
        if self.settings.action == "block":
            return blocked(_REASON, self.settings.direct_response, patterns=matched)
        parts = await with_texts(current.parts, self._replaced)
        message: str | list[Part] = parts
        if await search(text_of(parts), self._matched):
            # A phrase goes from one part to the next.
            message = await search(current.text, self._replaced)
        return HookResult(modifications=Modifications(message=message), audit=Audit(_REASON, matched))

    async def after_ai(self, context: HookContext) -> HookResult:
        if context.response is None or "response" not in self.settings.apply_to:
            return CONTINUE
        text = context.response.text
        matched = await search(text, self._matched)
        if not matched:
            return CONTINUE
        if self.settings.action == "block":
            return blocked(_REASON, self.settings.direct_response, patterns=matched)
        return HookResult(
            modifications=Modifications(response=await search(text, self._replaced)), audit=Audit(_REASON, matched)
        )

    def _matched(self, text: str) -> list[str]:
        """The patterns that `text` matches, and `words` if it has one of the words."""
        folded = fold(text).text
        matched = [source for source, pattern in self._patterns.items() if pattern.matches(folded)]
        return ["words", *matched] if next(self._words.find(folded), None) else matched

    def _replaced(self, text: str) -> str:
        folded = fold(text)
        places = list(self._words.find(folded.text))
        for pattern in self._patterns.values():
            places += pattern.find(folded.text)
        pieces: list[str] = []
        done = 0
        for start, end in sorted(folded.span(*place) for place in places):
            if start >= done:
                pieces += text[done:start], self.settings.replacement
            done = max(done, end)
        return "".join([*pieces, text[done:]])
