"""The session stream: sessions, and answers as server-sent events in five types; see docs/doors.md."""
