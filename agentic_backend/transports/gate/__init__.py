"""The ASGI middleware that every request passes."""
