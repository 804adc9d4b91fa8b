"""RunImages: reads the attached images that the models of a run are shown."""

import asyncio
import re
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from agentic_backend.agents.models.attached_images import referred_in
from agentic_backend.agents.runtime_context import AttachedImage
from agentic_backend.attachments.kinds import IMAGES
from agentic_backend.errors import AttachmentNotFound
from agentic_backend.exchange.start import ExchangeStart
from agentic_backend.protocol.parts import attachment_url
from agentic_backend.stores.base import Store

_REFERENCE = re.compile(re.escape(attachment_url("")).encode() + rb"([0-9a-f]{32})")
# How many references are looked up; those of the last messages.
_MOST = 200


def referred_in_bytes(packed: bytes) -> list[str]:
    """The ids that packed messages may refer to: whatever packs them leaves an URL as it is."""
    return [found.decode() for found in _REFERENCE.findall(packed)]


class RunImages:
    def __init__(self, store: Store, start: ExchangeStart, most_bytes: int) -> None:
        self._store = store
        self._user_id = start.record.user_id
        self._session_id = start.session.family_id if start.session is not None else None
        self._given = start.images
        self._most_bytes = most_bytes

    async def of(self, messages: Iterable[Any], *packed: bytes) -> Mapping[str, AttachedImage]:
        """The images that the messages refer to, in their order, or that packed states do; the last ones that fit.

        Images of other users, or of other sessions, are not found. Raises StoreUnavailable.
        """
        earlier = [one for state in packed if state for one in await asyncio.to_thread(referred_in_bytes, state)]
        ids = list(dict.fromkeys(reversed([*earlier, *referred_in(messages)])))[:_MOST]
        given = {name: self._given[name] for name in ids if name in self._given}
        stored = [name for name in ids if name not in given]
        return {**given, **(await self._read(stored) if stored else {})}

    async def _read(self, ids: Sequence[str]) -> Mapping[str, AttachedImage]:
        found = {each.id: each for each in await self._store.get_attachments(ids) if each.mime in IMAGES}
        own = {name: each for name, each in found.items() if each.user_id == self._user_id}
        images: dict[str, AttachedImage] = {}
        room = self._most_bytes
        for attachment_id in ids:
            record = own.get(attachment_id)
            if record is None or record.session_id != self._session_id or record.size > room:
                continue
            room -= record.size
            try:
                pieces = [piece async for piece in self._store.attachment_content(attachment_id)]
            except AttachmentNotFound:
                # It is being deleted.
                continue
            encoded = await asyncio.to_thread(_encoded, pieces)
            images[attachment_id] = AttachedImage(record.mime, encoded)
        return images


def _encoded(pieces: Sequence[bytes]) -> str:
    return b64encode(b"".join(pieces)).decode()
