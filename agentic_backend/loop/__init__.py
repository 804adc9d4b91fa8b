"""The event loop: how late it is, what blocks it, what runs beside it."""
