"""What a message has beside its words: parts that people see, and texts that models read. Pure."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from agentic_backend.attachments.kinds import IMAGES
from agentic_backend.protocol.parts import FilePart, ImageUrlPart, Part, TextPart, attachment_url
from agentic_backend.stores.records import AttachmentRecord, MessageDraft

_INSTRUCTIONS = "\nThe program through which this message came asks you to keep to these instructions:\n\n{}"


@dataclass(frozen=True, slots=True)
class GivenFile:
    """A file that comes with a query itself, and is kept nowhere."""

    record: AttachmentRecord
    content: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Attached:
    files: Sequence[AttachmentRecord] = ()
    instructions: str = field(default="", repr=False)
    """What the client's program asks of the agent. It has no more weight than the user's own words."""

    @property
    def parts(self) -> list[Part]:
        """A file for each, and an image beside it for clients that show images and no files."""
        parts: list[Part] = []
        for each in self.files:
            parts.append(FilePart(attachment_id=each.id, name=each.name, mime=each.mime, size=each.size))
            if each.mime in IMAGES:
                parts.append(ImageUrlPart(url=attachment_url(each.id), alt=each.name))
        return parts

    @property
    def model_parts(self) -> list[Part]:
        """What models are given beside the message and its images."""
        texts = [_fenced(each.name, each.text) for each in self.files if each.text is not None]
        if self.instructions:
            texts.append(_INSTRUCTIONS.format(self.instructions))
        return [TextPart(text="\n".join(texts))] if texts else []

    def beside(self, message: MessageDraft) -> MessageDraft:
        """The message with all of this."""
        parts = [*message.parts, *self.parts]
        return replace(message, parts=parts, model_parts=[*parts, *self.model_parts] if self.model_parts else [])

    @property
    def characters(self) -> int:
        return sum(len(each.text) for each in self.files if each.text is not None)


NOTHING_ATTACHED = Attached()


def _fenced(name: str, text: str) -> str:
    """The text after its name, in a fence that is longer than any within it."""
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
    return f"\nThe attached file {name!r}:\n\n{fence}\n{text}\n{fence}"
