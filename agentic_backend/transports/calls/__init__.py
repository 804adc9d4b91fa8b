"""The REST calls, by whom and what they are about."""
