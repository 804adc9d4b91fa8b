"""JSON-RPC 2.0 as MCP has it: what a client sends, and what it is sent."""

from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from agentic_backend.errors import BadFrame
from agentic_backend.protocol.events import Code, ErrorInfo, RequestId, Retryable
from agentic_backend.protocol.frames import LONGEST_ID, Frame
from agentic_backend.protocol.parts import Value, absent
from agentic_backend.transports.rest.operation import ErrorForm

INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS, NO_SUCH_RESOURCE, REFUSED = -32600, -32601, -32602, -32002, -32000
_LARGEST = 2**53

RpcId = Annotated[int, Field(ge=-_LARGEST, le=_LARGEST)] | Annotated[str, Field(max_length=LONGEST_ID)]
"""The id of a request, or the token of its progress."""
_RPC_ID: TypeAdapter[str | int] = TypeAdapter(RpcId)
Json = dict[str, Any]


class ClientMessage(Frame):
    """A request (with an `id` and a `method`), a notification (no `id`), or the answer to what the server asks."""

    model_config = ConfigDict(
        extra="ignore",
        json_schema_extra={
            "examples": [
                {
                    "jsonrpc": "2.0",
                    "id": 1,
                    "method": "tools/call",
                    "params": {"name": "assistant", "arguments": {"message": "What is the weather in Bern?"}},
                }
            ]
        },
    )

    jsonrpc: Literal["2.0"]
    id: RpcId | None = None
    method: str | None = Field(default=None, max_length=LONGEST_ID)
    params: Json = Field(default_factory=dict, repr=False)
    result: Json | None = Field(default=None, repr=False)
    error: Json | None = Field(default=None, repr=False)

    @property
    def progress_token(self) -> str | int | None:
        """Raises BadFrame."""
        meta = self.params.get("_meta")
        token = meta.get("progressToken") if isinstance(meta, dict) else None
        if token is not None and id_in(token) is None:
            raise BadFrame("params._meta.progressToken: expected a text or an integer, as an id")
        return token


def id_in(value: object) -> str | int | None:
    """The id that a parameter names; None if it is none."""
    try:
        return _RPC_ID.validate_python(value, strict=True)
    except ValidationError:
        return None


class RpcErrorData(Value):
    """The error as every door tells it."""

    code: Code
    content: str
    retryable: Retryable
    request_id: RequestId
    retry_after_s: float | None = absent()

    @classmethod
    def of(cls, info: ErrorInfo) -> Self:
        return cls(
            code=info.code,
            content=info.content,
            retryable=info.retryable,
            request_id=info.request_id,
            retry_after_s=info.retry_after_s,
        )


class RpcErrorInfo(Value):
    """What went wrong."""

    code: int
    message: str
    data: RpcErrorData | None = absent()


class RpcRefusal(ErrorForm):
    """A request that has reached no method. Whose answer it is, nobody knows: its `id` is null."""

    jsonrpc: Literal["2.0"] = "2.0"
    id: None = None
    error: RpcErrorInfo

    @classmethod
    def of(cls, info: ErrorInfo) -> Self:
        code = INVALID_REQUEST if info.code == BadFrame.code else REFUSED
        return cls(error=RpcErrorInfo(code=code, message=info.content, data=RpcErrorData.of(info)))


class ServerMessage(Value):
    """The answer to a request (`result` or `error`), a notification, or a request to the client's user."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "jsonrpc": "2.0",
                    "id": 1,
                    "result": {
                        "content": [{"type": "text", "text": "It is sunny in Bern, at 18 °C."}],
                        "structuredContent": {"status": "ok", "answer": "It is sunny in Bern, at 18 °C."},
                        "isError": False,
                    },
                }
            ]
        }
    )

    jsonrpc: Literal["2.0"] = "2.0"
    id: str | int | None = absent()
    method: str | None = absent()
    params: Json | None = absent()
    result: Json | None = absent()
    error: RpcErrorInfo | None = absent()


class RpcError(Exception):
    """The error with which a request is answered that has reached its method."""

    def __init__(self, code: int, message: str, data: RpcErrorData | None = None) -> None:
        super().__init__(message)
        self.info = RpcErrorInfo(code=code, message=message, data=data)
