from support.session_fixtures import hold, mongodb, sessions

__all__ = ["hold", "mongodb", "sessions"]
