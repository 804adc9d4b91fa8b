"""The chat runs: runs of agents as server-sent events, and the answers to what they ask; see docs/doors.md."""
