"""What a query brings with it, as the server's own records: the conversation before it, and the images in it."""

import asyncio
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from agentic_backend.agents.runtime_context import AttachedImage
from agentic_backend.attachments.kinds import IMAGES
from agentic_backend.protocol.messages import Channel, Role
from agentic_backend.protocol.parts import TextPart
from agentic_backend.sessions.asking.attached import GivenFile
from agentic_backend.sessions.asking.turn import PastMessage
from agentic_backend.stores.records import MessageDraft, MessageRecord, place


def past_draft(message: PastMessage) -> MessageDraft:
    """Its words, without its files."""
    return MessageDraft(role=Role(message.role), channel=Channel.FINAL, parts=[TextPart(text=message.text)])


def placed_past(past: Sequence[MessageDraft], exchange_id: str, at: datetime) -> list[MessageRecord]:
    """The messages before the query `exchange_id`. Each of the user's begins an exchange of its own."""
    exchanges: list[list[MessageDraft]] = []
    for message in past:
        if message.role is Role.USER or not exchanges:
            exchanges.append([])
        exchanges[-1].append(message)
    return [
        placed
        for number, drafts in enumerate(exchanges)
        for placed in place(drafts, session_id=None, exchange_id=f"{exchange_id}-{number}", next_rank=0, at=at)
    ]


async def images_in(files: Iterable[GivenFile]) -> Mapping[str, AttachedImage]:
    """The images among the files, by their ids."""
    images = [each for each in files if each.record.mime in IMAGES]
    return await asyncio.to_thread(_encoded, images) if images else {}


def _encoded(images: Sequence[GivenFile]) -> dict[str, AttachedImage]:
    return {each.record.id: AttachedImage(each.record.mime, b64encode(each.content).decode()) for each in images}
