"""What clients send, within bounds, before any application sees it."""
