"""The WebSocket's door: its endpoint, its connections, its codecs."""
