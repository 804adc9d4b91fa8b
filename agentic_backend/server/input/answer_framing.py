"""How an answer is framed for clients that uvicorn's cycle would answer wrongly. Others cost nothing."""

from uvicorn._types import ASGI3Application, ASGIReceiveCallable, ASGISendCallable, ASGISendEvent, Scope
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle


def framed(cycle: RequestResponseCycle, app: ASGI3Application) -> ASGI3Application:
    """The application that answers in `cycle`.

    A client of HTTP/1.0 knows no chunks: an answer without a length ends with its connection (RFC 9112 §6.3). Who waits
    for `100 Continue` and gets a final answer may send the body or not, so what follows can't be told apart from it:
    that answer closes the connection (RFC 9110 §10.1.1).
    """
    if cycle.scope["http_version"] != "1.0" and not cycle.waiting_for_100_continue:
        return app

    async def answering(scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        ends_with_connection = False

        async def send_framed(message: ASGISendEvent) -> None:
            nonlocal ends_with_connection
            if message["type"] == "http.response.start":
                if cycle.waiting_for_100_continue:
                    cycle.keep_alive = False
                names = {name.lower() for name, _ in message.get("headers", ())}
                if cycle.scope["http_version"] == "1.0" and b"content-length" not in names:
                    ends_with_connection, cycle.chunked_encoding = True, False
            elif message["type"] == "http.response.body" and ends_with_connection:
                # Each part is as long as it is expected to be.
                cycle.expected_content_length = len(message.get("body", b""))
            await send(message)

        await app(scope, receive, send_framed)

    return answering
