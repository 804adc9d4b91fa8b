"""ResumePoint: where the stream of a call can be taken up again, as the id of its events. Pure."""

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Self

import orjson
from pydantic import Field, ValidationError

from agentic_backend.errors import BadFrame
from agentic_backend.protocol.frames import Id, first_problem
from agentic_backend.protocol.parts import Value
from agentic_backend.protocol.seq import HIGHEST_SEQ
from agentic_backend.transports.mcp.messages import RpcId

HEADER = "Last-Event-ID"
_LONGEST = 4_096


class ResumePoint(Value):
    exchange_id: Id
    seq: int = Field(ge=0, le=HIGHEST_SEQ)
    """Of the last event that the client has."""
    told: int = Field(ge=0, le=HIGHEST_SEQ)
    """How often it was told of progress."""
    request_id: RpcId
    progress_token: RpcId | None

    def encode(self) -> str:
        return urlsafe_b64encode(orjson.dumps(list(self.model_dump().values()))).decode()

    @classmethod
    def decode(cls, text: str) -> Self:
        """Raises BadFrame."""
        try:
            if len(text) > _LONGEST:
                raise ValueError
            values = orjson.loads(urlsafe_b64decode(text.encode("ascii")))
            return cls(**dict(zip(cls.model_fields, values, strict=True)))
        except ValidationError as error:
            raise BadFrame(f"{HEADER}: {first_problem(error, 'value')}") from None
        except (ValueError, TypeError, binascii.Error):
            raise BadFrame(f"{HEADER}: not one of this server's") from None
