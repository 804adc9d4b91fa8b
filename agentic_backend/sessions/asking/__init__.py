"""The beginning of an exchange: the turn, its limits, its files, its review, the session's title."""
