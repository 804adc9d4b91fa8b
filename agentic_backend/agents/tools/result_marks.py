"""Marks that the server sets in the `additional_kwargs` of a tool's result; its message has them in its extras."""

FORBIDDEN = "forbidden"
"""The user may not make the call: the permissions that are lacking."""

BACKGROUND = "background"
"""The call goes on running: the id of its work."""
