from support.session_fixtures import hold, mongodb, serve, sessions

__all__ = ["hold", "mongodb", "serve", "sessions"]
