"""The forms of OpenAI's API, for clients that were written for it; see docs/doors.md."""
