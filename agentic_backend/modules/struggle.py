"""StruggleDetector: emits `struggle_detected` when a person's messages show that they don't get on.

It reads the words of the person only, and tells signs, not a judgement. It runs beside the exchange.
"""

import re
from collections import Counter
from collections.abc import Sequence

from pydantic import Field

from agentic_backend.modules.linear_pattern import LinearPattern
from agentic_backend.policy.chat_module import ChatModule, ModuleSettings
from agentic_backend.policy.hook_context import HookContext
from agentic_backend.policy.hook_result import CONTINUE, Extraction, HookResult
from agentic_backend.protocol.messages import Role
from agentic_backend.protocol.parts import text_of

_LONGEST_TEXT = 8_192
_WORD = re.compile(r"[^\W\d_]{3,}")
# A question of fewer words is too common to be called repeated.
_FEWEST_WORDS = 3
_SHORTEST_TOPIC = 5

_ERROR = LinearPattern(
    r"\btraceback \(most recent|\b[a-z.]{0,60}(?:error|exception|fehler|erreur)\b ?:|\bsegmentation fault\b"
    r"|\berror [a-z]?\d+"
    r"|\b(?:it|this|that|code|test) (?:still |again )?(?:fails|failed|crashes|crashed)\b"
)
_FRUSTRATION = LinearPattern(
    r"\b(?:i (?:give up|hate this|am (?:so )?(?:stuck|lost|frustrated))|i'm (?:so )?(?:stuck|lost|frustrated))\b"
    r"|\b(?:this (?:is (?:so )?(?:stupid|impossible|useless|annoying|frustrating)|makes no sense)|nothing works)\b"
    r"|\b(?:still (?:does ?n[o']t|not) work(?:ing)?|why (?:does ?n[o']t|won't) (?:it|this) work)\b"
    r"|\b(?:ich gebe auf|ich komme nicht weiter|geht immer noch nicht|funktioniert immer noch nicht|so ein mist)\b"
    r"|\b(?:j'abandonne|je suis (?:perdue?|bloqu[ée]e?)|[cç]a ne marche (?:toujours )?pas)\b"
    r"|\b(?:me rindo|estoy (?:perdid|atascad)[oa]|sigue sin funcionar)\b|[!?]{3,}"
)
_CONFUSION = LinearPattern(
    r"\b(?:i (?:still |really )?(?:do ?n[o']t|cannot|can't) (?:understand|get (?:it|this|that)))\b"
    r"|\b(?:i'm confused|what do you mean)\b"
    r"|\bich (?:verstehe|kapiere) (?:es|das|das alles)?\s?(?:immer noch )?nicht\b"
    r"|\bje ne comprends (?:toujours )?pas\b|\bno (?:lo )?entiendo\b"
)


class StruggleSettings(ModuleSettings):
    messages: int = Field(6, ge=2, le=50, description="How many of the person's last messages are looked at.")
    similarity: float = Field(
        0.6, gt=0, le=1, description="The share of common words from which on two questions are the same."
    )
    min_errors: int = Field(2, ge=1, le=50, description="Messages with an error, the last among them, that are a sign.")
    min_indicators: int = Field(1, ge=1, le=4, description="How many signs make a `struggle_detected`.")


class StruggleDetector(ChatModule):
    reads_messages = True
    Settings = StruggleSettings
    settings: StruggleSettings

    async def on_message(self, context: HookContext) -> HookResult:
        current = context.conversation.current
        if current is None:
            return CONTINUE
        earlier = [text_of(message.parts) for message in context.conversation.messages if message.role is Role.USER]
        earlier = [text[:_LONGEST_TEXT] for text in earlier[1 - self.settings.messages :]]
        text = current.text[:_LONGEST_TEXT]
        repeated = [other for other in earlier if self._asks_the_same(text, other)]
        indicators = self._indicators(text, earlier, repeated)
        if len(indicators) < self.settings.min_indicators:
            return CONTINUE
        data: dict[str, object] = {"indicators": indicators}
        if topic := _topic([text, *(repeated or earlier)]):
            data["topic"] = topic
        return HookResult(extractions=[Extraction("struggle_detected", data)])

    def _indicators(self, text: str, earlier: Sequence[str], repeated: Sequence[str]) -> list[str]:
        indicators = []
        if _ERROR.matches(text) and 1 + sum(map(_ERROR.matches, earlier)) >= self.settings.min_errors:
            indicators.append("repeated_errors")
        if repeated:
            indicators.append("repeated_question")
        if _FRUSTRATION.matches(text):
            indicators.append("frustration")
        if _CONFUSION.matches(text):
            indicators.append("confusion")
        return indicators

    def _asks_the_same(self, one: str, other: str) -> bool:
        words, others = _words(one), _words(other)
        if min(len(words), len(others)) < _FEWEST_WORDS:
            return False
        return len(words & others) / len(words | others) >= self.settings.similarity


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text.casefold()))


def _topic(texts: Sequence[str]) -> str | None:
    """The long word that most of `texts` have in common, if two have one."""
    counts = Counter(word for text in texts for word in sorted(_words(text)) if len(word) >= _SHORTEST_TOPIC)
    if not counts:
        return None
    word, count = max(counts.items(), key=lambda item: (item[1], len(item[0]), item[0]))
    return word[:50] if count > 1 else None
