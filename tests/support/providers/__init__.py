"""Providers of models, as small HTTP servers that answer as they are told."""
