"""The second limit: uvicorn and a WebSocket that answers every frame with 200 frames, and nothing else.

Run as `python bare_server.py`; prints the address that it listens on, and serves until it is terminated.
"""

import socket

import uvicorn
from scripted_graph import TOKEN, TOKENS
from starlette.applications import Starlette
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

_DELTA = f'{{"type":"delta","text":"{TOKEN}"}}'
_FINAL = '{"type":"final","status":"ok"}'


async def endpoint(websocket: WebSocket) -> None:
    await websocket.accept("chat.v2")
    try:
        while True:
            await websocket.receive_text()
            for _ in range(TOKENS - 1):
                await websocket.send_text(_DELTA)
            await websocket.send_text(_FINAL)
    except WebSocketDisconnect:
        return


if __name__ == "__main__":
    application = Starlette(routes=[WebSocketRoute("/{path:path}", endpoint)])
    config = uvicorn.Config(
        application, ws="websockets-sansio", log_level="warning", lifespan="off", ws_per_message_deflate=False
    )
    listening = socket.create_server(("127.0.0.1", 0))
    print(f"Bare socket at http://127.0.0.1:{listening.getsockname()[1]}", flush=True)
    uvicorn.Server(config).run(sockets=[listening])
