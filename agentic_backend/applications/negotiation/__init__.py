"""Rehearsal of hard conversations with a counterparty that knows only what it may know."""
