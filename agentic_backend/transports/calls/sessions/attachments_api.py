"""The calls for attachments: uploading, fetching and deleting files.

What is fetched is never active content: it is a download in a sandbox, of the type that its bytes have.
"""

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from agentic_backend.attachments.kinds import HTML, TEXT
from agentic_backend.auth.user import User
from agentic_backend.errors import AttachmentNotFound, AttachmentSent, LimitReached, MessageTooLarge, Overloaded
from agentic_backend.mcp import UI_RESOURCE
from agentic_backend.protocol.views import AttachmentView
from agentic_backend.stores.records import AttachmentRecord
from agentic_backend.transports.door_services import DoorServices
from agentic_backend.transports.rest.content_disposition import disposition_of
from agentic_backend.transports.rest.operation import BINARY, PREFIX, Operation, Streamed
from agentic_backend.transports.rest.upload import read_upload

FIELD = "file"
_CONTENT_SECURITY_POLICY = "sandbox; default-src 'none'"


class AttachmentsApi:
    def __init__(self, services: DoorServices) -> None:
        self._attachments = services.sessions.attachments
        self._most_bytes = services.limits.attachment_bytes

    def operations(self) -> list[Operation]:
        path, found = f"{PREFIX}/attachments/{{id}}", (AttachmentNotFound,)
        uploading = (MessageTooLarge, LimitReached, Overloaded)
        content = Streamed(BINARY, bytes)
        return [
            Operation(
                "POST", f"{PREFIX}/attachments", self.upload_attachment, status=201, errors=uploading, upload=FIELD
            ),
            Operation("GET", path, self.get_attachment, answer=content, errors=found),
            Operation("DELETE", path, self.delete_attachment, errors=(*found, AttachmentSent)),
        ]

    async def upload_attachment(self, request: Request, user: User) -> AttachmentView:
        """Upload a file, to be attached to an ask: an image, a document or a text. Its content tells what it is."""
        async with self._attachments.uploading(user):
            upload = await read_upload(request, FIELD, self._most_bytes)
            with upload.file:
                record = await self._attachments.add(user, upload.name, upload.file)
        return record.shown()

    async def get_attachment(self, request: Request, user: User, id: str) -> Response:
        """The content of an attachment, as a download."""
        record = await self._attachments.get(user, id)
        etag = f'"{record.sha256}"'
        headers = {
            "content-disposition": disposition_of(record.name),
            "content-security-policy": _CONTENT_SECURITY_POLICY,
            # What is fetched again is asked for with a token again.
            "cache-control": "private, no-cache",
            "vary": "authorization",
            "etag": etag,
        }
        if request.headers.get("if-none-match") == etag:
            return Response(status_code=304, headers=headers)
        headers["content-length"] = str(record.size)
        # Not as `media_type`, to which Starlette adds a charset.
        headers["content-type"] = _media_type(record)
        return StreamingResponse(self._attachments.content(record), headers=headers)

    async def delete_attachment(self, user: User, id: str) -> None:
        """Delete an attachment that was not sent. One that was goes with its session."""
        await self._attachments.delete(user, id)


def _media_type(record: AttachmentRecord) -> str:
    """The type to serve it as: never one that a browser would run."""
    if record.mime == UI_RESOURCE:
        # The page gives it to a frame of its own.
        return f"{TEXT}; charset=utf-8"
    if record.mime not in (TEXT, HTML):
        return record.mime
    # What was read as it is has as many bytes as it was sent with, but for a mark.
    is_utf_8 = record.text is not None and record.size - len(record.text.encode()) in (0, 3)
    return f"{TEXT}; charset=utf-8" if is_utf_8 else TEXT
